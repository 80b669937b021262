"""Unfolded batch norms: in inference they can be part of the convolutions before them."""

import pandas as pd

from profkit.patterns._rows import Chosen, cause, having, inside, per_step, place, time, trains
from profkit.patterns.base import Match, Step, pattern

_NORM, _CONVOLUTION = r"^aten::batch_norm$", r"^aten::convolution$"
_FOLD = (
    "Fold them into the convolutions: `torch.nn.utils.fuse_conv_bn_eval`, or `torch.compile` with "
    "`TORCHINDUCTOR_FREEZING=1`."
)
_IN_EVAL = "bn_fw_inf|batch_norm_transform_input"
"""Kernels that norms have once `model.eval()` was called."""


@pattern(
    title="Batch norms beside convolutions",
    source="https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.fuse_conv_bn_eval.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame, step: Step) -> Match | None:
    """Find batch norms that follow convolutions in a program that makes no backward pass."""
    norms = _after_convolutions(cpu_ops)
    if not norms.any() or trains(cpu_ops):
        return None
    chosen = inside(cpu_ops, norms)
    where = place(cpu_ops, norms)
    is_in_eval = having(kernels, _IN_EVAL).any()
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=_FOLD if is_in_eval else f"For inference call `model.eval()`. {_FOLD}",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=where,
        evidence={"norms_per_step": per_step(norms, step.count)},
    )


def _after_convolutions(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the batch norms before which their thread last began a convolution."""
    norms = having(cpu_ops, _NORM)
    layers = cpu_ops[["repeat", "tid", "start_ns"]].reset_index(drop=True)
    layers = layers[norms | having(cpu_ops, _CONVOLUTION)]
    at = layers.sort_values(["repeat", "tid", "start_ns"]).index.to_numpy()
    is_norm = norms[at]
    same = (layers.loc[at, ["repeat", "tid"]].diff().fillna(1) == 0).all(axis=1).to_numpy()
    follows = is_norm.copy()
    follows[1:] &= ~is_norm[:-1] & same[1:]
    follows[:1] = False
    found = norms.copy()
    found[at] = follows
    return found
