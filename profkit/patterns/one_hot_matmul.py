"""One-hot products: an embedding looked up by a matrix product with a one-hot matrix."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import cause, fitting, having, inside, per_step, place, time
from profkit.patterns._shapes import MATMULS, operands, shape
from profkit.patterns.base import Match, Step, pattern


@pattern(
    title="Embedding as a one-hot product",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find products whose inner size is the number of classes of a one-hot matrix."""
    made = having(cpu_ops, r"^aten::(?:one_hot|scatter_|scatter)$")
    if not made.any():
        return None
    shapes = cpu_ops["input_shapes"].astype(object)
    below = inside(cpu_ops, made)
    # The indices have a size as well, which products of the model may sum over.
    matrices = shapes[having(cpu_ops, r"^aten::scatter_?$")]
    classes = {found[-1] for text in matrices if (found := shape(text)) and found[-1] > 1}
    products = having(cpu_ops, MATMULS)
    products &= fitting(cpu_ops, "input_shapes", lambda text: _inner(text) in classes)
    if not products.any() or not having(cpu_ops, r"^aten::one_hot$").any():
        return None
    # The one-hot matrix is made of integers, and converted for the product.
    converted = having(cpu_ops, r"^aten::_to_copy$")
    converted &= fitting(cpu_ops, "input_shapes", lambda text: (shape(text) or [0])[-1] in classes)
    chosen = below | inside(cpu_ops, products) | inside(cpu_ops, converted)
    where = place(cpu_ops, made)
    return Match(
        cause=cause(cpu_ops, inside(cpu_ops, products), kernels),
        advice="Look the rows up with `torch.nn.Embedding` or `weight[indices]` instead of "
        "`one_hot(indices) @ weight`" + (f" in {where}." if where else "."),
        gain_ns=time(cpu_ops, chosen, kernels),
        place=where,
        confidence=Confidence.HIGH,
        evidence={"products_per_step": per_step(products, step.count)},
    )


def _inner(text: str) -> int:
    """Return the size that the product sums over; -1 if it was not recorded."""
    left, _ = operands(text)
    return left[-1] if left else -1
