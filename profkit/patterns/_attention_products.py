"""The matrix products of attention, of which a fused kernel leaves out the memory traffic alone."""

import pandas as pd

from profkit.patterns._rows import Chosen, belonging, fitting, having, inside
from profkit.patterns.base import charged
from profkit.tables.kernel_names import uses_tensor_cores

PRODUCT = r"^aten::(?:bmm|baddbmm)$"


def products_of_fused_ns(cpu_ops: pd.DataFrame, chosen: Chosen, kernels: pd.DataFrame) -> float:
    """Return the time of the products among the `chosen` that a fused kernel takes as well, in ns.

    Those on tensor cores mostly wait for their scores to be in memory, which it does not.
    """
    products = inside(cpu_ops, chosen & having(cpu_ops, PRODUCT))
    if kernels.empty:
        return charged(cpu_ops, products)
    theirs = kernels[belonging(kernels, cpu_ops, products)]
    return charged(theirs, ~fitting(theirs, "name", uses_tensor_cores))
