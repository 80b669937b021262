"""A recording of two ranks, three steps each, in tables of a few rows."""

from typing import Any

from profkit.testing import ORIGIN_NS

US = 1000
LENGTHS_US = {5: 900, 6: 950, 7: 1400}
"""Steps by their length; the last is the worst."""

LATE_US = 100
"""How much later the second rank comes to the collective."""

AHEAD_US = 40
"""How far the clock of the second rank is ahead."""


def tables(operator: str = "aten::mm", ranks: int = 2) -> dict[str, Any]:
    """Return the tables by name: an operator, its launch, a kernel and a collective in each step.

    Each waits for its GPU at the end of a step. Of `ranks` ranks each comes later to the collective
    than the one before, and has a clock that is ahead of that.
    """
    made: dict[str, list[dict[str, Any]]] = {name: [] for name in _NAMES}
    for rank in range(ranks):
        begin = 0
        for number, length in LENGTHS_US.items():
            _add_step(made, rank, number, ORIGIN_NS + (begin + AHEAD_US * rank) * US, operator)
            begin += length
    return made


_NAMES = ("steps", "cpu_ops", "kernels", "runtime_calls", "collectives", "memory_events")


def _add_step(
    made: dict[str, list[dict[str, Any]]], rank: int, number: int, origin: int, operator: str
) -> None:
    late, length = LATE_US * rank, LENGTHS_US[number]

    def at(start: int, end: int, **columns: Any) -> dict[str, Any]:
        when = {"start_ns": origin + start * US, "end_ns": origin + end * US}
        return {"rank": rank, "repeat": 0, "step": number, **when, **columns}

    op, correlation = 2 * number, 10 * number
    outer = {"parent": -1, "tid": 7, "pid": 1, "kind": "operator", "phase": "forward"}
    stack = "train.py(9): main;model.py(3): f"
    made["steps"].append(at(0, length))
    made["cpu_ops"] += [
        at(10, 90, op=op, name=operator, **outer, module="Net;Linear", stack=stack),
        at(20, 60, op=op + 1, name="aten::copy_", **{**outer, "parent": op}),
    ]
    launched = {"tid": 7, "op": op + 1, "correlation": correlation}
    waiting = {"tid": 7, "op": -1, "correlation": -1}
    made["runtime_calls"] += [
        at(30, 40, name="cudaLaunchKernel", **launched),
        at(100, length, name="cudaDeviceSynchronize", **waiting),
    ]
    place = {"device": rank, "stream": 7, "op": op + 1}
    made["kernels"] += [
        at(60, 200, name="gemm", kind="compute", correlation=correlation, grid="[8,1,1]", **place),
        at(300 + late, length, name="ncclAllReduce", kind="communication", collective=number)
        | {"device": rank, "stream": 9, "op": -1, "correlation": -1},
    ]
    group = {"group": "0", "group_ranks": "[0,1]", "operation": "allreduce", "kind": "device"}
    made["collectives"].append(
        at(300 + late, length, collective=number, sequence=number, name="ncclAllReduce", **group)
    )
    for time, size in ((15, 100), (25, 900), (50, 300)):
        event = at(time, time, device=f"cuda:{rank}", allocated_bytes=size)
        event["time_ns"] = event.pop("start_ns")
        del event["end_ns"]
        made["memory_events"].append(event)
