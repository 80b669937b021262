"""What the capture harness records with each tool, as tables: steps, and where ranks ran."""

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from profkit.convert import HOSTS, STEPS
from profkit.tables import schema

_RANK = re.compile(r"rank(\d+)")
_COORDINATES = re.compile(r"rank\d+_dp(?P<dp>\d+)_tp(?P<tp>\d+)_pp(?P<pp>\d+)$")


def rank_of(label: str) -> int:
    """Return the number of the rank with this label; -1 if it has none."""
    found = _RANK.match(label)
    return int(found[1]) if found else -1


def hosts_table(record: Mapping[str, Any]) -> pa.Table:
    """Return where each rank of a capture ran, as far as its record says."""
    places = record.get("places") or []
    if record.get("ranks_named_by"):
        # Labels of imported ranks number them as replicas, whatever they are.
        places = [{**place, **_coordinates(place["label"])} for place in places]
    return schema.table(
        HOSTS,
        {
            "rank": [rank_of(place["label"]) for place in places],
            "repeat": [record["repeat"]] * len(places),
            "host": [str(place["hostname"] or "") for place in places],
            **{
                name: [-1 if place.get(name) is None else place[name] for place in places]
                for name in ("node", "local_rank", "dp", "tp", "pp", "ep")
            },
        },
    )


def _coordinates(label: str) -> dict[str, int]:
    found = _COORDINATES.match(label)
    return {axis: int(number) for axis, number in found.groupdict().items()} if found else {}


def steps_table(timed: Mapping[str, Any], repeat: int) -> pa.Table:
    """Return the steps that one rank `timed` in a repeat."""
    starts, ends, samples, peaks = zip(*timed["steps"], strict=True) if timed["steps"] else [()] * 4
    count = len(starts)
    return schema.table(
        STEPS,
        {
            "rank": [timed["rank"]] * count,
            "repeat": [repeat] * count,
            "step": range(count),
            "start_ns": starts,
            "end_ns": ends,
            "samples": samples,
            "peak_memory_bytes": peaks,
        },
    )
