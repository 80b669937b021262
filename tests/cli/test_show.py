"""The answer in the terminal, on runs and on files that were never imported."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace

import pandas as pd
import pytest

from profkit.cli import main
from profkit.core import result
from profkit.core.job_record import NOTHING
from profkit.core.result import Abstention, Finding, Metric, Result, Severity
from profkit.core.verdict import Confidence, Limiter, MemoryVerdict, Verdict
from profkit.dag.overrides import save_selection
from tests.cli.measured_runs import leave_result
from tests.cli.test_run_folders import make_run
from tests.convert.nsys.reports import written


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return an empty folder, in which the commands are typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def event(name, start_us, duration_us, category="cpu_op"):
    where = {"pid": 1, "tid": 1, "ts": start_us, "dur": duration_us}
    return {"ph": "X", "cat": category, "name": name, **where}


def zipped(content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("t.json", content)
    return packed.getvalue()


def tarred(content):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        about = tarfile.TarInfo("t.json")
        about.size = len(content)
        archive.addfile(about, io.BytesIO(content))
    return packed.getvalue()


def write_trace(path, rank=None, name="aten::mm"):
    steps = [event(f"ProfilerStep#{n}", n * 1000, 1000, "user_annotation") for n in range(5)]
    work = [event(name, n * 1000 + 100, 900) for n in range(5)]
    info = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank}}
    path.write_text(json.dumps({**info, "traceEvents": [*steps, *work]}))


def write_snapshot(path):
    frame = [{"name": "build", "filename": "model.py", "line": 3}]
    entry = {"action": "alloc", "addr": 64, "size": 1 << 20, "stream": 0, "frames": frame}
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [[entry]]}))


def write_page(path):
    path.write_text(
        '"ID","Process ID","Kernel Name","Stream","Grid Size","gpu__time_duration.sum"\n'
        '"","","","","","ns"\n'
        '"0","1","gemm","7","(1, 1, 1)","2000"\n'
    )


def write_report(path):
    calls = [(0, 9_000, "cudaLaunchKernel", 1, 77)]
    written(path, kernels=[(1_000, 9_000, "at::gemm", 1, 77, 0)], calls=calls)


WRITERS = {
    "trace": write_trace,
    "snapshot": write_snapshot,
    "nsys": write_report,
    "ncu": write_page,
}


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("a.json", "trace", "CPU-bound: Operators on the CPU 0.9 of 1 ms per step"),
        ("b.pickle", "snapshot", "1 MiB"),
        ("c.sqlite", "nsys", "Only 2 operators, kernels and calls were recorded."),
        ("d.csv", "ncu", "gemm"),
        ("without_an_ending", "trace", "0.9 ms in aten::mm"),
        ("snapshot.bin", "snapshot", "1 MiB"),
    ],
)
def test_a_file_is_shown_and_leaves_nothing(folder, capsys, name, kind, said):
    WRITERS[kind](folder / name)
    assert main(["show", name]) == 0
    shown = capsys.readouterr().out
    assert said in shown
    assert f"profkit import {kind} {name}" in shown
    assert [path.name for path in folder.iterdir()] == [name]


def test_files_and_folders_of_ranks_are_one_run(folder, capsys):
    (folder / "traces").mkdir()
    for rank in range(2):
        write_trace(folder / f"traces/rank{rank}.json", rank)
    assert main(["show", "traces"]) == 0
    shown = capsys.readouterr().out
    assert main(["show", "traces/rank0.json", "traces/rank1.json"]) == 0
    assert capsys.readouterr().out.splitlines()[:-1] == shown.splitlines()[:-1]
    assert "profkit import trace traces" in shown


def test_of_a_folder_with_files_of_several_kinds_it_is_said_which_are_shown(folder, capsys):
    (folder / "of a run").mkdir()
    write_snapshot(folder / "of a run/rank0.pickle")
    assert main(["show", "of a run"]) == 0
    assert "not shown" not in capsys.readouterr().out
    write_report(folder / "of a run/c.sqlite")
    for rank in range(5):
        write_trace(folder / f"of a run/rank{rank}.json", rank)
    assert main(["show", "of a run"]) == 0
    *_, said, last = capsys.readouterr().out.splitlines()
    assert said == (
        "Shown are the files of kind trace; not shown:"
        " 1 file of kind nsys (profkit show 'of a run/c.sqlite');"
        " 1 file of kind snapshot (profkit show 'of a run/rank0.pickle')"
    )
    assert last == "All of it as a report: profkit import trace 'of a run'"
    assert main(["show", "of a run/c.sqlite"]) == 0
    assert "not shown" not in capsys.readouterr().out


def test_a_packed_trace_is_known_by_what_is_in_it(folder, capsys):
    write_trace(folder / "t.json", 0)
    (folder / "plain").write_bytes(gzip.compress(b"\n" + (folder / "t.json").read_bytes()))
    assert main(["show", "plain"]) == 0
    assert "profkit import trace plain" in capsys.readouterr().out
    write_snapshot(folder / "s.pickle")
    (folder / "s").write_bytes(gzip.compress((folder / "s.pickle").read_bytes()))
    assert main(["show", "s"]) == 1
    assert "s: a snapshot in gzip\n  hint: unpack it first" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pack", "unpacks"),
    [
        (lzma.compress, "unxz"),
        (bz2.compress, "bunzip2"),
        (zipped, "unzip"),
        (tarred, "tar xf"),
        (lambda content: gzip.compress(tarred(content)), "tar xf"),
    ],
)
def test_what_is_packed_otherwise_is_to_be_unpacked_first(folder, capsys, pack, unpacks):
    write_trace(folder / "t.json", 0)
    (folder / "packed").write_bytes(pack((folder / "t.json").read_bytes()))
    assert main(["show", "packed"]) == 1
    assert f"\n  hint: unpack it first: {unpacks}\n" in capsys.readouterr().err


def test_what_lies_elsewhere_is_to_be_downloaded(folder, capsys):
    del folder
    assert main(["show", "https://example.org/t.json"]) == 1
    assert "download it first" in capsys.readouterr().err


def test_all_files_that_were_read_are_to_be_imported(folder, capsys):
    for rank in range(2):
        write_trace(folder / f"rank{rank}.json", rank)
    (folder / "empty.json").write_text("{}")
    assert main(["show", "rank0.json", "empty.json", "rank1.json"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "All of it as a report: profkit import trace rank0.json rank1.json"


def test_ranks_that_have_a_folder_to_themselves_are_imported_as_that(folder, capsys):
    (folder / "ranks").mkdir()
    for rank in range(3):
        write_trace(folder / f"ranks/rank{rank}.json", rank)
    names = [f"ranks/rank{rank}.json" for rank in range(3)]
    for given, words in ((names, "ranks"), (names[:2], "ranks/rank0.json ranks/rank1.json")):
        assert main(["show", *given]) == 0
        *_, last = capsys.readouterr().out.splitlines()
        assert last == f"All of it as a report: profkit import trace {words}"


def test_what_is_wrong_with_files_is_said_with_the_answer(folder, capsys):
    (folder / "traces").mkdir()
    write_trace(folder / "traces/rank0.json", 0)
    (folder / "traces/rank1.json").write_text('{"traceEvents": [')
    (folder / "traces/rank2.json").symlink_to("nowhere")
    os.link(folder / "traces/rank0.json", folder / "traces/rank3.json")
    os.mkfifo(folder / "traces/rank4.json")
    assert main(["show", "traces"]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "note" in line]
    assert said[0].startswith("note: rank1.json: Not read: ")
    assert said[1] == "note: rank2.json: left out, as it is a link to a file that is not there"
    assert said[3] == "1 more note on these files: profkit show --notes"
    assert main(["show", "traces/rank2.json"]) == 1
    assert "a link to a file that is not there" in capsys.readouterr().err


def test_a_file_whose_name_is_no_text_is_shown(folder, capsys):
    name = os.fsdecode(b"a\n\xff.json")
    write_trace(folder / name)
    assert main(["show", name]) == 0
    assert "per step" in capsys.readouterr().out


def test_what_was_not_recorded_is_listed_on_request(folder, capsys):
    write_trace(folder / "a.json")
    assert main(["show", "a.json", "--notes"]) == 0
    assert "throughput: the workload does not say how many samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "why"), [("pipe", "a pipe"), ("/proc/self/mem", "cannot be read")]
)
def test_what_is_no_file_and_what_cannot_be_read_is_named(folder, capsys, name, why):
    os.mkfifo(folder / "pipe")
    assert main(["show", name]) == 1
    assert f"{name}: {why}" in capsys.readouterr().err


def test_a_file_that_is_no_recording_is_named(folder, capsys):
    (folder / "notes.txt").write_text("hello")
    (folder / "bad.json").write_text("{")
    (folder / "empty").mkdir()
    for name in ("notes.txt", "bad.json", "empty", "nothing"):
        assert main(["show", name]) == 1
        assert name in capsys.readouterr().err


def document(run, name, inputs=(), **content):
    provenance = replace(NOTHING, inputs=dict.fromkeys(inputs, ""))
    made = result.Document(
        analysis=name, title="", summary="", result=Result(**content), provenance=provenance
    )
    (run / "analyze").mkdir(exist_ok=True)
    result.write(run / f"analyze/{name}.json", made)


def finding(severity, message):
    return Finding(
        severity=severity, message=message, metric="m", value=1.0, unit="", advice=f"do {message}"
    )


@pytest.fixture
def run(folder):
    """Return the folder of a run with results, the only one of the last selection."""
    run = make_run(folder, "gpt-1", "2026-01-02T10:00:00+00:00", ["ok", "oom"])
    make_run(folder, "other", "2026-01-03T10:00:00+00:00", ["ok"])
    save_selection((), ["gpt-1"])
    step = Metric(value=1e9, unit="ns", title="Unprofiled step time, median")
    late = (finding(Severity.INFO, "steps drift"),)
    document(run, "steps", findings=late, metrics={"step_time_ns": step})
    lines = pd.DataFrame([{"line": "f (a.py:3)", "self_share": 0.4}])
    document(run, "python_hotspots", tables={"lines": result.table(lines, title="")})
    missing = Abstention(what="energy", reason="not recorded")
    power = Abstention(what="power", reason="not recorded")
    severities = (Severity.INFO, Severity.WARN, Severity.INFO, Severity.BAD)
    found = tuple(finding(severity, f"finding {at}") for at, severity in enumerate(severities))
    document(run, "memory_peak", findings=found, abstentions=(missing, power, missing))
    return run


def test_the_run_to_take_of_a_sweep_is_shown_while_it_is_that_of_the_selection(run, capsys):
    runs = run.parent
    save_selection((), ["gpt-1", "other"])
    inputs = [f"results/runs/{name}/analyze/steps.json" for name in ("gpt-1", "other")]
    (runs.parent / "selection").mkdir()
    taken = (finding(Severity.INFO, "Take batch 4: throughput peaks there."),)
    shares = [("gpt-1", 0.5), ("other", 1.0)]
    rows = pd.DataFrame(shares, columns=["run", "of_fastest_share"])
    tables = {"runs": result.table(rows, title="")}
    document(runs.parent / "selection", "sweep", inputs, findings=taken, tables=tables)
    assert main(["show"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("other  ")  # is the fastest
    first, *listed, last = said.splitlines()[-4:]
    assert (first, last) == ("Take batch 4: throughput peaks there.", "all runs: profkit ls")
    assert [line.split()[-1] for line in listed] == ["gpt-1", "other"]
    assert listed[1].startswith("  not known  ")
    make_run(runs.parents[1], "third", "2026-01-04T10:00:00+00:00", ["ok"])
    save_selection((), ["gpt-1", "third"])
    assert main(["show"]) == 0
    assert "Take batch" not in capsys.readouterr().out


def test_a_verdict_that_cannot_be_read_is_said(run, capsys):
    (run / "analyze/verdict.json").write_text("garbage")
    assert main(["show"]) == 0
    shown = capsys.readouterr().out
    assert "Not known: the verdict, because " in shown
    assert "verdict.json: not a result" in shown


@pytest.mark.usefixtures("run")
def test_an_empty_name_is_no_run_and_no_folder(capsys):
    assert main(["show", ""]) == 1
    assert "is empty" in capsys.readouterr().err


def test_what_several_optimizers_make_of_a_step_is_said_first(folder, capsys):
    of_step = "Several optimizers take turns: a step is a round of 5 calls of Adam and 1 of SGD."
    warned = ["The machine was busy.", of_step]
    make_run(folder, "gan", "2026-01-02T10:00:00+00:00", ["ok", "ok"], warnings=warned)
    assert main(["show", "gan"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[1] == of_step
    assert said.count(of_step) == 1


def test_the_run_of_the_last_selection_is_shown_with_its_worst_findings(run, capsys):
    assert main(["show"]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == "gpt-1  2026-01-02 10:00  1 of 2 captures: oom"
    order = [
        shown.index(text)
        for text in ("median: 1,000 ms", "40% in f (a.py:3)", "finding 3", "finding 1")
    ]
    assert order == sorted(order)
    assert "finding 2" not in shown
    assert "1 note on what was not recorded: profkit show --notes" in shown
    for name in ("gpt", "gpt-1", "results/runs/gpt-1", str(run)):
        assert main(["show", name]) == 0
        assert capsys.readouterr().out == shown
    assert main(["show", "--notes"]) == 0
    assert capsys.readouterr().out == "energy; power: not recorded\n"


def test_a_report_of_nsys_without_kernels_names_its_longest_call_and_what_is_missing(
    folder, capsys
):
    measured = make_run(folder, "copies", "2026-01-01", ["ok"])
    calls = pd.DataFrame([{"name": "cudaMemcpy", "total_ns": 299e6}])
    document(measured, "nsys_stats", tables={"cuda_api_sum": result.table(calls, title="")})
    missing = Abstention(what="the verdict", reason="no kernel was recorded")
    document(measured, "verdict", abstentions=(missing,))
    assert main(["show", "copies"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "  Most time in a call of CUDA: cudaMemcpy, 299 ms",
        "Not known: the verdict, because no kernel was recorded.",
    ]


def test_where_nothing_was_found_the_reason_is_said(folder, capsys):
    measured = make_run(folder, "kernels", "2026-01-01", ["ok"])
    for name in ("ncu_summary", "kernel_verdict", "verdict"):
        missing = Abstention(what=f"what {name} says", reason="too little was collected")
        document(measured, name, abstentions=(missing,))
    assert main(["show", "kernels"]) == 0
    said = capsys.readouterr().out.splitlines()[1]
    assert said == "Not known: what kernel_verdict says, because too little was collected."
    skipped = {"status": "skipped", "reason": "interrupted before it began", "tool": "nsys"}
    record = json.loads((measured / "capture/baseline/rep0/capture.json").read_bytes())
    path = measured / "capture/nsys/rep0/capture.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record | skipped))
    assert main(["show", "kernels"]) == 0
    said = capsys.readouterr().out.splitlines()[1]
    why = "nsys did not capture: interrupted before it began"
    assert said == f"Not known: what kernel_verdict says, because {why}."


@pytest.mark.parametrize(
    ("places", "begin"),
    [([], "nothing was recorded"), ([{"label": "r0"}], "steps were timed, and no more")],
)
def test_where_nothing_was_recorded_the_reason_stands_in_place_of_notes(
    folder, capsys, places, begin
):
    failed = make_run(folder, "bad", "2026-01-01", ["error", "skipped"])
    path = failed / "capture/baseline/rep0/capture.json"
    record = {**json.loads(path.read_text()), "tool": "baseline", "repeat": 0, "reason": "no --lr"}
    path.write_text(json.dumps(record | {"places": places}))
    assert main(["show", "bad"]) == 0
    first, reason, log = capsys.readouterr().out.splitlines()
    assert first.endswith("2 of 2 captures: error, skipped")
    assert reason == f"{begin}: no --lr"
    assert log.endswith("results/runs/bad/capture/baseline/rep0/capture.log")


def test_what_was_recorded_before_all_captures_failed_is_shown(folder, capsys):
    failed = make_run(folder, "bad", "2026-01-01", ["oom"])
    path = failed / "capture/baseline/rep0/capture.json"
    record = {"tool": "baseline", "repeat": 0, "reason": "no memory is left"}
    path.write_text(json.dumps(json.loads(path.read_text()) | record))
    said = "Out of memory: 2 GiB asked."
    memory = MemoryVerdict(headline=said, is_limit=True, advice="Keep less.")
    verdict = Verdict(
        limiter=Limiter.MEMORY,
        headline=said,
        step_ms=0.0,
        confidence=Confidence.LOW,
        memory=memory,
    )
    document(failed, "verdict", verdict=verdict)
    assert main(["show", "bad"]) == 0
    _, reason, _, *answer = capsys.readouterr().out.splitlines()
    assert reason == "the program failed: no memory is left"
    assert answer[0] == f"Memory: {said} Keep less."


@pytest.mark.parametrize("step_is", ["", "forward pass"])
def test_a_step_that_is_no_optimizers_is_named(run, capsys, step_is):
    verdict = Verdict(
        limiter=Limiter.CPU, headline="Slow.", step_ms=12.5, confidence=Confidence.HIGH
    )
    document(run, "verdict", verdict=verdict)
    path = run / "capture/baseline/rep0/capture.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"step_is": step_is}))
    assert main(["show"]) == 0
    said = "step 12.5 ms profiled" + (", from one forward pass to the next" if step_is else "")
    assert said in capsys.readouterr().out.splitlines()[0].split("  ")


def test_the_verdict_takes_the_place_of_findings(run, capsys):
    verdict = Verdict(
        limiter=Limiter.INPUT, headline="GPU idle.", step_ms=0.0, confidence=Confidence.LOW
    )
    document(run, "verdict", verdict=verdict)
    assert main(["show"]) == 0
    assert capsys.readouterr().out.splitlines()[1:4] == [
        "Input-bound: GPU idle.",
        "Confidence low. No check of the recording failed.",
        "  Most sampled time: 40% in f (a.py:3)",
    ]


@pytest.mark.parametrize(("columns", "width"), [("", 80), ("120", 120), ("70", 70), ("9", 60)])
def test_a_verdict_is_as_wide_as_columns_says(run, capsys, monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    # Words of three letters fill a line to three characters and a space.
    headline = " ".join(["GPU"] * 90) + "."
    verdict = Verdict(
        limiter=Limiter.INPUT, headline=headline, step_ms=0.0, confidence=Confidence.LOW
    )
    document(run, "verdict", verdict=verdict)
    assert main(["show"]) == 0
    said = capsys.readouterr().out.splitlines()[1:-1]
    assert width - 4 < max(map(len, said)) <= width


def test_programs_of_the_same_command_that_are_left_out_are_counted(run, capsys):
    path = run / "capture/baseline/rep0/capture.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "left_out": 2}))
    assert main(["show", "gpt-1"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "This is the first program of the command; 2 more programs made steps as well." in shown


def test_damaged_results_are_said_and_the_others_shown(run, capsys):
    (run / "analyze/memory_peak.json").write_text("{")
    assert main(["show"]) == 0
    assert "median: 1,000 ms" in capsys.readouterr().out
    assert main(["show", "--notes"]) == 0
    assert "memory_peak.json" in capsys.readouterr().out


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("command", ["show", "ls"])
def test_to_look_at_runs_imports_nothing_that_takes_long(command):
    code = (
        f"import sys; from profkit.cli import main; main([{command!r}]);"
        "slow = {'hydra', 'torch', 'pandas', 'numpy', 'pyarrow', 'pydantic', 'rich', 'snakemake'};"
        "print(sorted(slow & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_names_of_a_recording_cannot_steer_the_terminal(folder, capsys):
    path = folder / "has\x1b[31mname.json"
    write_trace(path, name="aten::\x1b[31m\x1b]0;title\x07\x9b1m\x08\r\u202emm")
    assert main(["show", path.name]) == 0
    printed, errors = capsys.readouterr()
    assert "aten:: 1m mm" in " ".join(printed.split())
    assert "hasname.json" in printed
    assert all(letter.isprintable() or letter == "\n" for letter in printed + errors)
    assert main(["show", "no\x1b[31m", "b"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_of_analyses_without_a_verdict_their_first_numbers_are_shown(folder, capsys):
    run = make_run(folder, "a", statuses=["ok"])
    metrics = {
        "wait_share": Metric(value=0.044, unit="share", title="Waiting"),
        "launch_delay": Metric(value=16_200_000, unit="ns", title="Delay"),
        "gaps": Metric(value=1234, unit="gaps", title="Gaps"),
        "more": Metric(value=1, unit="", title="More"),
    }
    leave_result(run, "collectives", Result(metrics=metrics))
    assert main(["show", "a"]) == 0
    said = capsys.readouterr().out.splitlines()
    shown = ["Waiting: 4.4%", "Delay: 16.2 ms", "Gaps: 1,234 gaps"]
    assert [line.partition(", ")[2] for line in said[1:]] == shown
