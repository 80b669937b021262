"""Self and total time of functions and lines, from the stacks of samplers."""

import gzip
import json
from collections import Counter

import pandas as pd
import pytest

from profkit.analyze.python_hotspots import Config, analyze
from profkit.analyze.shared.stack_frames import of_program
from profkit.convert import converter
from profkit.convert.base import Raw
from profkit.tables import schema
from profkit.testing import rows

OUTER, INNER, OTHER = "f (a.py:1)", "g (a.py:5)", "g (a.py:6)"


def stacks(*rows, rank=0, repeat=0):
    return schema.frame(
        "sampled_stacks",
        [
            {"rank": rank, "repeat": repeat, "stack": ";".join(frames)}
            | {"samples": count, "duration_ns": time_ns}
            for frames, count, time_ns in rows
        ],
    )


def times(result, name, key):
    return {row[key]: (row["self_ns"], row["total_ns"]) for row in rows(result, name)}


def test_time_is_that_of_the_function_itself_and_of_all_below_it():
    sampled = stacks(((OUTER, INNER), 60, 600), ((OUTER, OTHER), 30, 300), ((OUTER,), 10, 100))
    result = analyze.run(sampled_stacks={"py_spy": sampled}, config=Config())
    assert times(result, "functions", "function") == {
        "g (a.py)": (900, 900),
        "f (a.py)": (100, 1000),
    }
    assert times(result, "lines", "line") == {
        INNER: (600, 600),
        OTHER: (300, 300),
        OUTER: (100, 1000),
    }
    assert result.metrics["py_spy_hottest_self_share"].value == pytest.approx(0.9)
    assert result.abstentions == ()


def test_stacks_are_drawn_by_thread_mean_over_the_repeats():
    both = [stacks(((OUTER, INNER), 60, 600), ((OUTER,), 10, 100), repeat=n) for n in (0, 1)]
    result = analyze.run(sampled_stacks={"py_spy": pd.concat(both)}, config=Config())
    (detail,) = result.drawings["sampled_frames"].details
    tree = detail.data()
    assert (detail.name, tree["groups"]) == ("rank 0", [["main thread"]])
    assert (tree["names"], tree["above"], tree["own"]) == ([OUTER, INNER], [-1, 0], [[100, 600]])


STARTED = (
    "_run_code (<frozen runpy>:88)",
    "main (/x/profkit/capture/harness/rank.py:63)",
    "run (/x/profkit/workloads/script.py:141)",
    "run_path (<frozen runpy>:291)",
)
THREAD = ("_bootstrap (threading.py:1002)", "run (threading.py:982)")
MAIN = "<module> (train.py:10)"


@pytest.mark.parametrize(
    ("frames", "kept"),
    [
        ((*STARTED, MAIN, INNER), (MAIN, INNER)),
        ((*STARTED, "<module> (/x/profkit/workloads/train.py:9)"),
         ("<module> (/x/profkit/workloads/train.py:9)",)),
        ((*STARTED, MAIN, "step (/x/profkit/workloads/automatic/step_hooks.py:9)", INNER),
         (MAIN, INNER)),
        ((*STARTED, MAIN, "step (/x/profkit/workloads/automatic/step_hooks.py:9)"), ()),
        (STARTED, ()),
        ((*STARTED[:2], "get_objects (built-in)"), ()),
        ((*STARTED[:2], "_find_and_load (<frozen importlib._bootstrap>:1176)", "f (torch/a.py:1)"),
         ()),
        ((*STARTED, MAIN, "_find_and_load (<frozen importlib._bootstrap>:1176)"), ()),
        ((*THREAD, "_watch (/x/profkit/process/parent_watch.py:9)", "wait (psutil/a.py:1)"), ()),
        ((*THREAD, INNER), (INNER,)),
        (("(no Python)",), ("(no Python)",)),
        (("clone (libc.so.6)", "blas_thread_server (libopenblas.so)"), ()),
        (("gomp_team_barrier_wait_end (libgomp.so.1)",), ()),
        (("__kmp_hyper_barrier_release (libiomp5.so)",), ()),
        (("blas_thread_server (libopenblas.so)", "dgemm_kernel (libopenblas.so)"),
         ("blas_thread_server (libopenblas.so)", "dgemm_kernel (libopenblas.so)")),
        ((MAIN, "gomp_barrier_wait_end (libgomp.so.1)"),
         (MAIN, "gomp_barrier_wait_end (libgomp.so.1)")),
        ((MAIN, INNER), (MAIN, INNER)),
    ],
)  # fmt: skip
def test_profkit_start_up_and_imports_are_no_part_of_the_program(frames, kept):
    found = of_program(stacks((frames, 1, 10)), imports=False)
    assert found["stack"].tolist() == ([";".join(kept)] if kept else [])


def test_samples_of_steps_that_count_are_all_where_steps_are_known():
    parts = [stacks(((MAIN,), 60, 100)).assign(step=step) for step in (-1, 2, 3, 4)]
    result = analyze.run(sampled_stacks={"x": pd.concat(parts)}, config=Config())
    assert times(result, "functions", "function") == {"<module> (train.py)": (200, 200)}
    early = analyze.run(sampled_stacks={"x": pd.concat(parts[:2])}, config=Config())
    assert times(early, "functions", "function") == {"<module> (train.py)": (100, 100)}


def test_what_is_not_of_the_program_is_in_no_share_and_is_said():
    sampled = stacks(((*STARTED, MAIN), 60, 300), (STARTED, 60, 700))
    result = analyze.run(sampled_stacks={"py_spy": sampled}, config=Config())
    assert times(result, "functions", "function") == {"<module> (train.py)": (300, 300)}
    assert result.metrics["py_spy_hottest_self_share"].value == 1.0
    assert result.tables["functions"].note == (
        "Without start-up, warm-up, imports, profkit itself and threads that look for work: "
        "700 ns of 1 µs by py_spy."
    )
    alone = analyze.run(sampled_stacks={"py_spy": stacks((STARTED, 60, 700))}, config=Config())
    assert alone.abstentions[0].reason == "all samples are of start-up: run more steps"


def test_a_function_that_calls_itself_is_counted_once():
    result = analyze.run(
        sampled_stacks={"x": stacks(((OUTER, INNER, OTHER, INNER), 60, 100))}, config=Config()
    )
    assert times(result, "functions", "function") == {"g (a.py)": (100, 100), "f (a.py)": (0, 100)}
    assert times(result, "lines", "line")[OTHER] == (0, 100)


def test_repeats_are_averaged_and_shares_are_of_the_rank():
    both = pd.concat([stacks(((OUTER,), 60, 100)), stacks(((OUTER,), 60, 300), repeat=1)])
    other = stacks(((OUTER,), 60, 50), ((INNER,), 60, 150), rank=1)
    result = analyze.run(sampled_stacks={"x": pd.concat([both, other])}, config=Config())
    found = {(row["rank"], row["function"]): row for row in rows(result, "functions")}
    assert found[0, "f (a.py)"]["self_ns"] == 200
    assert found[1, "f (a.py)"]["self_share"] == pytest.approx(0.25)
    shares = {row["function"]: row["self_share"] for row in rows(result, "chart")}
    assert shares == pytest.approx({"f (a.py)": 0.625, "g (a.py)": 0.375})


def test_few_samples_are_said_to_be_few():
    result = analyze.run(sampled_stacks={"x": stacks(((OUTER,), 3, 100))}, config=Config())
    assert "only 3 samples" in result.abstentions[0].reason


def test_a_real_profile_adds_up(real_data, tmp_path):
    path = real_data / "py_spy/profile.speedscope.json.gz"
    raw = Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0)
    sampled = converter("py_spy").run(raw, tmp_path).tables["sampled_stacks"].to_pandas()
    result = analyze.run(sampled_stacks={"py_spy": sampled}, config=Config(max_rows=100_000))
    document = json.loads(gzip.decompress(path.read_bytes()))
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    leaves = Counter()
    for profile in document["profiles"]:
        for sample, weight in zip(profile["samples"], profile["weights"], strict=True):
            leaves[frames[sample[-1]]] += weight
    found = rows(result, "functions")
    assert sum(row["self_ns"] for row in found) == pytest.approx(
        1e9 * sum(leaves.values()), rel=1e-6
    )
    by_name = Counter()
    for row in found:
        by_name[row["function"].partition(" (")[0]] += row["self_ns"]
    assert by_name == pytest.approx(
        {name: 1e9 * leaves[name] for name in by_name}, abs=2 * len(found)
    )
