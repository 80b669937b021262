"""Operators of dropout."""

import pandas as pd

from profkit.patterns._rows import Chosen, having, inside

DROPOUT = r"^aten::(?:(?:native|feature|alpha|feature_alpha)_)?dropout_?$"
DRAWS = r"^aten::(?:native_dropout|bernoulli_?|_fused_dropout)$"
"""What draws the random numbers: where nothing is dropped, none is called."""


def at_work(cpu_ops: pd.DataFrame) -> Chosen:
    """Choose the dropouts that draw random numbers, which are all that a model in training has."""
    drops = having(cpu_ops, DROPOUT)
    draws = inside(cpu_ops, drops) & having(cpu_ops, DRAWS)
    return drops if draws.any() else draws
