"""Differences between runs, or between ranks of one run."""

import pandas as pd
import pytest

from profkit.analyze.trace_diff import Config, analyze
from profkit.core.result import Metric, Result, Table
from profkit.tables.schema import frame
from profkit.testing import rows

TABLES = ("cpu_ops", "runtime_calls", "kernels")


def of_runs(**runs):
    """Return the tables of several runs as an analysis across runs gets them."""
    frames = {}
    for table in TABLES:
        parts = [tables[table].assign(run=run) for run, tables in runs.items()]
        rows = pd.concat([part.astype({"name": object}) for part in parts], ignore_index=True)
        rows["name"] = rows["name"].astype("category")
        frames[table] = rows.assign(run=pd.Categorical(rows["run"], list(runs)))
    return frames | {"steps": None, "behaviour": {}}


def trace(*ops, kernels=(), step=0, rank=0):
    """Build a trace from (name, parent, start, end, self) and (name, op, duration)."""
    where = {"rank": rank, "repeat": 0, "step": step}
    rows = [
        where
        | {"op": op, "parent": parent, "name": name, "start_ns": start, "end_ns": end}
        # a comment would not make this clearer: the fifth is the self time
        | {"self_ns": own}
        for op, (name, parent, start, end, own) in enumerate(ops)
    ]
    work = [
        where | {"op": op, "name": name, "start_ns": 0, "end_ns": took, "kind": "compute"}
        for name, op, took in kernels
    ]
    return {
        "cpu_ops": frame("cpu_ops", rows),
        "runtime_calls": frame("runtime_calls"),
        "kernels": frame("kernels", work),
    }


BASE = trace(
    ("ProfilerStep#3", -1, 0, 100, 10),
    ("linear", 0, 10, 60, 20),
    ("addmm", 1, 20, 50, 30),
    ("relu", 0, 60, 70, 10),
    kernels=[("gemm", 2, 500), ("relu_kernel", 3, 50)],
)
FUSED = trace(
    ("ProfilerStep#7", -1, 0, 100, 10),
    ("fused", 0, 10, 40, 10),
    ("triton", 1, 20, 40, 20),
    ("relu", 0, 60, 75, 15),
    ("relu", 0, 80, 95, 15),
    kernels=[("triton_kernel", 2, 300), ("relu_kernel", 3, 40), ("relu_kernel", 4, 40)],
)


def causes(*parts):
    """Return a result of ``causes`` with (rank, operator, kernel, ms) in a module."""
    columns = ("rank", "repeat", "cause", "module", "operator", "kernel", "calls_per_step")
    rows = tuple((rank, 0, "gpu_computing", "Net", *keys, 1, ms) for rank, *keys, ms in parts)
    return Result(tables={"parts": Table(title="", columns=(*columns, "ms_per_step"), rows=rows)})


def of_causes(**runs):
    """Return what both runs need: their tables, and the results of ``causes``."""
    return of_runs(**dict.fromkeys(runs, BASE)) | {"causes": runs}


def test_the_difference_is_divided_among_causes_and_operators_are_matched():
    before = causes((0, "linear", "gemm", 5.0), (0, "relu", "clamp", 1.0))
    after = causes((0, "triton_fused_linear_relu", "triton", 3.0))
    result = analyze.run(**of_causes(a=before, b=after), config=Config())
    (row,) = rows(result, "matched")
    assert (row["change"], row["before"], row["after"]) == (
        "fused",
        "linear + relu",
        "triton_fused_linear_relu",
    )
    bars, falls = rows(result, "bars"), rows(result, "steps")
    assert sum(row["difference_ms"] for row in bars) == pytest.approx(-3.0)
    assert [row["cause"] for row in falls] == ["a", *(row["cause"] for row in bars), "b"]
    assert [row["from_ms"] for row in falls[2:-1]] == [row["to_ms"] for row in falls[1:-2]]
    assert (falls[0]["to_ms"], falls[-2]["to_ms"], falls[-1]["to_ms"]) == (6.0, 3.0, 3.0)
    drawing = result.drawings["differences"]
    tree = drawing.details[0].data()
    assert (drawing.details[0].name, drawing.data["difference"]["base"]) == ("b", "a")
    (gemm,) = [row for row, name in enumerate(tree["name"]) if tree["names"][name] == "gemm"]
    assert [column[gemm] for column in tree["own"][:3]] == [5_000_000, 5_000_000, 0]
    assert (tree["pairs"], tree["factor"]) == ([3], 0.0)
    assert result.findings[0].message == (
        "b takes 3 ms less per traced step than a (1 pair), most of it GPU computing: linear. "
        "Operators: 1 fused."
    )


@pytest.mark.parametrize(
    ("operator", "said"),
    [("relu", "1 removed"), ("gelu", "1 new, 1 removed"), ("train.py(3): load", "1 removed")],
)
def test_operators_are_new_only_where_none_of_the_name_ran_before(operator, said):
    """What takes little is in no part, and lines are sampled by chance."""
    before = causes((0, "mm", "gemm", 5.0), (0, "fancy", "other", 1.0))
    after = causes((0, "mm", "gemm", 5.0), (0, operator, "clamp", 1.0))
    result = analyze.run(**of_causes(a=before, b=after), config=Config())
    assert f"Operators: {said}." in result.findings[0].message


@pytest.mark.parametrize(
    ("batch", "said"),
    [(2, "the same."), (8, "the same. Its batch is 4 times as large: a sample takes 50% less.")],
)
def test_of_a_larger_batch_it_is_said_what_each_sample_takes(batch, said):
    runs = of_causes(a=causes((0, "mm", "gemm", 5.0)), b=causes((0, "mm", "gemm", 10.0)))
    runs["behaviour"] = {"a": {"batch": 2}, "b": {"batch": batch}}
    result = analyze.run(**runs, config=Config())
    assert result.findings[0].message.endswith(f"Operators: {said}")


def timed(ns):
    title = "Unprofiled step time, median"
    return Result(
        metrics={"step_time_ns": Metric(value=ns, unit="ns", title=title, better="lower")},
        tables={"per_repeat": Table(title="", columns=("repeat", "mean_ns"), rows=((0, ns),))},
    )


def test_what_a_sample_takes_is_told_of_steps_without_a_profiler():
    """One that slows the smaller batch more makes the larger one look cheaper."""
    runs = of_causes(a=causes((0, "mm", "gemm", 5.0)), b=causes((0, "mm", "gemm", 10.0)))
    runs["behaviour"] = {"a": {"batch": 2}, "b": {"batch": 8}}
    runs["steps"] = {"a": timed(1e6), "b": timed(4.4e6)}
    result = analyze.run(**runs, config=Config())
    said = "Its batch is 4 times as large: unprofiled, a sample takes 10% more."
    assert result.findings[0].message.endswith(f"Operators: the same. {said}")


@pytest.mark.parametrize(
    ("after_ns", "said"),
    [
        (9e6, " Unprofiled steps take 2 ms more: the profiler, or other work, slowed one of them."),
        (6e6, ""),
        (5e6, ""),
        (
            6.5e6,
            " Unprofiled steps take 0.5 ms less: the profiler, or other work, slowed one of them.",
        ),
    ],
)
def test_unprofiled_steps_that_differ_otherwise_are_said(after_ns, said):
    runs = of_causes(a=causes((0, "mm", "gemm", 5.0)), b=causes((0, "mm", "gemm", 3.0)))
    runs["steps"] = {"a": timed(7e6), "b": timed(after_ns)}
    result = analyze.run(**runs, config=Config())
    _, _, rest = result.findings[0].message.partition("Operators: the same.")
    assert rest.startswith(said)
    assert (rest == "") == (said == "")


def test_ranks_of_a_single_run_have_causes_of_their_difference():
    of_ranks = causes((0, "linear", "gemm", 5.0), (1, "linear", "gemm", 8.0))
    ranks = [
        trace(("relu", -1, 0, 10, 10), rank=0),
        trace(("relu", -1, 0, 30, 30), ("item", -1, 40, 50, 10), rank=1),
    ]
    both = {name: pd.concat([of_rank[name] for of_rank in ranks]) for name in TABLES}
    result = analyze.run(**of_runs(only=both), causes={"only": of_ranks}, config=Config())
    assert [(row["compared"], row["difference_ms"]) for row in rows(result, "bars")] == [
        ("rank 1", 3.0)
    ]
    assert not result.findings
    names = {row["name"]: row["change"] for row in rows(result, "by_name")}
    assert names == {"relu": "", "item": "added"}


def many_ranks(count):
    of_ranks = [
        trace(("relu", -1, 0, 10 + (rank == 7) * 90, 10), rank=rank) for rank in range(count)
    ]
    return of_runs(only={name: pd.concat([one[name] for one in of_ranks]) for name in TABLES})


def test_of_many_ranks_some_are_compared_and_named():
    result = analyze.run(**many_ranks(40), causes=None, config=Config(most_ranks=4))
    compared = list(dict.fromkeys(row["compared"] for row in rows(result, "by_name")))
    assert len(compared) == 4
    assert "rank 7" in compared
    (left, _) = result.abstentions
    named = ", ".join(["0", *(name.removeprefix("rank ") for name in compared)])
    assert left.what == "differences of 35 ranks"
    assert left.reason == f"ranks {named} stand for all 40: set most_ranks to have more"
    few = analyze.run(**many_ranks(5), causes=None, config=Config(most_ranks=4))
    assert len({row["compared"] for row in rows(few, "by_name")}) == 4
    assert len(few.abstentions) == 1


def test_of_many_ranks_those_are_compared_whose_causes_are_divided():
    divided = causes(*((rank, "linear", "gemm", 5.0 + rank) for rank in (3, 11, 30)))
    config = Config(most_ranks=4)
    result = analyze.run(**many_ranks(40), causes={"only": divided}, config=config)
    assert [(row["compared"], row["difference_ms"]) for row in rows(result, "bars")] == [
        ("rank 11", 8.0),
        ("rank 30", 27.0),
    ]


def test_names_have_counts_and_whole_durations():
    result = analyze.run(**of_runs(a=BASE, b=FUSED), causes=None, config=Config())
    by_name = {row["name"]: row for row in rows(result, "by_name")}
    linear = ("b", "linear", 50, 0, -50, 1, 0, "removed", "operator")
    assert tuple(by_name["linear"].values()) == linear
    assert by_name["ProfilerStep"]["change"] == ""
    assert by_name["relu_kernel"]["change"] == "more"


def test_counts_are_per_step_of_a_rank():
    steps = [
        trace(("relu", -1, 0, 10, 10), step=step, rank=rank) for step, rank in ((0, 0), (0, 1))
    ]
    both = {name: pd.concat([of_step[name] for of_step in steps]) for name in TABLES}
    once = trace(("relu", -1, 0, 10, 10))
    result = analyze.run(**of_runs(a=once, b=both), causes=None, config=Config())
    (row,) = rows(result, "by_name")
    assert (row["base_count"], row["other_count"], row["change"]) == (1, 1, "")
    assert [abstention.what for abstention in result.abstentions] == ["causes of the difference"]


def test_the_base_can_be_chosen():
    result = analyze.run(**of_runs(a=BASE, b=FUSED), causes=None, config=Config(base="b"))
    assert {row["compared"] for row in rows(result, "by_name")} == {"a"}


@pytest.fixture(scope="module")
def step_1010(real_data, converted):
    """Return the result for one step of the two traces that HTA's own tests compare."""
    folder = real_data / "kineto/hta/trace_compare"
    runs = {}
    for name in ("base", "test"):
        tables = converted(folder / name / f"{name}.json.gz")
        runs[name] = {table: tables[table][tables[table]["step"] == 1010] for table in TABLES}
    return analyze.run(**of_runs(**runs), causes=None, config=Config())


def test_operators_added_and_removed_are_those_that_hta_names(step_1010):
    changed = {(row["name"], row["change"]) for row in rows(step_1010, "by_name") if row["change"]}
    kernels = {name for name, _ in changed if name.startswith("void")}
    assert {change for change in changed if change[0] not in kernels} == {
        *(("AddmmBackward0", "added"), ("All2All_Pooled_Req", "added"), ("CatBackward0", "added")),
        ("nccl:all_reduce", "removed"),
    }


def test_durations_by_name_are_those_of_hta(step_1010):
    took = {row["name"]: row["base_ns"] for row in rows(step_1010, "by_name")}
    assert took["ProfilerStep"] == 122_149_000
    assert took["nccl:all_reduce"] == 67_000
    assert (took["cudaEventQuery"], took["cudaLaunchKernel"]) == (4000, 4000)


def test_counts_by_name_are_those_of_hta(real_data, converted):
    # Compared name by name with TraceDiff.compare_traces of HTA 0.6.1 on step 1010: all counts of
    # the 431 names beside the step are equal. These totals are ours at that point; HTA, which
    # takes half a minute to read the files, does not run here.
    folder = real_data / "kineto/hta/trace_diff"
    runs = {}
    for name in ("control", "test"):
        tables = converted(folder / name / f"{name}.json.gz")
        runs[name] = {table: tables[table][tables[table]["step"] == 1010] for table in TABLES}
    result = analyze.run(**of_runs(**runs), causes=None, config=Config(max_rows=1000, tolerance=0))
    found = pd.DataFrame(rows(result, "by_name")).groupby("name")
    counts = found[["base_count", "other_count"]].sum()
    assert len(counts) == 432
    assert ((counts["base_count"] == 0).sum(), (counts["other_count"] == 0).sum()) == (32, 138)
