"""Restarted workers: the processes of a DataLoader started anew during training."""

import pandas as pd

from profkit.patterns._python_calls import outermost, spent_in_calls
from profkit.patterns._rows import Chosen, having, within
from profkit.patterns.base import Match, Step, pattern

_STARTS = r"multiprocessing/(?:process|context|popen_\w+)\.py.*: (?:start|_launch|_Popen)$"
_LOADER = r"torch/utils/data/dataloader\.py\(\d+\): "


@pattern(
    title="DataLoader workers started anew",
    source="https://docs.pytorch.org/docs/stable/data.html",
    calls=rf"{_STARTS}|{_LOADER}",
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find processes that are started in the steps that count, and what waits for them."""
    # Frames that start a process stand around all that it does where it was forked.
    of_loader = within(python_calls, python_calls[having(python_calls, _LOADER)])
    starts = (having(python_calls, _STARTS) & of_loader) | _next_epochs(python_calls)
    if not starts.any():
        return None
    fits = starts | having(python_calls, rf"{_LOADER}(?:__iter__|_shutdown_workers)$")
    calls = outermost(python_calls, fits | _first_batches(python_calls))
    spent = spent_in_calls(calls, python_calls, cpu_ops, causes, step)
    return Match(
        cause=spent.cause,
        advice="Create the DataLoader once, with `persistent_workers=True`, so that its workers "
        "outlive the epoch.",
        gain_ns=spent.gain_ns,
        place=spent.place,
        also=spent.also,
        evidence={"calls_per_step": round(spent.calls / step.count, 1)},
    )


def _first_batches(python_calls: pd.DataFrame) -> Chosen:
    """Choose the calls that wait for the first batch of an epoch, which starting workers make."""
    rows = python_calls[having(python_calls, rf"{_LOADER}(?:__iter__|__next__)$")]
    rows = rows.sort_values(["tid", "start_ns"], kind="stable")
    starts = having(rows, "__iter__$")
    follows = pd.Series(starts).shift(fill_value=False).to_numpy() & ~starts
    return python_calls.index.isin(rows.index[follows])


def _next_epochs(python_calls: pd.DataFrame) -> Chosen:
    """Choose the waits for a batch after one that ended the workers, whose start may be unseen."""
    rows = python_calls[having(python_calls, rf"{_LOADER}_next_data$")]
    rows = rows.sort_values(["repeat", "tid", "start_ns"], kind="stable")
    ending = python_calls[having(python_calls, rf"{_LOADER}_shutdown_workers$")]
    ended = pd.MultiIndex.from_frame(rows[["repeat", "call"]]).isin(
        pd.MultiIndex.from_frame(ending[["repeat", "caller"]])
    )
    follows = pd.Series(ended).shift(fill_value=False).to_numpy() & ~ended
    return python_calls.index.isin(rows.index[follows])
