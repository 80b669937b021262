"""The files that a rank runs: which ones count, and with which content."""

import _io
import builtins
import hashlib
import importlib.util
import io
import json
import os
import py_compile
import runpy
import sys
import time
import types
from pathlib import Path

import pytest

from profkit.capture.base import Rank
from profkit.capture.harness.ranks.opened_files import OpenedFiles
from profkit.capture.harness.ranks.sources import CHANGED_MEANWHILE, SourcesListener, collect
from profkit.capture.harness.record import rank_warnings
from profkit.capture.harness.spec import Spec

RANK = Rank(rank=0, world_size=2, dp=0)
NOTHING = types.SimpleNamespace(paths={}, stop=bool)
CAPTURE = Path("results/runs/r/capture/baseline/rep0")


pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Stand in the folder of a project with a script, an hour old."""
    monkeypatch.chdir(tmp_path)
    CAPTURE.mkdir(parents=True)
    # Modules of the tests, which are a user's code as well.
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(Path(__file__).parents[4])):
            monkeypatch.delitem(sys.modules, name)
    written("train.py")


@pytest.fixture
def loaded(monkeypatch):
    """Return a function that pretends that a file was loaded as a module."""

    def load(path, name=""):
        name = name or Path(path).stem
        module = types.ModuleType(name)
        module.__file__ = str(Path(path).absolute())
        monkeypatch.setitem(sys.modules, name, module)

    return load


def written(path, text="x = 1\n", age_s=3600):
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    then = time.time() - age_s
    os.utime(file, (then, then))
    return file


@pytest.fixture
def opened():
    """Return what stands for ``open`` meanwhile."""
    opened = OpenedFiles()
    yield opened
    opened.stop()


def listener(command="train.py", rank=RANK, opened=NOTHING):
    workload = {"workload": {"name": "script", "command": command}}
    out = str(CAPTURE.absolute())
    return SourcesListener(
        Spec(token="", tool="baseline", out=out, workload=workload), rank, opened
    )


def found():
    return {entry["path"]: entry["sha256"] for entry in collect(CAPTURE, time.time_ns())}


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_modules_of_the_user_count_and_no_others(loaded):
    loaded("train.py")
    loaded(written("pkg/inner.py", "y = 2\n"), "pkg.inner")
    loaded(written("../beside/tool.py"))
    loaded(written(".venv/lib/python3.12/site-packages/torch/__init__.py"), "torch")
    loaded(written("cache/torch/generated.py"), "torch._inductor.generated")
    loaded(written(".cache/kernel.py"))
    loaded(written("../torchinductor_me/i5/kernel.main.so"), "kernel")
    loaded(written(f"compiled/c{'ab2' * 17}.py"), f"c{'ab2' * 17}")
    listener().begin()
    assert found() == {
        "train.py": sha("x = 1\n"),
        "pkg/inner.py": sha("y = 2\n"),
        "../beside/tool.py": sha("x = 1\n"),
    }
    assert not list(CAPTURE.iterdir()), "the files of ranks are gone"


def test_an_argument_that_is_longer_than_a_name_may_be_is_no_file():
    written("data.txt")
    listener(f"train.py data.txt --config={'x' * 300}").begin()
    assert set(found()) == {"data.txt"}


def test_a_project_in_a_hidden_folder_and_a_module_in_an_archive_count(loaded):
    written(".work/train.py")
    loaded(written(".work/net.py"))
    loaded(written("app.pyz") / "__main__.py", "__main__")
    listener(".work/train.py").begin()
    assert set(found()) == {".work/net.py", "app.pyz"}


def test_what_is_imported_after_the_first_step_counts(loaded):
    sources = listener()
    sources.begin()
    loaded(written("late.py"))
    sources.write()
    assert "late.py" in found()


def test_a_file_that_is_edited_after_the_first_step_counts_as_it_ran(loaded):
    loaded(written("net.py"))
    sources = listener()
    sources.begin()
    written("net.py", "x = 2\n", age_s=-1)
    sources.write()
    assert found()["net.py"] == sha("x = 1\n")


def test_a_file_that_is_edited_before_the_first_step_is_not_known_and_one_generated_no_source(
    loaded,
):
    sources = listener()
    loaded(written("net.py", age_s=-2))
    loaded(written("compiled.py", "x = 1\n"))
    py_compile.compile("compiled.py")
    written("compiled.py", "x = 2\n", age_s=-2)
    loaded(written("generated.py", age_s=-2))
    py_compile.compile("generated.py", importlib.util.cache_from_source("generated.py"))
    written("generated.py", "x = 2\n", age_s=-4)
    sources.begin()
    assert found() == {"net.py": CHANGED_MEANWHILE, "compiled.py": CHANGED_MEANWHILE}
    notes = rank_warnings.collect(CAPTURE)
    assert notes[0].endswith("was edited while it ran: its hash is not known")


def test_small_files_that_the_command_names_count_unless_the_run_writes_them():
    written("cfg.yaml", "a: 1\n")
    written("--odd", "b")
    written("run.log")
    with written("data.bin").open("wb") as file:
        file.truncate(17 << 20)
    sources = listener("train.py cfg.yaml --also=--odd --log run.log data.bin --lr=0.1 nosuch")
    written("run.log", "one\n", age_s=-1)
    sources.begin()
    assert found() == {"--odd": sha("b"), "cfg.yaml": sha("a: 1\n")}


def test_a_script_that_starts_itself_counts_and_none_of_an_environment():
    text = "#!/bin/sh\npython train.py\n"
    written("run.sh", text)
    listener("./run.sh --now").begin()
    assert found() == {"run.sh": sha(text)}
    written("bin/torchrun", text.replace("sh", "env python"))
    listener("bin/torchrun --now").begin()
    assert found() == {}


def test_ranks_that_ran_different_versions_have_none_that_is_known(loaded):
    loaded(written("net.py"))
    listener().begin()
    written("net.py", "x = 2\n")
    listener(rank=Rank(rank=1, world_size=2, dp=1)).begin()
    assert found() == {"net.py": CHANGED_MEANWHILE}


def test_what_the_program_opens_before_its_first_step_counts_unless_it_writes_it(opened):
    written("cfg.json", "{}")
    written("data/shard.bin", "x" * (2 << 20))
    for name in ("state.json", "log.txt", "later.json", ".cache/vocabulary", f"{CAPTURE}/steps"):
        written(name, name)
    begun_ns = time.time_ns()
    sources = listener(opened=opened)
    with open("cfg.json") as first, io.open("data/shard.bin", mode="rb"):  # noqa: PTH123, UP020
        assert json.load(first) == {}
    for path in (Path("state.json"), Path(".cache/vocabulary"), CAPTURE / "steps"):
        assert path.read_text()
    with Path("log.txt").open("a") as log:
        log.write("begun")
    with pytest.raises(FileNotFoundError):
        Path("nosuch.json").read_text()
    sources.begin()
    Path("later.json").read_text()
    written("state.json", "step 3", age_s=-1)
    sources.write()
    shard = Path("data/shard.bin").stat()
    collected = {entry["path"]: entry["sha256"] for entry in collect(CAPTURE, begun_ns)}
    assert collected == {
        "cfg.json": sha("{}"),
        "data/shard.bin": f"{shard.st_size} bytes of {shard.st_mtime_ns}",
    }
    assert builtins.open is io.open is opened.original


def test_code_that_runs_without_becoming_a_module_counts(opened):
    for name in ("plugins/plugin.py", "ran.py", "plain.py"):
        written(name)
    sources = listener(opened=opened)
    for _ in range(2):
        # The second time from __pycache__.
        spec = importlib.util.spec_from_file_location("plugin", "plugins/plugin.py")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    runpy.run_path("ran.py")
    sources.begin()
    assert found() == {"plugins/plugin.py": sha("x = 1\n"), "ran.py": sha("x = 1\n")}
    assert (io.open_code, _io.open_code) == (opened.original_of_code,) * 2


def test_open_is_no_method_of_a_class_that_keeps_it_and_is_not_wrapped_in_a_fork(opened):
    class Reader:
        start = open

    assert Reader().start("train.py").read() == "x = 1\n"
    child = os.fork()
    if not child:
        os._exit(builtins.open is opened)
    assert os.waitpid(child, 0)[1] == 0
