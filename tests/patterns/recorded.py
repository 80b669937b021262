"""Rows of small recordings: operators, kernels, calls, collectives and causes, each charged."""

from typing import Any

import pandas as pd

from profkit.testing import span

Row = dict[str, Any]


def op(number: int, name: str, charged_ns: int = 0, parent: int = -1, **columns: Any) -> Row:
    """Return an operator; those with larger numbers start later."""
    columns = {"kind": "operator", "tid": 1} | columns
    return span(number * 1_000, number * 1_000 + 900, op=number, name=name, parent=parent,
                charged_ns=charged_ns, **columns)  # fmt: skip


def kernel(number: int, name: str, charged_ns: int = 0, **columns: Any) -> Row:
    """Return a kernel that the operator of this number launched, as long as it is charged."""
    columns = {"kind": "compute", "stream": 7, "start_ns": 0, "end_ns": charged_ns} | columns
    return span(0, 0, op=number, name=name, charged_ns=charged_ns) | columns


def copy(number: int, copy_kind: str, charged_ns: int = 0, **columns: Any) -> Row:
    """Return a copy that the operator of this number launched."""
    columns = {"name": f"Memcpy {copy_kind}", "copy_kind": copy_kind} | columns
    return kernel(number, charged_ns=charged_ns, kind="copy", **columns)


def call(number: int, name: str, charged_ns: int = 0, lasts_ns: int = 5_000) -> Row:
    """Return a runtime call inside the operator of this number."""
    return span(0, lasts_ns, op=number, name=name, charged_ns=charged_ns)


def python(start_ns: int, end_ns: int, name: str) -> Row:
    """Return a call of a Python function."""
    return span(start_ns, end_ns, tid=1, name=name, kind="function")


def collective(number: int, operation: str, **columns: Any) -> Row:
    """Return a communication call."""
    columns = {"start_ns": 0, "end_ns": 1_000} | columns
    return span(0, 0, collective=number, operation=operation, op=number) | columns


def sent(number: int, charged_ns: int, **columns: Any) -> Row:
    """Return the kernel of the communication call of this number."""
    return kernel(number, "ncclDevKernel", charged_ns, kind="communication", collective=number,
                  **{"stream": 20} | columns)  # fmt: skip


def causes(*rows: tuple[str, float, str]) -> pd.DataFrame:
    """Return the table of causes of (id, ms per step, place)."""
    return pd.DataFrame(
        [(name, ms, ms, ms, place) for name, ms, place in rows],
        columns=["id", "ms_per_step", "gain_ms", "share", "place"],
    )
