"""HTA on our tables and HTA on the JSON, for tests that compare what they say."""

import copy
import json
import shutil
import warnings
from dataclasses import dataclass
from functools import lru_cache, partialmethod
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from hta.trace_analysis import TraceAnalysis

from profkit.analyze import hta
from profkit.analyze.shared.hta_trace import TABLES, trace
from tests.convert.torch_profiler import damage


def pair(paths: Any, converted: Any, folder: Path) -> tuple[Any, Any]:
    return on_tables(paths, converted), on_json(paths, folder)


def on_tables(paths, converted):
    tables = joined([rounded(converted(path, rank), path) for rank, path in paths.items()])
    with warnings.catch_warnings(action="ignore"):
        return hta.over(trace(tables))


def on_json(paths, folder):
    # HTA writes beside its input.
    copies = {rank: str(shutil.copy(path, folder)) for rank, path in paths.items()}
    with warnings.catch_warnings(action="ignore"):
        return without_python(TraceAnalysis(trace_files=copies, trace_dir=str(folder)))


def without_python(analyses):
    """Return HTA's analyses without calls of Python functions, which these tables leave out.

    In HTA they move the origin of time, and lengthen what the share of a full queue is taken of.
    """
    names = analyses.t.symbol_table.get_sym_table()
    kept = {rank: rows[[names[code] != "python_function" for code in rows["cat"]]]
            for rank, rows in analyses.t.traces.items()}  # fmt: skip
    origin = min((rows["ts"].min() for rows in kept.values() if len(rows)), default=0)
    return over_rows(analyses, {rank: rows.assign(ts=rows["ts"] - origin, end=rows["end"] - origin)
                                for rank, rows in kept.items()})  # fmt: skip


def in_one_order(analyses):
    """Return HTA's analyses over the same events, those of equal times in one order.

    HTA sorts by time alone and unstably: which of two events comes first, that start in the same
    µs, depends on where all others stand in the file.
    """
    names = analyses.t.symbol_table.get_sym_table()
    keys = ["ts", "dur", "stream", "correlation", "called"]
    return over_rows(analyses, {
        rank: rows.assign(called=[names[code] for code in rows["name"]]).sort_values(keys)
        for rank, rows in analyses.t.traces.items()
    })  # fmt: skip


def over_rows(analyses, rows):
    trace_copy = copy.copy(analyses.t)
    trace_copy.traces = rows
    return hta.over(trace_copy)


def rounded(tables, path):
    """Return the tables with times as HTA rounds them where a trace has fractions of a µs.

    It adds starts and durations as floats, which at the 1.7e15 µs of older traces keep 250 ns.
    """
    content = damage.unpacked(path.read_bytes())
    base = json.loads(content).get("baseTimeNanoseconds", 0)
    found = {}
    for name in TABLES:
        start, end = (tables[name][column].to_numpy(np.int64) for column in ("start_ns", "end_ns"))
        # The nearest float to each time: divided in more digits than floats have.
        begun = ((start - base).astype(np.longdouble) / 1000).astype(float)
        done = begun + (end - start) / 1000
        found[name] = tables[name].assign(
            start_ns=np.ceil(begun).astype(np.int64) * 1000 + base,
            end_ns=np.floor(done).astype(np.int64) * 1000 + base,
        )
    return found


def joined(every):
    found = {}
    for name in TABLES:
        kinds = every[0][name].dtypes.to_dict()
        rows = pd.concat([tables[name].astype(object) for tables in every], ignore_index=True)
        found[name] = rows.astype({key: "category" if kind == "category" else kind
                                   for key, kind in kinds.items()})  # fmt: skip
    return found


FUNCTIONS = {
    "temporal breakdown": lambda hta: hta.get_temporal_breakdown(visualize=False),
    "overlap": lambda hta: hta.get_comm_comp_overlap(visualize=False),
    "types of kernels": lambda hta: hta.get_gpu_kernel_breakdown(visualize=False)[0],
    "kernels": lambda hta: hta.get_gpu_kernel_breakdown(visualize=False)[1],
    "device annotations": lambda hta: hta.get_gpu_user_annotation_breakdown(visualize=False),
    "host annotations": lambda hta: hta.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, visualize=False
    ),
    "kernels in annotations": lambda hta: hta.get_gpu_kernels_with_user_annotations(0),
    "launches": lambda hta: hta.get_cuda_kernel_launch_stats(visualize=False)[0],
    "operators": lambda hta: hta.get_aten_op_kernels_and_delay()[0],
    "queue": lambda hta: hta.get_queue_length_time_series()[0],
    "queue in short": lambda hta: hta.get_queue_length_summary(),
    "full queue": lambda hta: hta.get_time_spent_blocked_on_full_queue(
        hta.get_queue_length_time_series(), max_queue_length=2
    ),
    "bandwidth": lambda hta: hta.get_memory_bw_time_series()[0],
    "bandwidth in short": lambda hta: hta.get_memory_bw_summary(),
    "idle time": lambda hta: hta.get_idle_time_breakdown(ranks=[0], visualize=False)[0],
    "steps": lambda hta: pd.DataFrame({"step": hta.get_profiler_steps()}),
}


# What HTA reads off the trace and these tables do not hold, numbers of events, and bandwidths:
# HTA takes those that a trace states, we divide bytes by the time, which older traces round to µs.
LEFT_OUT = {"index", "index_correlation", "external_id", "memory_bw_gbps"}

_FIRST_IS_NONE = (
    "work whose launch is not in the trace has 0 for the number of its launch, in HTA, which is "
    "also the number of the first event in the file: HTA takes the wait for one for that event"
)
_NO_STREAM = (
    "its kernel names no stream, so that HTA takes it for work of the host and finds no device "
    "work, or fails; here it is the kernel that it says it is, on the stream that is its thread"
)
_HOST_STREAM = (
    "a Triton operator of the host names a stream, so that HTA adds the operator's time to that of "
    "the kernels"
)
_OLD = (
    "written by the first version of the profiler, for which marks of steps and optimisers are "
    "operators like others and a thread of the device is the text 'stream 7': HTA finds no "
    "annotation, and no number for the thread"
)
KNOWN = {
    **{
        f"{name}.json.gz": ({"idle time"}, _FIRST_IS_NONE)
        for name in (
            "dlrm_8rank_v100/worker1_step_12.1694128201556.pt.trace",
            "dlrm_8rank_v100/worker3_step_12.1694128201557.pt.trace",
            "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005",
            "tracelens/mi300/Qwen_Qwen1.5-0.5B-Chat__1016005",
        )
    },
    "hta/large_integer_trace/rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz": (
        {"temporal breakdown", "overlap", "types of kernels", "kernels", "idle time"},
        _NO_STREAM,
    ),
    "hta/triton_example/triton_example.json.gz": (
        {"temporal breakdown", "types of kernels", "kernels"},
        _HOST_STREAM,
    ),
    **{
        f"tensorboard/resnet50_num_workers_{name}.pt.trace.json.gz": (
            {"host annotations", "queue"},
            _OLD,
        )
        for name in (
            "0/worker0.1623143089861",
            "0/worker0.1623143566756",
            "4/worker0.1623212756351",
            "4/worker0.1623213129365",
        )
    },
}
"""Traces on which HTA is wrong: the functions that differ, and why.

The tests mend these files in the one thing that misleads HTA, and HTA agrees then.
"""


ORDERS = (["ts", "correlation"], ["correlation"], ["ts", "name"], ["stream", "idle_category"])


def flat(rows):
    """Return what a function of HTA gave, as columns that can be compared."""
    plain = rows.reset_index(drop=rows.index.names == [None])
    # HTA gives events, and streams, in the order of the file.
    for order in ORDERS:
        if set(order) <= set(plain):
            plain = plain.sort_values(order, ignore_index=True, kind="stable")
            break
    # Work on stream 0 has no step in HTA, and an unknown one here.
    known = plain.fillna({"iteration": -1}) if "iteration" in plain else plain
    return known.sort_index(axis=1)


def kept(column, rows):
    """Tell which columns are compared: a name's number is not where the name is, too."""
    name = column if isinstance(column, str) else column[0]
    return name not in LEFT_OUT and f"s_{name}" not in rows


@lru_cache(maxsize=8)
def outcomes(analyses):
    """Return what each function gives; a trace is compared with several."""
    return {name: outcome(function, analyses) for name, function in FUNCTIONS.items()}


def outcome(function, analyses):
    try:
        with warnings.catch_warnings(action="ignore"):
            return function(analyses)
    except Exception as error:  # noqa: BLE001 - whatever HTA fails with it should fail with here
        return type(error).__name__


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How far HTA gives the same for two ways to its trace."""

    equal: set[str]
    tied: set[str]
    """Functions that give the same once events of equal times stand in one order."""
    failed: set[str]
    """Functions that fail in HTA itself, or give nothing."""
    different: dict[str, str]


def differences(ours: Any, theirs: Any) -> Agreement:
    """Compare the outcomes of all functions."""
    given = {name: compared(name, outcomes(ours)[name], outcomes(theirs)[name])
             for name in FUNCTIONS}  # fmt: skip
    differing = {name: text for name, (text, _) in given.items() if text}
    tied = set()
    stable = partialmethod(pd.DataFrame.sort_values, kind="stable")
    with mock.patch.object(pd.DataFrame, "sort_values", stable):
        pairs = [in_one_order(trace) for trace in (ours, theirs)] if differing else []
        for name in differing:
            text, _ = compared(name, *(outcome(FUNCTIONS[name], trace) for trace in pairs))
            tied |= set() if text else {name}
    return Agreement(
        equal={name for name, (text, is_given) in given.items() if is_given and not text},
        tied=tied,
        failed={name for name, (_, is_given) in given.items() if not is_given},
        different={name: text for name, text in differing.items() if name not in tied},
    )


def compared(name, mine, own):
    """Return how `mine` differs from HTA's `own`, and whether HTA gives a table."""
    if not isinstance(own, pd.DataFrame):
        # On some traces HTA gives nothing, or fails: so it does here.
        same = type(mine) is type(own) and (own is None or mine == own)
        return "" if same else f"{mine!r:.200} for {own!r:.200}", False
    try:
        mine, own = flat(mine), flat(own)
        columns = [column for column in own.columns if column in mine.columns and kept(column, own)]
        pd.testing.assert_frame_equal(
            mine[columns], own[columns], check_dtype=False, check_index_type=False, obj=name
        )
    except (AssertionError, AttributeError) as error:
        return str(error)[:500], True
    return "", True
