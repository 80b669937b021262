"""Memory over time: which stacks hold it at each instant, what is reserved, what did not fit."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from profkit.analyze._live_bands import Bands, bands
from profkit.analyze.base import analysis
from profkit.analyze.shared.allocation_origins import WHERE, with_origins
from profkit.core.drawing import Detail, Drawing
from profkit.core.result import Result
from profkit.core.settings import Settings
from profkit.tables.frame_files import is_library

ALLOCATIONS = "allocations, one by one"
"""Detail of the drawing with single allocations; other details are GPUs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_timeline.yaml``."""

    points: PositiveInt = 400
    """Instants drawn, each the highest of its part of the history."""

    most_stacks: PositiveInt = 24
    """Stacks drawn by themselves, those that hold most; the others are summed by origin."""

    most_devices: PositiveInt = 16
    """GPUs drawn, those with the highest peaks."""

    most_allocations: NonNegativeInt = 20_000
    """Single allocations that the reader can look through, the largest ones of the first GPU."""


@analysis(title="Memory over time")
def analyze(  # noqa: PLR0913, PLR0917 - each names a table
    allocations: pd.DataFrame,
    memory_events: pd.DataFrame,
    out_of_memory: pd.DataFrame,
    memory_model: Result | None,
    fragmentation: Result | None,
    config: Config,
) -> Result:
    """What is allocated over time, by the stacks that hold it, and how much is reserved?

    Sizes are what the program asked for, beginning with what was live before the history. What
    lies between allocated and reserved is held by the allocator and of no use to the program at
    that instant. A level is the highest of its part of the history, so that no peak is lost. The
    closed form is what model, precision and ZeRO stage say that a rank holds when it is most.
    """
    if allocations.empty:
        return Result.abstain("memory over time", "no allocation was recorded")
    rows = with_origins(allocations)
    by_device: dict[Any, pd.DataFrame] = dict(iter(rows.groupby(WHERE, observed=True)))
    found = {
        where: bands(own, config.points, config.most_stacks) for where, own in by_device.items()
    }
    order = sorted(found, key=lambda where: -found[where].peak_bytes)[: config.most_devices]
    tracks = {
        _name(where): _track(
            where, found[where], _of(memory_events, where), _of(out_of_memory, where)
        )
        | _known(where, memory_model, fragmentation)
        for where in order
    }
    details = [Detail.of(name, track) for name, track in list(tracks.items())[1:]]
    if config.most_allocations:
        single = _single(by_device[order[0]], config.most_allocations)
        details.insert(0, Detail.of(ALLOCATIONS, single))
    first = next(iter(tracks))
    return Result(
        drawings={
            "memory_over_time": Drawing(
                kind="memory",
                title="Allocated and reserved over time",
                data={"devices": list(tracks), "total": len(found), "first": tracks[first]},
                details=tuple(details),
            )
        }
    )


def _name(where: Any) -> str:
    rank, repeat, device = where
    return f"rank {rank}, {device}" + (f", repeat {repeat}" if repeat else "")


def _of(rows: pd.DataFrame, where: Any) -> pd.DataFrame:
    return rows[(rows[WHERE] == list(where)).all(axis=1)]


def _track(where: Any, found: Bands, events: pd.DataFrame, failed: pd.DataFrame) -> dict[str, Any]:
    """Return what is drawn of one device: columns by instant, and what is marked."""
    at = found.instants
    events = events.reset_index(drop=True)
    clock = events["time_ns"].to_numpy(np.int64)
    known = len(clock) > 0 and bool((clock >= 0).all())
    inside = np.clip(at, 0, max(len(events) - 1, 0))
    start = int(clock[0]) if known else 0
    # Memory of the CPU is handed out by the C library, which keeps no record of what it reserves.
    reserved = events["reserved_bytes"].to_numpy(np.int64) * (not str(where[2]).startswith("cpu"))
    return {
        "rank": int(where[0]),
        "event": at.tolist(),
        "time_ns": (clock[inside] - start).tolist() if known else [],
        "reserved_bytes": reserved[inside].tolist() if len(reserved) and reserved.any() else [],
        "origins": found.origins,
        "origin": found.origin,
        "stack": found.stack,
        "live_bytes": found.live_bytes.tolist(),
        "lines": [str(line) for line in found.lines],
        "stacks": [_frames(stack) for stack in found.stacks],
        "peak": found.peak,
        "steps": _steps(events, at),
        "out_of_memory": _out_of_memory(failed, events, at),
    }


def _frames(stack: str) -> dict[str, Any]:
    """Return the frames from the innermost to the root, and which of them are the program's."""
    frames = stack.split(";")[::-1] if stack else []
    return {"frames": frames, "own": [at for at, frame in enumerate(frames) if _is_own(frame)]}


def _is_own(frame: str) -> bool:
    file = frame.rpartition(" (")[2].rpartition(":")[0]
    return file.endswith(".py") and not is_library(file)


def _steps(events: pd.DataFrame, at: NDArray[np.int64]) -> dict[str, list[int]]:
    """Return the steps of the history and the instant at which each begins."""
    step = events["step"].to_numpy(np.int64)
    begins = np.flatnonzero(np.diff(step, prepend=-1) != 0)
    begins = begins[step[begins] >= 0]
    places = np.searchsorted(at, begins)
    return {"step": step[begins].tolist(), "at": np.minimum(places, len(at) - 1).tolist()}


def _out_of_memory(
    failed: pd.DataFrame, events: pd.DataFrame, at: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return the requests that failed, each with what it found."""
    found = []
    for row in failed.to_dict("records"):
        level = events.iloc[row["event"]]
        found.append(
            {
                "at": int(min(np.searchsorted(at, row["event"]), len(at) - 1)),
                "asked_bytes": int(row["size_bytes"]),
                "free_bytes": int(row["free_bytes"]),
                "reserved_bytes": int(level["reserved_bytes"]),
                "allocated_bytes": int(level["allocated_bytes"]),
                "step": int(row["step"]),
                "line": str(row["line"]),
                "stack": _frames(str(row["stack"])),
            }
        )
    return found


def _known(where: Any, memory_model: Result | None, fragmentation: Result | None) -> dict[str, Any]:
    """Return what other analyses know: the closed form, and with which setting it had fitted."""
    rank, repeat, device = where
    model = memory_model.tables.get("compared") if memory_model else None
    sizes = [
        row["closed_form_bytes"]
        for row in (model.records() if model else ())
        if row["rank"] == rank
    ]
    closed = [size for size in sizes if isinstance(size, int | float)]
    shortages = fragmentation.tables.get("shortages") if fragmentation else None
    fits = [
        str(row["fits_with"])
        for row in (shortages.records() if shortages else ())
        if (row["rank"], row["repeat"], row["device"]) == (rank, repeat, device)
    ]
    return {
        "closed_form_bytes": int(sum(closed)) if closed and len(closed) == len(sizes) else -1,
        "fits_with": next(iter(fits), ""),
    }


def _single(rows: pd.DataFrame, most: int) -> dict[str, Any]:
    """Return the largest allocations of one device as columns, and how many there are in all."""
    kept = rows.nlargest(most, "size_bytes", keep="first").sort_values("start_event", kind="stable")
    timed = kept.loc[kept["start_ns"] >= 0, "start_ns"]
    start = int(timed.min()) if len(timed) else 0
    codes, lines = pd.factorize(kept["line"].astype(object))
    origins, names = pd.factorize(kept["origin"].astype(object))
    started, ended = (kept[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    return {
        "total": len(rows),
        "size_bytes": kept["size_bytes"].tolist(),
        "start_event": kept["start_event"].tolist(),
        "end_event": kept["end_event"].tolist(),
        "start_ns": np.where(started >= 0, started - start, -1).tolist(),
        "end_ns": np.where(ended >= 0, ended - start, -1).tolist(),
        "step": kept["step"].tolist(),
        "line": codes.tolist(),
        "lines": [str(line) for line in lines],
        "origin": origins.tolist(),
        "origins": [str(name) for name in names],
    }
