"""Raw files in a scratch: what comes back, what is left there, and what says why it cannot be."""

import errno
import json
import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from profkit.capture.harness import scratch
from profkit.capture.harness.job import prepare
from profkit.capture.harness.spec import Spec
from profkit.convert import _gone_files
from profkit.convert.__main__ import main as convert
from profkit.core.errors import InputError
from profkit.core.run_settings import RunSettings
from profkit.process import parent_watch
from tests.waiting import LIMIT_S, until

FILES = ["rank0_dp0_tp0_pp0.marks.jsonl", "rank1_dp1_tp0_pp0.marks.jsonl"]


@pytest.fixture
def local(tmp_path, monkeypatch):
    """Return a folder that is a disk of this host, which $LOCAL names."""
    folder = tmp_path / "local"
    folder.mkdir()
    monkeypatch.setenv("LOCAL", str(folder))
    return folder


def settings(keep="none", asked="$LOCAL"):
    return ["--run-settings", json.dumps({"scratch": asked, "keep_raw": keep})]


def tables(made, tmp_path):
    """Convert a capture with marks; return its record, and the ranks of its collectives."""
    where = tmp_path / "results/runs/r/tables/marks"
    files = tmp_path / "results/runs/r/convert/marks"
    convert(
        ["marks", "--captures", str(made.folder), "--tables", str(where), "--files", str(files)]
    )
    ranks = pq.read_table(where / "collectives.parquet")["rank"].to_pylist()
    return json.loads((where / "convert.json").read_text()), ranks


@pytest.mark.parametrize("keep", ["none", [0], [1], "all"])
def test_raw_files_that_are_not_kept_become_the_same_tables(capture, tmp_path, local, keep):
    made = capture("marks", tmp_path, {}, *settings(keep), steps=4)
    record = made.record
    assert record["status"] == "ok", made.told
    assert [*local.iterdir()] == []
    kept = {"none": [], "all": [0, 1]}.get(str(keep), keep)
    assert sorted(path.name for path in made.folder.glob("*.jsonl")) == [FILES[n] for n in kept]
    done, ranks = tables(made, tmp_path)
    assert (done["status"], done["notes"]) == ("ok", [])
    assert {*ranks} == {0, 1}
    assert ranks == sorted(ranks)
    assert ranks.count(0) == ranks.count(1)
    said = [text for text in record["warnings"] if "became tables in the scratch" in text]
    assert len(said) == (keep != "all")
    if keep != "all":
        (host,) = record["raw"]
        assert [(file["name"], file["is_kept"]) for file in host["files"]] == [
            (name, number in kept) for number, name in enumerate(FILES)
        ]


@pytest.mark.usefixtures("local")
def test_batches_of_ranks_convert_what_is_there_and_the_join_takes_the_rest(capture, tmp_path):
    made = capture("marks", tmp_path, {}, *settings([1]), steps=4)
    once, ranks = tables(made, tmp_path)
    batch = tmp_path / "results/runs/r/parts/marks/0-1"
    where = tmp_path / "results/runs/r/tables/marks"
    captured = ["marks", "--captures", str(made.folder)]
    convert([*captured, "--batch", str(batch), "--ranks", "0:2"])
    assert [*json.loads((batch / "convert.json").read_text())["parts"]] == [
        str(made.folder / FILES[1])
    ]
    files = tmp_path / "results/runs/r/convert/marks"
    convert([*captured, "--batches", str(batch), "--tables", str(where), "--files", str(files)])
    again = json.loads((where / "convert.json").read_text())
    assert {name: table["sha256"] for name, table in again["tables"].items()} == {
        name: table["sha256"] for name, table in once["tables"].items()
    }
    assert {*ranks} == {0, 1}


@pytest.mark.usefixtures("local")
def test_a_converter_that_has_changed_says_what_is_missing_and_what_to_do(
    capture, tmp_path, monkeypatch
):
    made = capture("marks", tmp_path, {}, *settings([0]), steps=4)
    found = _gone_files.provenance("profkit.convert", "profkit.convert.marks", {}, {})
    found.modules["profkit.convert.marks"] = "edited"
    monkeypatch.setattr(_gone_files, "provenance", lambda *_: found)
    with pytest.raises(InputError, match=r"has changed since: profkit\.convert\.marks") as error:
        tables(made, tmp_path)
    assert "capture.json to capture again; with keep_raw=all" in str(error.value)
    kept = capture("marks", tmp_path, {}, *settings([0, 1]), steps=4)
    assert {*tables(kept, tmp_path)[1]} == {0, 1}


def test_all_comes_back_of_a_capture_that_failed(capture, programs, tmp_path, local):
    alone = {"launcher": {"name": "python"}, "world_size": 1}
    behaviour = alone | programs("misbehaving", how="raise")
    made = capture("marks", tmp_path, {}, *settings(), **behaviour)
    assert made.record["status"] == "error"
    assert [*local.iterdir()] == []
    assert (made.folder / FILES[0]).is_file()


def begun(arguments_of, tmp_path, local, **behaviour):
    """Start a capture of a program that hangs; return its process, once it has a raw file."""
    out = tmp_path / "results/runs/r/capture/marks/rep0"
    command = [*arguments_of("marks", out, {}, **behaviour), *settings()]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: any(local.rglob("*.jsonl")) or process.poll() is not None)
    assert process.poll() is None
    return process, command


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_capture_that_is_asked_to_stop(
    arguments_of, misbehaving, tmp_path, local, signum
):
    process, _ = begun(arguments_of, tmp_path, local, **misbehaving("hang"))
    process.send_signal(signum)
    assert process.wait(LIMIT_S) == 128 + signum
    assert [*local.iterdir()] == []


def test_what_a_killed_capture_left_is_removed_with_its_record(
    arguments_of, misbehaving, tmp_path, local
):
    process, command = begun(arguments_of, tmp_path, local, **misbehaving("hang"))
    process.kill()
    process.wait(LIMIT_S)
    subprocess.run(
        [*command, "--lost", "137"], input="killed", text=True, check=False, timeout=LIMIT_S
    )
    assert [*local.iterdir()] == []


@pytest.fixture
def job(tmp_path):
    """Return a function from a scratch to the job of a capture with it."""
    spec = Spec(
        token="",
        tool="marks",
        out=str(tmp_path / "results/runs/r/capture/marks/rep0"),
        workload={"workload": {"name": "train"}, "steps": 2},
    )
    return lambda asked: prepare(spec, RunSettings(scratch=asked))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("{}/absent", "there is no such folder on "),
        ("{}/file", "there is no such folder on "),
        ("$PROFKIT_NO_SUCH/x", " has no environment variable PROFKIT_NO_SUCH"),
        ("${{PROFKIT_NO_SUCH}}/x", " has no environment variable PROFKIT_NO_SUCH"),
        ("/proc", "nothing can be written there on "),
    ],
)
def test_a_scratch_that_cannot_be_used_is_named_with_its_host(job, tmp_path, asked, reason):
    (tmp_path / "file").touch()
    asked = asked.format(tmp_path)
    said = scratch.problem(job(asked))
    assert said.startswith(f"scratch={asked}: ")
    assert reason in said


def test_a_full_scratch_is_named(job, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert scratch.problem(job(str(tmp_path))) == ""
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert scratch.problem(job(str(tmp_path))).endswith(": No space left on device")


def test_nothing_runs_without_the_scratch_that_was_asked_for(capture, tmp_path):
    made = capture("marks", tmp_path, {}, *settings(asked=f"{tmp_path}/absent"))
    assert (made.record["status"], made.record["exit_code"]) == ("error", None)
    assert made.record["reason"].startswith(f"scratch={tmp_path}/absent: there is no such folder")
    assert not (made.folder / "capture.log").exists()


SECOND = """
import os, subprocess, sys
second = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"]
second += ["sh", "-c", 'hostname second; LOCAL=$LOCAL/second exec "$@"', "sh"]
hosts = [
    subprocess.Popen([*start, *sys.argv[1:]], env=os.environ | {"SLURM_NODEID": str(node)})
    for node, start in enumerate(([], second))
]
sys.exit(max(process.wait() for process in hosts))
"""


def test_each_host_converts_in_a_scratch_of_its_own(capture, tmp_path, local, monkeypatch):
    command = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no second host can be played here: {done.stderr.strip()}")
    (local / "second").mkdir()
    monkeypatch.setenv(parent_watch.VARIABLE, parent_watch.identity())
    script = tmp_path / "across.py"
    script.write_text(SECOND)
    across = [sys.executable, str(script)]
    launcher = {"name": "torchrun", "python": "", "nnodes": 2, "across": across}
    made = capture("marks", tmp_path, {}, *settings(), launcher=launcher, steps=4)
    assert made.record["status"] == "ok", made.told
    assert [host["host"] for host in made.record["raw"]][1] == "second"
    assert made.record["raw"][1]["folder"].startswith(f"{local}/second/")
    assert [path.name for path in local.rglob("*")] == ["second"]
    assert [*made.folder.glob("*.jsonl")] == []
    assert {*tables(made, tmp_path)[1]} == {0, 1}
