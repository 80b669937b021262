"""Numbers that other tools publish for real traces, beside ours; where we differ, and why."""

import csv
import json

import pandas as pd
import pyarrow as pa
import pytest

from profkit.analyze import breakdown, kernels, operators, overlap
from profkit.convert import converter
from profkit.convert.base import Raw
from profkit.tables import schema

TENSORBOARD = (
    ("resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz", 0),
    ("resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz", 5),
)


@pytest.fixture(scope="module")
def tables():
    """Return a function that reads traces, one rank each, into data frames by table."""

    def read(*paths):
        found = [
            converter("torch_profiler")
            .run(Raw(path=path, label=f"rank{rank}", rank=rank, repeat=0), path.parent)
            .tables
            for rank, path in enumerate(paths)
        ]
        names = ("steps", "cpu_ops", "kernels", "runtime_calls", "memory_events")
        return {
            name: pd.concat([pa.concat_tables(trace[name]).to_pandas() for trace in found])
            for name in names
        }

    return read


def records(result, name):
    table = result.tables[name]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def hta(real_data, name):
    return json.loads((real_data / "expected" / "hta" / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def dlrm(real_data, tables):
    return tables(*sorted((real_data / "kineto/dlrm_8rank_v100").iterdir()))


def test_time_by_type_of_kernel_is_that_of_hta(real_data, dlrm):
    """HTA gives disjoint parts, summed over ranks, in whole microseconds, as this trace has them.

    Ours are unions by kind, so the parts where two kinds run side by side count in both.
    """
    expected = hta(real_data, "param_dlrm_8rank_V100")["gpu_kernel_breakdown"]["by_type"]
    parts = {row["kernel_type"]: row["sum"] for row in expected}
    both = parts["COMPUTATION overlapping COMMUNICATION"]
    beside_copies = parts["COMMUNICATION overlapping MEMORY"]
    devices = records(kernels.analyze.run(dlrm["kernels"], config=kernels.Config()), "by_device")
    ours = [
        sum(device[f"{kind}_ns"] for device in devices) for kind in ("compute", "communication")
    ]
    assert ours == [
        1000 * (parts["COMPUTATION"] + both),
        1000 * (parts["COMMUNICATION"] + both + beside_copies),
    ]
    hidden = overlap.analyze.run(
        kernels=dlrm["kernels"],
        steps=schema.frame("steps"),
        collectives=schema.frame("collectives"),
        config=overlap.Config(),
    )
    assert sum(row["hidden_ns"] for row in records(hidden, "by_rank")) == 1000 * both


def test_each_kernel_takes_what_it_takes_in_hta(real_data, dlrm):
    top = hta(real_data, "param_dlrm_8rank_V100")["gpu_kernel_breakdown"]["top"]
    work = dlrm["kernels"]
    duration = (work["end_ns"] - work["start_ns"]) / 1000
    ours = duration.groupby([work["name"].astype(str), work["rank"]]).agg(["sum", "max", "min"])
    # "others" is what HTA did not list; the expected values hold the beginnings of names only.
    listed = [row for row in top if row["name"] != "others"]
    assert len(listed) > 30
    for row in listed:
        theirs = row["sum (us)"]
        of_rank = ours.xs(row["rank"], level="rank")
        found = of_rank[of_rank.index.str.startswith(row["name"])]
        assert theirs in [*found["sum"]], row["name"]
        # Where it shortens the list, HTA takes the extremes of sums, and not of calls as we do.
        if row["max (us)"] != theirs:
            assert row["max (us)"] in [*found["max"]], row["name"]
            assert row["min (us)"] in [*found["min"]], row["name"]


@pytest.mark.parametrize(("path", "line"), TENSORBOARD)
def test_kernels_are_those_of_the_tensorboard_plugin(real_data, tables, path, line):
    folder = real_data / "kineto" / "tensorboard"
    checks = (folder / "result_check_file.txt").read_text().splitlines()
    expected = json.loads(checks[line + 3])["data"]["rows"]
    work = tables(folder / path)["kernels"]
    result = kernels.analyze.run(work, config=kernels.Config(max_rows=10_000))
    ours = {row["name"]: row for row in records(result, "by_name") if row["kind"] == "compute"}
    assert {row[0] for row in expected} == set(ours)
    for name, _, calls, total, mean, longest, shortest, _, occupancy in expected:
        found = ours[name]
        times = [found[f"{statistic}_ns"] / 1000 for statistic in ("total", "mean", "max", "min")]
        # The plugin shows whole microseconds, and occupancy with two decimals.
        assert found["calls"] == calls
        assert times == pytest.approx([total, mean, longest, shortest], abs=0.51), name
        assert found["occupancy_percent"] == pytest.approx(occupancy, abs=0.006), name


@pytest.mark.parametrize(("path", "line"), TENSORBOARD)
def test_the_average_step_is_that_of_the_tensorboard_plugin(real_data, tables, path, line):
    folder = real_data / "kineto" / "tensorboard"
    checks = (folder / "result_check_file.txt").read_text().splitlines()
    performance = json.loads(checks[line])["performance"][0]
    expected = int(performance["value"])
    assert expected == {0: 177592, 5: 141068}[line]
    found = tables(folder / path)
    del found["memory_events"]
    result = breakdown.analyze.run(**found, config=breakdown.Config())
    times = [row["step_time_ns"] for row in records(result, "parts")]
    assert sum(times) / len(times) / 1000 == pytest.approx(expected, abs=1)


@pytest.mark.parametrize("part", ["h100", "mi300"])
def test_operators_launch_the_device_time_that_tracelens_found(real_data, tables, part):
    """TraceLens counts the kernels that an operator launches itself, as our self time does.

    An operator that is the only child of one of the same name is one with it in PyTorch's table
    and so in ours, so the names, and not the numbers of calls, are compared.
    """
    folder = real_data / "kineto/tracelens" / part
    compared = 0
    for path in sorted(folder.glob("*.ops_summary.csv")):
        found = tables(path.with_name(path.name.replace("ops_summary.csv", "json.gz")))
        del found["steps"]
        result = operators.analyze.run(**found, config=operators.Config(max_rows=10_000))
        ours = {row["name"]: row["self_device_ns"] for row in records(result, "by_name")}
        with path.open() as file:
            for row in csv.DictReader(file):
                theirs = 1000 * float(row["total_direct_kernel_time_sum"])
                # It subtracts times in float microseconds, which costs it up to 1/4 ns each.
                near = pytest.approx(theirs, rel=1e-5, abs=10)
                assert ours[row["name"]] == near, (path.name, row["name"])
                compared += 1
    assert compared > 20
