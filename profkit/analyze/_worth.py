"""How near kernels of a trace come to the roofline: shared by what chooses and what joins them."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze._costed import work
from profkit.analyze._roofline import with_roofline
from profkit.core.hardware import Hardware
from profkit.tables.kernel_names import function

KERNEL = ["name", "grid", "block"]
"""What makes two launches the same kernel: its name and shape."""


def computing(
    kernels: pd.DataFrame, cpu_ops: pd.DataFrame, windows: pd.DataFrame, hardware: Hardware
) -> pd.DataFrame:
    """Return the compute kernels in `windows`, and how near their operators are to the roofline.

    Columns besides those of `kernels`: function, duration_ns, and of the operator that launched
    each ``bound`` and ``roofline_share``, "" and NaN where that is not known.
    """
    shape = dict.fromkeys(KERNEL, object)
    if cpu_ops.empty:
        rows = kernels[kernels["kind"] == "compute"].astype(shape)
        share, bound = np.full(len(rows), np.nan), np.full(len(rows), "", dtype=object)
    else:
        costed = work(cpu_ops, kernels, windows)
        rows = costed.kernels[costed.kernels["kind"] == "compute"].astype(shape)
        share, bound = _of_calls(with_roofline(costed.calls, hardware), rows["call"].to_numpy())
    known = {name: function(name) for name in rows["name"].unique()}
    return rows.assign(
        function=rows["name"].map(known),
        duration_ns=rows["end_ns"] - rows["start_ns"],
        roofline_share=share,
        bound=bound,
    )


def _of_calls(
    calls: pd.DataFrame, at: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.object_]]:
    """Return the share and the bound of the call at each position, -1 being none."""
    share = np.append(calls["roofline_share"].to_numpy(np.float64), np.nan)
    bound = np.append(calls["bound"].to_numpy(object), "")
    return share[at], bound[at]
