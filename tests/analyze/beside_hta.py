"""HTA on our tables and HTA on the JSON, for tests that compare what they say."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from hta.trace_analysis import TraceAnalysis

from profkit.analyze import hta
from profkit.analyze._hta_trace import TABLES, trace
from tests.convert.kineto import damage


def pair(paths: Any, converted: Any, folder: Path) -> tuple[Any, Any]:
    # HTA writes beside its input.
    copies = {rank: str(shutil.copy(path, folder)) for rank, path in paths.items()}
    tables = joined([rounded(converted(path, rank), path) for rank, path in paths.items()])
    with warnings.catch_warnings(action="ignore"):
        theirs = TraceAnalysis(trace_files=copies, trace_dir=str(folder))
        return hta.over(trace(tables)), theirs


def rounded(tables, path):
    """Return the tables with times as HTA rounds them where a trace has fractions of a µs."""
    content = damage.unpacked(path.read_bytes())
    base = json.loads(content).get("baseTimeNanoseconds", 0)
    found = {}
    for name in TABLES:
        start, end = tables[name]["start_ns"] - base, tables[name]["end_ns"] - base
        found[name] = tables[name].assign(
            start_ns=-(-start // 1000) * 1000 + base, end_ns=end // 1000 * 1000 + base
        )
    return found


def joined(every):
    found = {}
    for name in TABLES:
        kinds = every[0][name].dtypes.to_dict()
        rows = pd.concat([each[name].astype(object) for each in every], ignore_index=True)
        found[name] = rows.astype({key: "category" if kind == "category" else kind
                                   for key, kind in kinds.items()})  # fmt: skip
    return found


FUNCTIONS = {
    "temporal breakdown": lambda each: each.get_temporal_breakdown(visualize=False),
    "overlap": lambda each: each.get_comm_comp_overlap(visualize=False),
    "types of kernels": lambda each: each.get_gpu_kernel_breakdown(visualize=False)[0],
    "kernels": lambda each: each.get_gpu_kernel_breakdown(visualize=False)[1],
    "device annotations": lambda each: each.get_gpu_user_annotation_breakdown(visualize=False),
    "host annotations": lambda each: each.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, visualize=False
    ),
    "kernels in annotations": lambda each: each.get_gpu_kernels_with_user_annotations(0),
    "launches": lambda each: each.get_cuda_kernel_launch_stats(visualize=False)[0],
    "operators": lambda each: each.get_aten_op_kernels_and_delay()[0],
    "queue": lambda each: each.get_queue_length_time_series()[0],
    "queue in short": lambda each: each.get_queue_length_summary(),
    "full queue": lambda each: each.get_time_spent_blocked_on_full_queue(
        each.get_queue_length_time_series(), max_queue_length=2
    ),
    "bandwidth": lambda each: each.get_memory_bw_time_series()[0],
    "bandwidth in short": lambda each: each.get_memory_bw_summary(),
    "idle time": lambda each: each.get_idle_time_breakdown(ranks=[0], visualize=False)[0],
    "steps": lambda each: pd.DataFrame({"step": each.get_profiler_steps()}),
}


# What HTA reads off the trace and these tables do not hold, numbers of events, and bandwidths:
# HTA takes those that a trace states, we divide bytes by the time, which older traces round to µs.
# A Triton operator of the host, finally, may name a stream, and HTA takes it for device work then:
# "triton_example" is not among the traces.
LEFT_OUT = {"index", "index_correlation", "external_id", "memory_bw_gbps"}


def flat(rows):
    """Return what a function of HTA gave, as columns that can be compared."""
    plain = rows if isinstance(rows.index, pd.RangeIndex) else rows.reset_index()
    # Of what starts in the same µs, HTA takes one or the other first.
    if "correlation" in plain and "ts" in plain:
        plain = plain.sort_values(["ts", "correlation"], ignore_index=True)
    # Work on stream 0 has no step in HTA, and an unknown one here.
    known = plain.fillna({"iteration": -1}) if "iteration" in plain else plain
    return known.sort_index(axis=1)


def kept(column, rows):
    """Tell which columns are compared: a name's number is not where the name is, too."""
    name = column if isinstance(column, str) else column[0]
    return name not in LEFT_OUT and f"s_{name}" not in rows


def outcome(function, analyses):
    try:
        with warnings.catch_warnings(action="ignore"):
            return function(analyses)
    except Exception as error:  # noqa: BLE001 - whatever HTA fails with it should fail with here
        return type(error).__name__


def differences(ours: Any, theirs: Any) -> tuple[int, int, dict[str, str]]:
    """Compare all functions; return how many are equal, how many HTA fails at, and what differs."""
    compared, failed = 0, 0
    different: dict[str, str] = {}
    for name, function in FUNCTIONS.items():
        mine, own = outcome(function, ours), outcome(function, theirs)
        if not isinstance(own, pd.DataFrame):
            # On some traces HTA has nothing to say, or fails: so it does here.
            failed += 1
            if type(mine) is not type(own) or (own is not None and mine != own):
                different[name] = f"{mine!r:.200} for {own!r:.200}"
            continue
        try:
            mine, own = flat(mine), flat(own)
            columns = [each for each in own.columns if each in mine.columns and kept(each, own)]
            pd.testing.assert_frame_equal(
                mine[columns], own[columns], check_dtype=False, check_index_type=False, obj=name
            )
            compared += 1
        except (AssertionError, AttributeError) as error:
            different[name] = str(error)[:500]
    return compared, failed, different
