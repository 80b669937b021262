"""Real reports of Nsight Systems, beside what is known of them and what nsys says itself."""

import csv
import gzip
from collections import Counter

import pandas as pd
import pytest

from profkit.analyze import nsys_stats
from profkit.convert.nsys import export, statistics
from profkit.convert.nsys.names import function
from tests.convert.nsys.reports import frames

# Kernels and the sum of their times, in ns, as the README of the data has them.
EXPECTED = {
    "ddp53_profile": (4652, 290492491),
    "mfu_2gpu_before": (4010, 535200650),
    "mfu_2gpu_after": (3587, 488835406),
}


@pytest.fixture(scope="session")
def real(real_data, tmp_path_factory):
    """Return a function from the name of a real report to its tables, notes and SQLite file."""
    folder = tmp_path_factory.mktemp("real")
    made = {}

    def found(name):
        if name not in made:
            path = folder / f"rank0.{name}.nsys-rep"
            path.write_bytes(gzip.decompress((real_data / f"nsys/{name}.sqlite.gz").read_bytes()))
            made[name] = (*frames(path, folder), path)
        return made[name]

    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_real_kernels_are_counted_and_timed(real, name):
    found, _, _ = real(name)
    kernels = found["kernels"]
    own = kernels[kernels["kind"].isin(["compute", "communication"])]
    assert (len(own), int((own["end_ns"] - own["start_ns"]).sum())) == EXPECTED[name]
    assert set(kernels["rank"]) == {0, 1}
    # Each was launched by a call of its own process, which began before it.
    calls = found["runtime_calls"].drop_duplicates(["rank", "correlation"])
    both = kernels.merge(calls, on=["rank", "correlation"], suffixes=("", "_call"))
    assert len(both) >= 0.99 * len(kernels)
    assert (both["start_ns_call"] <= both["start_ns"]).all()


def test_nccl_tells_ranks_sizes_and_groups(real):
    found, notes, _ = real("ddp53_profile")
    assert notes == []
    collectives = found["collectives"]
    assert set(collectives["group_size"]) == {2}
    assert (collectives["size_bytes"] > 0).all()
    sizes = collectives.groupby(["rank", "operation"], observed=True)["size_bytes"].sum()
    # Both ranks give the same.
    assert sizes[0].equals(sizes[1])
    kernels = found["kernels"]
    assert (kernels["collective"] >= 0).sum() == len(collectives) == 460


def test_operators_of_pytorch_are_told_from_other_ranges(real):
    ops = real("mfu_2gpu_after")[0]["cpu_ops"]
    named = ops[ops["kind"] == "operator"]["name"]
    assert "aten::addmm" in set(named)
    assert not named.str.contains("op_id").any()
    assert {"ncclSend", "ncclGroupStart"} <= set(ops[ops["kind"] == "annotation"]["name"])


def test_devices_are_those_that_cuda_numbers(real):
    devices = real("ddp53_profile")[0]["devices"]
    assert devices["capability"].tolist() == ["8.6"] * 4
    assert devices["processors"].tolist() == [82] * 4
    assert sorted(devices["device"]) == [0, 0, 1, 1]


def rows(path):
    """Return the rows of a CSV of ``nsys stats``, with what it says before left out."""
    lines = path.read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("Time (%)"))
    return list(csv.DictReader(lines[start:]))


def stats(found):
    """Return our statistics of the tables `found`, as data frames summed over ranks."""
    by_tool = {name: {"nsys": found[name]} for name in ("kernels", "runtime_calls", "cpu_ops")}
    result = nsys_stats.analyze.run(
        **by_tool,
        python_calls={"nsys": found["python_calls"]},
        os_calls=found["os_calls"],
        config=nsys_stats.Config(max_rows=10**6),
    )
    made = {
        name: pd.DataFrame(table.rows, columns=table.columns)
        for name, table in result.tables.items()
    }
    return made, result


def summed(table):
    totals = Counter()
    for row in table.to_dict("records"):
        totals[row["name"], "ns"] += row["total_ns"]
        totals[row["name"], "count"] += row["instances"]
    return totals


@pytest.mark.parametrize("name", EXPECTED)
def test_the_statistics_of_the_installed_nsys_agree_with_ours(real, name):
    found, _, path = real(name)
    made, _ = stats(found)
    prefix = path.with_name("rank0_dp0_tp0_pp0.rep0")
    # The folder holds the CSV of the last that was converted: make those of this one again.
    with export.exported(path) as exported:
        assert statistics.write_csv(exported.store, exported.source, prefix) == []
    pairs = {"gpukernsum": "cuda_gpu_kern_sum", "cudaapisum": "cuda_api_sum"}
    names = statistics.available(export.nsys())
    for old, new in pairs.items():
        column = "Num Calls" if "api" in old else "Instances"
        given = rows(prefix.with_name(f"{prefix.name}_{old if old in names else new}.csv"))
        theirs = Counter()
        for row in given:
            # Some names have several numbers, and so several rows there.
            theirs[function(row["Name"]), "ns"] += int(row["Total Time (ns)"])
            theirs[function(row["Name"]), "count"] += int(row[column])
        assert summed(made[new]) == theirs
    copies = rows(prefix.with_name(f"{prefix.name}_gpumemtimesum.csv"))
    assert made["cuda_gpu_mem_time_sum"]["total_ns"].sum() == sum(
        int(row["Total Time (ns)"]) for row in copies
    )


def test_statistics_of_one_report_are_those_of_nsys_to_the_digit(report, tmp_path):
    path = report(nvtx=[(10, 40, "a"), (50, 70, "a"), (10, 90, "b")], os=[(5, 20, "read")])
    found, notes = frames(path, tmp_path)
    made, result = stats(found)
    assert made["nvtx_sum"].to_dict("records")[1] == {
        "rank": 0, "repeat": 0, "name": "a", "share": 50 / 130, "total_ns": 50, "instances": 2,
        "mean_ns": 25.0, "median_ns": 25.0, "min_ns": 20, "max_ns": 30,
        "deviation_ns": pytest.approx(50**0.5),
    }  # fmt: skip
    reasons = {abstention.what: abstention.reason for abstention in result.abstentions}
    assert reasons["cuda_gpu_kern_sum"] == "no kernel of a GPU was recorded"
    assert "The report holds no kernel, copy or set: CUDA was not recorded." in notes
