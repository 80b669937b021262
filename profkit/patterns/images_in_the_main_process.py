"""Images in the main process: decoding, resizing and normalising while training waits."""

import pandas as pd

from profkit.patterns._python_calls import serves, spent_in
from profkit.patterns._rows import having, within
from profkit.patterns.base import Match, Step, pattern

_FUNCTIONS = (
    r"PIL/|torchvision/transforms|image_transforms\.py|image_processing_\w+\.py|imageio|albumentations"
    r"|zoom_shift|scipy/ndimage|decode_(?:jpeg|image)|cv2|skimage/"
)
_SERVED = (
    "Decode in a pool of processes and no larger than needed (JPEG: `Image.draft` before `resize`)"
)
"""For a program that answers requests, in which no loader hands over batches."""
_LOADED = "Move it into workers (`num_workers` of the DataLoader)"
_ON_GPU = (
    ", or to the GPU: `torchvision.transforms.v2` on tensors of uint8, a fast image processor "
    "(`use_fast=True`)."
)
_OTHERWISE = (
    r"torch/autograd/function\.py\(\d+\): apply|: (?:save|save_image|make_grid|imsave|imwrite)$"
)
"""A layer that is made of them is no preparation, and workers cannot take it; nor what is shown."""


@pattern(
    title="Images prepared in the main process",
    source="https://docs.pytorch.org/vision/stable/transforms.html#performance-considerations",
    calls=f"{_FUNCTIONS}|{_OTHERWISE}",
)
def match(
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find time in functions that decode, resize or normalise images."""
    used = python_calls[having(python_calls, _OTHERWISE)]
    others = python_calls[~(having(python_calls, _FUNCTIONS) & within(python_calls, used))]
    spent = spent_in(_FUNCTIONS, others, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice=(_SERVED if serves(python_calls, cpu_ops) else _LOADED)
        + (_ON_GPU if len(kernels) else "."),
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )
