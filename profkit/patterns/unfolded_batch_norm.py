"""Unfolded batch norms: in inference they can be part of the convolutions before them."""

import pandas as pd

from profkit.patterns._dropout import at_work
from profkit.patterns._rows import Chosen, cause, having, inside, per_step, place, time, trains
from profkit.patterns.base import Match, Step, pattern

_NORM, _CONVOLUTION = r"^aten::batch_norm$", r"^aten::convolution$"
_FOLD = (
    "old them into the convolutions: `torch.nn.utils.fuse_conv_bn_eval`, or `torch.compile` with "
    "`TORCHINDUCTOR_FREEZING=1`."
)
_COUNT = r'^\["(?:long|__int64|int64|Long)'
"""Linux calls its type ``long int``, macOS ``long long``, Windows ``__int64``."""

_MOSTLY = 0.5
_IN_TRAINING = "bn_fw_tr|batch_norm_collect_statistics"
"""Kernels that norms have until `model.eval()` is called."""


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
    is_in_training = having(kernels, _IN_TRAINING).any() or _count_batches(cpu_ops, norms)
    is_in_training |= at_work(cpu_ops).any()
    return Match(
        cause=cause(cpu_ops, chosen, kernels),
        advice=f"{'For inference call `model.eval()`, then f' if is_in_training else 'F'}{_FOLD}",
        gain_ns=time(cpu_ops, chosen, kernels),
        place=where,
        evidence={"norms_per_step": per_step(norms, step.count)},
    )


def _count_batches(cpu_ops: pd.DataFrame, norms: Chosen) -> bool:
    """Tell whether there is a count of batches for most of the `norms`, as training has it."""
    counts = having(cpu_ops, r"^aten::add_?$") & having(cpu_ops, _COUNT, "input_types")
    return bool(counts.sum() > _MOSTLY * norms.sum())


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
