"""What NCCL records of its own calls in NVTX payloads: bytes, communicator and number of ranks."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.convert.linking.lookup import at_or
from profkit.convert.linking.operators import Operators
from profkit.convert.nsys.gathered import Rows
from profkit.convert.nsys.ranks import payload
from profkit.convert.nsys.store import Ints
from profkit.tables import schema

_BYTES = "Message size [bytes]"
_COMMUNICATOR = "NCCL communicator ID"
_SIZE = "No. of ranks"
_THREAD_BITS = (1 << 48) - 1
_PID_SHIFT = 24


def with_messages(collectives: pa.Table, operators: Operators, rows: Rows) -> pa.Table:
    """Return `collectives` with the sizes and groups of the NCCL calls around them.

    Calls in a group are launched when the group ends, so theirs stay unknown.
    """
    payloads = _payloads(rows)
    sizes = {
        payload[_COMMUNICATOR]: payload[_SIZE]
        for payload in payloads.values()
        if {_COMMUNICATOR, _SIZE} <= set(payload)
    }
    around = [payloads.get(key, {}) for key in _keys(operators, collectives["op"].to_numpy())]
    groups = [payload.get(_COMMUNICATOR) for payload in around]
    known = collectives["size_bytes"].to_numpy()
    columns = {name: collectives[name] for name in collectives.column_names}
    columns["size_bytes"] = np.where(
        known < 0, _wholes(payload.get(_BYTES) for payload in around), known
    )
    columns["group"] = ["" if group is None else str(group) for group in groups]
    columns["group_size"] = _wholes(sizes.get(group) for group in groups)
    return schema.table("collectives", columns)


def _payloads(rows: Rows) -> dict[tuple[int, int], dict[str, Any]]:
    """Return the payloads of ranges by their start and thread, which identify them."""
    nvtx = rows.report.nvtx
    start, thread = nvtx.columns["start"], nvtx.columns["globalTid"] & _THREAD_BITS
    return {
        (int(start[row]), int(thread[row])): payload(nvtx.payloads[row])
        for row in rows.ranges_of_rank().tolist()
        if nvtx.payloads[row]
    }


def _keys(operators: Operators, op: Ints) -> Iterable[tuple[int, int]]:
    """Return the same of operators; -1 stands for none."""
    rows = at_or(operators.rows, op)
    start, pid, tid = (operators.recorded.at(name, rows) for name in ("start", "pid", "tid"))
    return zip(start.tolist(), ((pid << _PID_SHIFT) | tid).tolist(), strict=True)


def _wholes(values: Any) -> Ints:
    wholes = [value if isinstance(value, int) and value >= 0 else -1 for value in values]
    return np.array(wholes, dtype=np.int64)
