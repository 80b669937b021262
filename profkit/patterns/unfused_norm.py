"""Unfused normalisation: RMSNorm or LayerNorm written in single operators."""

import pandas as pd

from profkit.patterns._rows import (
    Chosen,
    cause,
    fitting,
    having,
    inside,
    parents,
    per_step,
    place,
    time,
)
from profkit.patterns.base import Match, Step, pattern

_ROOT = r"^aten::rsqrt$"
_COMPOSED = r"^aten::(?:_fused_)?rms_norm$"

_LAYER_NORM = "Use `torch.nn.LayerNorm` in its place: one kernel instead of five or more."
_RMS_NORM = (
    "Use `torch.nn.RMSNorm` (`torch.nn.functional.rms_norm`) in its place: one kernel instead of "
    "five or more, from PyTorch 2.9 on."
)
_COMPILED = "Fuse it with `torch.compile`: on a CPU `torch.nn.RMSNorm` is several operators too."


@pattern(
    title="Unfused normalisation",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.RMSNorm.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find a module in which a mean and a reciprocal square root are operators of their own."""
    forward = ~having(cpu_ops, "^autograd::|Backward")
    roots = having(cpu_ops, _ROOT) & forward
    modules = _modules(cpu_ops, roots) & _modules(cpu_ops, having(cpu_ops, r"^aten::mean$"))
    if not modules:
        return None
    chosen = fitting(cpu_ops, "module", modules.__contains__)
    chosen &= having(cpu_ops, r"^aten::(?:pow|mean|rsqrt|mul|add|sub|to|_to_copy|copy_)$")
    chosen = inside(cpu_ops, chosen & ~parents(cpu_ops, having(cpu_ops, "^aten::native_")))
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=_advice(cpu_ops, chosen, kernels),
        gain_ns=time(cpu_ops, chosen, kernels) * 2 / 3,
        place=place(cpu_ops, roots),
        evidence={"normalisations_per_step": per_step(roots, step.count)},
    )


def _advice(cpu_ops: pd.DataFrame, chosen: Chosen, kernels: pd.DataFrame) -> str:
    """Return what computes the same: LayerNorm has a mean that is subtracted, RMSNorm has not.

    CPUs have a kernel of the former only; so had GPUs once.
    """
    subtracts, roots = (chosen & having(cpu_ops, name) for name in (r"^aten::sub$", _ROOT))
    if subtracts.sum() >= roots.sum():
        return _LAYER_NORM
    is_composed = (chosen & inside(cpu_ops, having(cpu_ops, _COMPOSED))).any()
    return _COMPILED if kernels.empty or is_composed else _RMS_NORM


def _modules(cpu_ops: pd.DataFrame, chosen: Chosen) -> set[str]:
    return set(cpu_ops["module"][chosen].astype(object)) - {""}
