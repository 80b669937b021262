"""Attention without a fused kernel: `scaled_dot_product_attention` took its math backend."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._attention_products import MATH, products_of_fused_ns
from profkit.patterns._dropout import at_work
from profkit.patterns._rows import cause, having, inside, per_step, place, time, trains
from profkit.patterns.base import Match, Step, pattern

_ON_GPU = "fp16 or bf16, `is_causal=True` instead of a mask, head size up to 256"
_ON_CPU = "`dropout_p=0`, if training does as well without, and no mask that requires a gradient"


@pattern(
    title="Attention without a fused kernel",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.attention.sdpa_kernel.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find calls of the backend that computes attention in single operators.

    Not of a model that answers with dropout: without it, it has a fused kernel.
    """
    calls = having(cpu_ops, MATH)
    chosen = inside(cpu_ops, calls)
    if not calls.any() or ((chosen & at_work(cpu_ops)).any() and not trains(cpu_ops)):
        return None
    takes = _ON_CPU if kernels.empty else _ON_GPU
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"Give `scaled_dot_product_attention` what a fused backend takes ({takes}); "
        "`with sdpa_kernel(SDPBackend.FLASH_ATTENTION)` says what is in the way.",
        gain_ns=time(cpu_ops, chosen, kernels) - products_of_fused_ns(cpu_ops, chosen, kernels),
        place=place(cpu_ops, calls),
        confidence=Confidence.HIGH,
        evidence={"calls_per_step": per_step(calls, step.count)},
    )
