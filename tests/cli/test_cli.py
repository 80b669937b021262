"""The command line as a user meets it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profkit.cli import COMMANDS, main, run
from profkit.cli.run import SnakemakeOutput, split


def test_help_names_every_command(capsys):
    assert main([]) == 0
    said = capsys.readouterr().out
    assert [name for name in COMMANDS if f"  {name} " not in said] == []


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("rnu", "did you mean 'run'?"), ("profil", "'profile'"), ("python", "profkit profile -- ")],
)
def test_an_unknown_command_exits_2_and_says_what_to_type(typed, hint, capsys):
    assert main([typed, "train.py"]) == 2
    said = capsys.readouterr().err
    assert f"no command named {typed!r}" in said
    assert hint in said
    assert len(said.splitlines()) == 2


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["plan", "bach=3"], "did you mean 'batch'"),
        (["run", "+tool=nsis"], "no tool named 'nsis'"),
        (["list", "tolls"], "did you mean 'tools'"),
        (["why", "README.md"], "not a result of profkit"),
        (["why", "results/runs/nope/analyze/steps.json"], "not in the selection"),
    ],
)
def test_a_mistake_is_one_message_without_a_traceback(argv, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 1
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("tools", "py_spy"), ("analyses", "breakdown"), ("models", "cnn_small"), ("zero", "none")],
)
def test_list_prints_names_with_what_they_are(kind, expected, capsys):
    assert main(["list", kind]) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.strip().startswith(expected)]
    assert len(line.split()) > 3


def test_plan_prints_the_runs_and_what_is_stale(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "batch=1,2", "repeats=1"]) == 0
    said = capsys.readouterr().out
    assert said.count("4 capture, 1 manifest, 4 convert") == 2
    assert "runs: 2, repeats of each capture: 1" in said
    assert "report: stale" in said
    assert "left out" not in said, "tools that nobody asked for are no note of the runs"
    assert said.rstrip().endswith("on analyses that need other tools: profkit plan --notes")
    assert main(["plan", "batch=1,2", "repeats=1", "--notes"]) == 0
    assert "are left out: no enabled tool makes" in capsys.readouterr().out


def test_what_follows_two_dashes_goes_to_snakemake():
    assert split(["batch=2", "--", "--dry-run"]) == (["batch=2"], ["--dry-run"])
    assert split(["batch=2"]) == (["batch=2"], [])


def test_the_number_of_jobs_and_failed_logs_are_heard_in_what_snakemake_says():
    heard = SnakemakeOutput()
    for line in (
        "total          12",
        "    log: results/runs/r/logs/analyze/steps.log (check log file(s) for error details)",
    ):
        heard.read_line(line)
    assert heard.total == 12
    assert [path.name for path in heard.failed_logs] == ["steps.log"]


def test_of_a_traceback_of_snakemake_only_the_error_is_kept():
    heard = SnakemakeOutput()
    frames = [f'  File "api.py", line {line}, in call' for line in range(40)]
    error = "OSError: [Errno 28] No space left on device"
    for line in ("before", "Traceback (most recent call last):", "", *frames, "", error, "after"):
        heard.read_line(line)
    assert heard.last_lines == ["before", error, "after"]
    own = ['  File "persistence.py", line 1, in finished', "    logger.warning("]
    for line in ("--- Logging error ---", "Traceback (most recent call last):", *own, error):
        heard.read_line(line)
    for line in ("Call stack:", *own, "Message: 'Ignore corrupted record'", "Arguments: ()", "end"):
        heard.read_line(line)
    assert heard.last_lines[3:] == [error, "end"]


def test_where_an_error_stands_in_the_workflow_is_left_out():
    heard = SnakemakeOutput()
    for line in (
        "Using workflow specific profile profiles/default for setting default arguments.",
        'WorkflowError in file "/p/workflow/rules/common.smk", line 28:',
        "another run works in this folder: process 7 on host",
        "  hint: wait for its end, or work in another folder",
        '  File "/p/workflow/rules/common.smk", line 35, in <module>',
    ):
        heard.read_line(line)
    assert heard.last_lines == [
        "another run works in this folder: process 7 on host",
        "  hint: wait for its end, or work in another folder",
    ]
    assert run._as_said(heard.last_lines)[0].startswith("profkit: another run works")
    assert run._as_said(["LockException:", "a lock"]) == ["  | LockException:", "  | a lock"]


def test_who_gives_no_overrides_hears_what_is_run(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "produce", lambda *_, **__: 0)
    for words, is_said in ((["run"], True), (["run", "batch=2"], False), (["run", "-q"], False)):
        assert main(words) == 0
        assert ("profkit's example is run" in capsys.readouterr().err) == is_said
    (tmp_path / "conf").mkdir()
    assert main(["run"]) == 0
    assert not capsys.readouterr().err


def test_a_manifest_gathers_what_the_captures_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for repeat, cuda in enumerate(("12", "13")):
        record = {
            "tool": "baseline", "repeat": repeat, "attempt": 1, "status": "ok", "reason": "",
            "started": "s", "ended": "e", "elapsed_s": 1.0, "exit_code": 0, "command": ["x"],
            "settings": {}, "workload": {},
            "machine": {"cpu": "c", "cuda": cuda}, "versions": {"torch": "2"},
            "packages": {"torch": "2"},
            "git": {"profkit": {"commit": "1f"}}, "environment": {"LANG": "C"},
        }  # fmt: skip
        (tmp_path / f"{repeat}.json").write_text(json.dumps(record))
    about = {"run": "r", "command": "profkit run", "behaviour": {"batch": 2}, "hardware": {}}
    about = json.dumps({**about, "tools": {"baseline": {}}})
    argv = ["manifest", "--about", about, "--captures", "0.json", "1.json"]
    assert main([*argv, "--out", "m.json", "--config", "c.yaml"]) == 0
    manifest = json.loads((tmp_path / "m.json").read_text())
    assert manifest["machine"] == {"cpu": "c", "cuda": ["12", "13"]}
    assert manifest["git"] == {"profkit": {"commit": "1f"}}
    assert manifest["environment"] == {"LANG": "C"}
    assert (manifest["started"], manifest["ended"]) == ("s", "e")
    assert manifest["packages"] == {"torch": "2"}
    assert [capture["repeat"] for capture in manifest["captures"]] == [0, 1]
    assert (tmp_path / "c.yaml").read_text().startswith("# profkit run\nbehaviour:\n  batch: 2\n")


def ended(code, **streams):
    """Run the command in a process of its own, with `code` for what commands do."""
    program = f"""
import atexit, threading, time
from profkit import __main__ as program, cli
def main():
{code}
cli.main = main
program.run()
"""
    buffered = os.environ | {"PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=buffered, text=True, check=False, **streams)


def test_a_command_ends_with_its_status_and_all_that_is_to_be_done_before_an_end():
    done = ended(
        """
    threading.Thread(target=lambda: (time.sleep(0.2), print("of a thread"))).start()
    atexit.register(print, "at exit")
    print("of the command")
    return 3
""",
        capture_output=True,
    )
    assert done.stdout.split("\n") == ["of the command", "of a thread", "at exit", ""]
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize(
    "code",
    [
        "print('this')",
        "for _ in range(9000): print('this')",
        "parser.print_help()",
        "parser.parse_args(['--help'])",
    ],
)
def test_a_command_whose_reader_has_gone_ends_quietly_as_other_tools_do(code):
    reading, writing = os.pipe()
    os.close(reading)
    code = f"    import argparse; parser = argparse.ArgumentParser()\n    {code}"
    done = ended(f"{code}\n    return 0", stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_a_pipe_of_a_commands_own_that_breaks_is_an_error():
    done = ended("    raise BrokenPipeError('of a socket')", capture_output=True)
    assert done.returncode == 1
    assert "of a socket" in done.stderr


def test_a_full_disk_behind_what_is_printed_is_an_error():
    with Path("/dev/full").open("w") as full:
        done = ended("    print('this')\n    return 0", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 120
    assert "No space left" in done.stderr


def test_a_file_in_the_place_of_the_results_is_a_mistake_and_no_traceback(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").touch()
    assert main(["plan", "tool=[]", "analysis=[]"]) == 1
    said = capsys.readouterr().err
    assert "'results'" in said
    assert "hint: a file lies where a folder must" in said


def test_results_that_link_to_themselves_are_a_mistake(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to("results")
    assert main(["ls"]) == 1
    assert "hint: a file lies where a folder must, or a link" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["show", "clean", "open"])
def test_a_name_that_is_too_long_for_a_file_is_a_mistake(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    assert main([command, "x" * 300]) == 1
    assert "hint: names of files have at most 255 bytes" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["show"], ["profile", "--", "python", "train.py"]])
def test_a_folder_that_is_gone_is_said(tmp_path, monkeypatch, capsys, words):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(words) == 1
    assert "it was started is no longer there" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["results/runs", "results/logs", ".snakemake"])
def test_a_file_in_the_place_of_a_folder_of_the_results_is_a_mistake(
    tmp_path, monkeypatch, capsys, name
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert main(["run", *FEW]) == 1
    said = capsys.readouterr().err
    assert f"'{name}'" in said
    assert "hint: a file lies where a folder must" in said


FEW = ["tool=[]", "analysis=[steps]", "world_size=1"]


@pytest.mark.parametrize(
    "words",
    [
        FEW,
        ["results/report.html", *FEW],
        [*FEW, "results/report.html"],
        [*FEW[:1], "results/report.html", *FEW[1:]],
    ],
)
def test_why_takes_paths_and_overrides_in_any_order(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    assert main(["why", *words]) == 0
    first, *reasons = capsys.readouterr().out.splitlines()
    assert first == "results/report.html is stale:"
    assert any("was never captured" in reason for reason in reasons)


def test_why_takes_runs_by_name_by_how_it_begins_and_by_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plan", *FEW]) == 0
    name = capsys.readouterr().out.splitlines()[1].split()[0]
    words = [name, name[:-2], f"results/runs/{name}", str(tmp_path / "results/runs" / name)]
    assert main(["why", *words, *FEW]) == 0
    said = capsys.readouterr().out
    assert said.count(" is stale:\n") == len(words)
    assert said.count(f"{name}/capture/baseline/rep0/capture.json: was never captured") == 4
    (tmp_path / "results/runs" / "other").mkdir(parents=True)
    assert main(["why", "other", *FEW]) == 1
    assert "the run other is not in the selection" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_its_help(command, capsys):
    with contextlib.suppress(SystemExit):
        assert not main([command, "--help"])
    assert f"profkit {command}" in capsys.readouterr().out


def test_help_may_be_asked_for_as_a_command(capsys):
    assert main(["help"]) == 0
    assert capsys.readouterr().out.startswith("usage: profkit COMMAND")
    with pytest.raises(SystemExit) as end:
        main(["help", "ls"])
    assert end.value.code == 0
    assert capsys.readouterr().out.startswith("usage: profkit ls")
    assert main(["help", "nothing"]) == 2
    assert "no command named 'nothing'" in capsys.readouterr().err
