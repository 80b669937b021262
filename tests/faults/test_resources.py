"""Memory, disk, tools: what a capture needs of the machine is not there."""

import contextlib
import json
import os
import textwrap

FILL = "workload.how=fill,nothing"


def fill(path):
    """Write to `path` what there is room for."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        while os.write(file, bytes(1 << 16)):
            pass
    os.close(file)


def test_a_run_that_needs_more_memory_than_it_may_take_is_ended_with_that_reason(farm):
    status, said = farm.finish("workload.how=gobble", "memory_limit_mb=600")
    assert status == 1
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()
    record = farm.records()["gobble"]
    assert record["status"] == "oom"
    assert record["reason"].startswith("the capture took ")
    assert record["reason"].endswith("memory_limit_mb=600; lower batch or the model's sizes")
    assert record["reason"] in said
    assert record["reason"] in farm.report()
    assert "in the fourth step" in farm.report()
    assert "rank0_dp0_tp0_pp0.steps.json" in [file["path"] for file in record["files"]]
    assert farm.captures("workload.how=gobble") == {"gobble"}


def test_a_disk_that_fills_up_is_the_reason_and_leaves_room_for_the_report(farm, small_disk):
    results = small_disk(farm.folder / "results", 24)
    status, said = farm.finish(FILL)
    assert status == 1
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()
    record = farm.records()["fill"]
    assert record["status"] == "error"
    assert record["reason"].startswith("no space is left on the disk of ")
    assert "in the fourth step" in record["log_tail"]
    assert [file["path"] for file in record["files"] if "half" in file["path"]] == []
    assert (
        "removed, as the disk was full when it was written: rank0_dp0_tp0_pp0.half.json"
        in record["warnings"]
    )
    assert record["reason"] in said
    assert record["reason"] in farm.report()
    good = farm.captured("nothing")

    farm.recover()
    # Now somebody else fills the disk, and nothing at all can be written.
    fill(results / "ballast")
    status, said = farm.finish(FILL)
    assert status == 1
    assert "no space" in said.lower()
    assert "Traceback" not in said
    # As it was before, or with this failure where there was room for it.
    farm.check_every_file_is_whole()
    assert record["reason"] in farm.report()

    (results / "ballast").unlink()
    assert len(farm.captures(FILL)) == 1
    status, said = farm.finish(FILL)
    assert status == 0, said
    assert farm.captured("nothing") == good


def test_a_script_that_never_steps_is_told_what_to_do_and_tried_again(farm):
    script = farm.folder / "idle.py"
    script.write_text("print('in no step')\n")
    words = ("workload=script", "workload.command=idle.py")
    status, said = farm.finish(*words)
    assert status == 1
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()
    (path,) = farm.folder.glob("results/runs/*/capture/baseline/rep0/capture.json")
    record = json.loads(path.read_text())
    assert record["status"] == "error"
    assert "the script ended without a step" in record["reason"]
    assert record["reason"] in said
    assert record["reason"] in farm.report()
    assert "in no step" in farm.report()

    script.write_text("import profkit\nfor _ in range(9):\n    profkit.step()\n")
    status, said = farm.finish(*words)
    assert status == 0, said
    assert json.loads(path.read_text())["attempt"] == 2


TOOLS = {
    "absent": "no-such-profiler",
    "forbidden": "forbidden-profiler",
}
PLUGIN = '''
    """A profiler that cannot run here."""

    from collections.abc import Sequence
    from dataclasses import dataclass
    from pathlib import Path
    from typing import ClassVar

    from profkit.capture.base import Rank, Wrapper


    @dataclass(frozen=True, kw_only=True, slots=True)
    class Capture(Wrapper):
        """Wrap the workload."""

        binary: ClassVar = "{binary}"

        def command(self, workload: Sequence[str], out: Path, rank: Rank) -> list[str]:
            """See `Wrapper.command`."""
            return [self.binary, *workload]
'''


def test_a_tool_that_is_missing_or_not_permitted_costs_only_its_own_captures(farm, monkeypatch):
    for name, binary in TOOLS.items():
        plugin = textwrap.dedent(PLUGIN).lstrip().format(binary=binary)
        (farm.folder / f"profkit/capture/{name}.py").write_text(plugin)
        yaml = f"# @package tools.{name}\n# A profiler that cannot run here.\n{{}}\n"
        (farm.folder / f"conf/tool/{name}.yaml").write_text(yaml)
    script = farm.folder / "bin" / TOOLS["forbidden"]
    script.parent.mkdir()
    version = '#!/bin/sh\n[ "$1" = --version ] && echo 1.0 && exit\n'
    script.write_text(f"{version}echo 'attach: Operation not permitted' >&2\nexit 13\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    words = ("workload.how=nothing", "tool=[absent,forbidden]")
    status, said = farm.finish(*words)
    assert status == 1, said
    farm.check_nothing_is_left_running()
    farm.check_every_file_is_whole()
    reasons = {
        "absent": "unavailable: no-such-profiler is not installed",
        "forbidden": "error: exit status 13: attach: Operation not permitted",
    }
    report = farm.report()
    for reason in reasons.values():
        assert reason in said
        assert reason.partition(": ")[2] in report
    assert "attach: Operation not permitted" in report
    assert farm.records()["nothing"]["status"] == "ok"

    good = farm.captured("nothing")
    script.write_text(f'{version}exec "$@"\n')
    (script.parent / TOOLS["absent"]).write_text(script.read_text())
    (script.parent / TOOLS["absent"]).chmod(0o755)
    status, said = farm.finish(*words)
    assert status == 0, said
    assert farm.captured("nothing") == good
