"""Frozen layers: what no step changes is computed anew in each of them."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._parameter_loops import GRADIENT, UPDATE, differentiated
from profkit.patterns._python_calls import LOADING
from profkit.patterns._rows import (
    Chosen,
    called,
    cause,
    equal,
    fitting,
    having,
    inside,
    per_step,
    place,
    time,
)
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_PRODUCTS = r"^aten::(?:linear|conv[123]d|convolution)$"
"""Operators of layers with weights, which are their second input."""

_BESIDE = (
    r"^aten::(?:\w*norm|relu6?_?|gelu|silu_?|hardtanh_?|softmax|dropout_?|add_?|embedding"
    r"|scaled_dot_product_attention|\w*_pool[123]d)$"
)
_FEWEST, _LEAST_SHARE = 2, 0.2


@pattern(
    title="Frozen layers computed in each step",
    source="https://docs.pytorch.org/tutorials/beginner/transfer_learning_tutorial.html"
    "#convnet-as-fixed-feature-extractor",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find layers of a training that get no gradient, though others do.

    Not those with weights as large as ones that are trained: a target network, the average of a
    model or the generator of a GAN are others in the next step. Nor what prepares a batch.
    """
    trained = differentiated(cpu_ops)
    products = called(cpu_ops) & having(cpu_ops, _PRODUCTS)
    if not (products & trained).any():
        return None
    apart = ~trained & ~equal(cpu_ops, "phase", "backward")
    apart &= ~inside(cpu_ops, having(cpu_ops, f"{UPDATE}|{LOADING}"))
    sizes = _sizes(cpu_ops, products & trained, 1) | _sizes(
        cpu_ops, equal(cpu_ops, "name", GRADIENT), 0
    )
    frozen = products & apart
    frozen &= fitting(cpu_ops, "input_shapes", lambda text: _weight(text) not in {*sizes, ()})
    if per_step(frozen, step.count) < _FEWEST:
        return None
    layers = inside(cpu_ops, frozen | (called(cpu_ops) & apart & having(cpu_ops, _BESIDE)))
    gain_ns = time(cpu_ops, layers, kernels)
    if gain_ns < _LEAST_SHARE * step.ms * 1e6 * step.count:
        return None
    return Match(
        cause=cause(cpu_ops, layers, kernels),
        advice="Compute what they give once and store it with the data, as features, embeddings or "
        "latents, where a sample is the same in each epoch. "
        f"{per_step(frozen, step.count):,.0f} layers per step get no gradient.",
        gain_ns=gain_ns,
        place=place(cpu_ops, frozen),
        confidence=Confidence.MEDIUM,
        evidence={"frozen_layers_per_step": per_step(frozen, step.count)},
    )


def _weight(text: str) -> tuple[int, ...]:
    return tuple(shape(text, 1))


def _sizes(cpu_ops: pd.DataFrame, chosen: Chosen, number: int) -> set[tuple[int, ...]]:
    """Return the shapes of one input of the operators that are `chosen`."""
    texts = cpu_ops["input_shapes"][chosen].astype(object).unique()
    return {tuple(shape(str(text), number)) for text in texts}
