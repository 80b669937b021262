"""Unfused attention: a softmax between two batched matrix products."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._attention_products import products_of_fused_ns, unfused
from profkit.patterns._dropout import DRAWS
from profkit.patterns._rows import cause, having, inside, per_step, place, time
from profkit.patterns._shapes import shape
from profkit.patterns.base import Match, Step, pattern

_OF_MODULE = r"^aten::_native_multi_head_attention$"
_OPERATOR = "::"

_USE = (
    "Use `torch.nn.functional.scaled_dot_product_attention`{}: it keeps no matrix of scores in "
    "memory."
)
_USE_WITHOUT_DROPOUT = (
    "Use `torch.nn.functional.scaled_dot_product_attention`{} with `dropout_p=0`, if training does "
    "as well without: it keeps no matrix of scores in memory, but with dropout no CPU has a kernel "
    "for it."
)
_CALL_WITHOUT = (
    "Call `nn.MultiheadAttention` with `need_weights=False`{}: it then uses "
    "`scaled_dot_product_attention`, which keeps no matrix of scores in memory."
)
"""Of the module of PyTorch, which computes the scores to return their mean."""

_LEAVE_FAST_PATH = (
    "Call `torch.backends.mha.set_fastpath_enabled(False)`, and `nn.MultiheadAttention` with "
    "`need_weights=False`{}: it then uses `scaled_dot_product_attention`, which keeps no matrix of "
    "scores in memory. On a CPU the fast path for inference does not use it."
)


_LONG = 512
"""Texts from which on the fast path is the slower one on a CPU: at 256 both take as long, and of
64 tokens it is 1.4 times as fast (encoders 64 to 768 wide)."""


@pattern(
    title="Unfused attention",
    source="https://docs.pytorch.org/docs/stable/generated/"
    "torch.nn.functional.scaled_dot_product_attention.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find softmaxes of scores that one batched product made and the next one reads.

    Where the program has its own, `exp` between two such products is one, which is less sure.
    """
    found, between = unfused(cpu_ops)
    is_own = (found & having(cpu_ops, r"^aten::exp_?$")).any()
    if not (is_own or (found & having(cpu_ops, r"^aten::_softmax$")).any()):
        return None
    where = place(cpu_ops, found)
    chosen = inside(cpu_ops, between)
    staying_ns = products_of_fused_ns(cpu_ops, between, kernels)
    in_module = bool(inside(cpu_ops, having(cpu_ops, _OF_MODULE))[found].all())
    drops = kernels.empty and (between & having(cpu_ops, DRAWS)).any()
    use = _USE_WITHOUT_DROPOUT if drops else _USE
    widest = max((shape(str(text)) for text in cpu_ops["input_shapes"][found]), default=[])
    if in_module:
        use = _LEAVE_FAST_PATH if kernels.empty else _CALL_WITHOUT
        if kernels.empty and max(widest, default=0) < _LONG:
            return None
    return Match(
        cause=cause(cpu_ops, inside(cpu_ops, found), kernels),
        advice=use.format(f" in {where}" if where and _OPERATOR not in where else ""),
        gain_ns=time(cpu_ops, chosen, kernels) - staying_ns,
        place=where,
        confidence=Confidence.MEDIUM if is_own else Confidence.HIGH,
        evidence={"softmax_per_step": per_step(found, step.count), "scores": str(widest)},
    )
