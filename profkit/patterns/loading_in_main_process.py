"""Loading in the main process: a DataLoader without workers."""

import math
from functools import partial

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns import _costly_loading
from profkit.patterns._python_calls import outermost
from profkit.patterns._rows import (
    Chosen,
    cores_of_a_rank,
    having,
    inside,
    per_step,
    per_time,
    time,
    within,
)
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.frame_files import imported_library
from profkit.tables.python_frames import SLEEPS, own_lines

_MOST_WORKERS = 16
"""More for a rank are no advice: then a batch has to get cheaper, as beyond the cores."""
_MOSTLY, _LITTLE = 0.5, 0.02
_WAITS = (
    rf"{SLEEPS}|(?:^|/)(?:socket|ssl)\.py\(\d+\): (?:readinto|read|recv\w*|do_handshake|connect)$"
)
_ENOUGH_CORES = 1.0
"""Cores that operators have to leave for one worker to gain all that it can."""
_ITERATES = r": __iter__$"
HANDED_OVER_MS = 0.5
"""What it costs the main process to take a batch from a worker, about: sooner made, none helps."""


@pattern(
    title="Data loaded in the main process",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
    "#enable-asynchronous-data-loading-and-augmentation",
    calls=rf"{_WAITS}|{_ITERATES}|{_costly_loading.CALLS}",
)
def match(
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    processes: pd.DataFrame,
    python_calls: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find time in the iterator of a DataLoader with ``num_workers=0``.

    Where most of it is known to be waiting, as for the network, workers need no cores. Without a
    GPU they share the cores with the model: a step has as much to do as before, and where operators
    use nearly all of these, only cheaper loading gains much.
    """
    calls = having(cpu_ops, "_SingleProcessDataLoaderIter")
    if not calls.any():
        return None
    has_gpu = not kernels.empty
    gain_ns = time(cpu_ops, inside(cpu_ops, calls))
    handed_over_ns = HANDED_OVER_MS * 1e6 * calls.sum()
    if gain_ns < handed_over_ns:
        return None
    loading_ms = gain_ns / 1e6 / step.count
    workers, cores = _workers(loading_ms, step.ms), cores_of_a_rank(processes) or _MOST_WORKERS
    batches = cpu_ops[calls]
    waits = having(python_calls, _WAITS)
    is_waiting = _share(python_calls, waits, batches) >= _MOSTLY
    kept = f"{_kept(has_gpu=has_gpu)}{_shared(python_calls, batches)}"
    seen = python_calls[within(python_calls, batches)]
    cheaper = _costly_loading.cheaper(partial(_share_of_seen, seen))
    whole_ns, loading_ns = step.ms * 1e6 * step.count, gain_ns - handed_over_ns
    if is_waiting:
        advice = _for_waits(workers, kept)
    else:
        threads = _threads(processes, has_gpu=has_gpu)
        most = max(cores - 1, 1) if threads else cores
        # Operators that take most of a step lose more with fewer threads than loading takes.
        takes_most = loading_ms > _MOSTLY * step.ms
        left = _left(cores - min(workers, most), threads) if takes_most else ""
        advice = _advice(workers, most, f"{kept}{left}", cheaper)
        # A step takes no less than they need for a batch.
        gain_ns = min(gain_ns, whole_ns - loading_ns / min(workers, most))
    if not (has_gpu or is_waiting):
        in_use = per_time(processes, "cpu_ns")
        gain_ns = min(gain_ns, loading_ns, whole_ns * (1 - in_use / cores))
        gain_ns *= _usable(cores - in_use, cores, loading_ns / whole_ns)
        if gain_ns < _MOSTLY * loading_ns:
            by_workers = _advice(workers, max(cores - 1, 1), kept, _costly_loading.GENERAL)
            advice = _cheaper(cheaper, max(gain_ns, 0.0) / whole_ns, by_workers)
            gain_ns = loading_ns
    return Match(
        cause="gpu_idle.loading_data" if has_gpu else "loading_data",
        advice=advice,
        gain_ns=gain_ns,
        place="DataLoader(num_workers=0)",
        confidence=Confidence.HIGH,
        evidence={"batches_per_step": per_step(calls, step.count)},
    )


def _usable(free: float, cores: int, loading: float) -> float:
    """Return the share of what workers could gain where of the `cores` so many are `free`.

    While nothing is loaded, which takes its part of the time on one core, fewer are: a worker that
    finds none takes them from operators.
    """
    if loading > _MOSTLY:
        return 1.0
    left = (free - (cores - 1) * loading) / (1 - loading)
    return min(max(left / _ENOUGH_CORES, 0.0), 1.0)


def _workers(loading_ms: float, step_ms: float) -> int:
    """Return one worker more than keep up with the rest of the step."""
    rest_ms = max(step_ms - loading_ms, loading_ms / (_MOST_WORKERS - 1))
    return math.ceil(loading_ms / rest_ms) + 1


def _threads(processes: pd.DataFrame, *, has_gpu: bool) -> int:
    """Return the threads of operators that workers share the cores with, 0 if none is known."""
    are_shared = cores_of_a_rank(processes) > 0 and not has_gpu
    return int(processes.iloc[-1]["operator_threads"]) if are_shared else 0


def _share(python_calls: pd.DataFrame, fits: Chosen, batches: pd.DataFrame) -> float:
    """Return the share of the time of `batches` that calls which fit are known to take."""
    calls = python_calls[outermost(python_calls, fits & within(python_calls, batches))]
    lasted = [float((rows["end_ns"] - rows["start_ns"]).sum()) for rows in (calls, batches)]
    return lasted[0] / max(lasted[1], 1.0)


def _share_of_seen(calls: pd.DataFrame, functions: str) -> float:
    """Return the share that `functions` take of the time of `calls`; some of it may be unknown."""
    chosen = (having(calls, functions), np.ones(len(calls), dtype=np.bool_))
    of_rows = (calls[outermost(calls, fits)] for fits in chosen)
    inside, known = (float((rows["end_ns"] - rows["start_ns"]).sum()) for rows in of_rows)
    return inside / max(known, 1.0)


def _for_waits(workers: int, kept: str) -> str:
    return (
        f"Create the DataLoader with `num_workers={min(workers, _MOST_WORKERS)}`{kept}, or ask for "
        "several items at a time: loading mostly waits, so that more workers than cores help."
    )


def _shared(python_calls: pd.DataFrame, batches: pd.DataFrame) -> str:
    """Return what else an iterable dataset needs: each worker has all of its items."""
    names = python_calls["name"].astype(object).to_numpy()
    iterates = (own_lines(python_calls) == names) & having(python_calls, _ITERATES)
    # Those of libraries go around a loader, and are of no dataset.
    iterates[iterates] = [not imported_library(str(name)) for name in names[iterates]]
    if _share(python_calls, iterates, batches) < _MOSTLY:
        return ""
    return ", share the items of `__iter__` among them (`torch.utils.data.get_worker_info`)"


def _kept(*, has_gpu: bool) -> str:
    pinned = ", `persistent_workers=True` and `pin_memory=True`"
    return pinned if has_gpu else " and `persistent_workers=True`"


def _cheaper(cheaper: str, by_workers: float, advice: str) -> str:
    """Return the advice where workers alone gain a small share of the step."""
    first = f"Make what loads a batch cheaper: {cheaper}."
    if by_workers < _LITTLE:
        return f"{first} Workers gain nothing: the model needs the cores."
    return f"{first} Workers alone gain up to {by_workers:.0%}: {advice}"


def _left(cores: int, threads: int) -> str:
    """Return that operators of so many `threads` are to leave workers all but some `cores`."""
    fewer = max(cores, 1)
    return f", and leave them the cores: `torch.set_num_threads({fewer})`" * (fewer < threads)


def _advice(workers: int, most: int, kept: str, cheaper: str) -> str:
    """Return what to do with `workers`, at `most` as many as there are cores for."""
    is_known = cheaper != _costly_loading.GENERAL
    enough = (
        f" That is one for each core that is left; {workers - 1} would keep up with the step, so "
        f"make what loads a batch cheaper as well{f': {cheaper}' if is_known else ''}."
        if workers - 1 > most
        else " Batches are then made during the step."
        + (f" Or make what loads a batch cheaper: {cheaper}." if is_known else "")
    )
    return (
        f"Create the DataLoader with `num_workers={min(workers, most)}` (about a CPU core each)"
        f"{kept}.{enough}"
    )
