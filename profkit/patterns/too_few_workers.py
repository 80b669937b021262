"""Too few workers: the step waits for a DataLoader that has workers already."""

import re
from functools import partial

import pandas as pd

from profkit.core.formatting import counted
from profkit.patterns import _costly_loading
from profkit.patterns._rows import cores_of_a_rank, fitting, having, inside, per_step, time
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.python_frames import own_line

_FEWEST = 2
_LEAST = 0.05
"""Of the step: a batch that is there has to be handed over as well."""

_MUCH = 0.2
_LINE = r"\(\d+\)"
_LOOP = ": _worker_loop;"
_WAITS = r": _worker_loop;(?:.*;)?multiprocessing/queues\.py\(\d+\): get"


@pattern(
    title="DataLoader workers too slow",
    source="https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading",
)
def match(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    cpu_ops: pd.DataFrame,
    kernels: pd.DataFrame,
    steps: pd.DataFrame,
    processes: pd.DataFrame,
    worker_samples: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find time in the iterator of a DataLoader that waits for its workers.

    Not where that takes little of the step. The only batch of a recording without steps is the
    first, for which they start.
    """
    calls = having(cpu_ops, "_MultiProcessingDataLoaderIter")
    if calls.sum() < (_FEWEST if steps.empty else 1):
        return None
    gain_ns = time(cpu_ops, inside(cpu_ops, calls))
    if gain_ns < _LEAST * step.ms * 1e6 * step.count:
        return None
    line, share = _dearest_line(worker_samples)
    what = f"what they do, {share:.0%} of it in {line}," if line else "their work per batch"
    made = _costly_loading.cheaper(partial(_share, worker_samples))
    workers = worker_samples["pid"].nunique()
    first, last = _of_their_number(cores_of_a_rank(processes), workers)
    return Match(
        cause="gpu_idle.loading_data" if len(kernels) else "loading_data",
        advice=f"{first}Make {what} cheaper: {made}.{last}",
        gain_ns=gain_ns,
        place=line or "DataLoader.__next__",
        evidence={"batches_per_step": per_step(calls, step.count)},
    )


def _of_their_number(cores: int, workers: int) -> tuple[str, str]:
    """Return what to say first of how many workers there are, and last; 0 stands for unknown."""
    if 0 < cores < workers:
        return f"Try fewer than {workers} workers: they share {counted(cores, 'CPU core')}. ", ""
    if cores and cores == workers:
        return "", f" More workers than {counted(cores, 'CPU core')} gain nothing."
    return "", f" Or use more workers ({_most(cores)})."


def _most(cores: int) -> str:
    """Return how many workers there may be."""
    each = f"each of its {counted(cores, 'CPU core')}" if cores else "each CPU core of the rank"
    return f"`num_workers`, one for {each} at most"


def _share(samples: pd.DataFrame, expression: str) -> float:
    """Return the share of what workers do that functions take which fit the `expression`."""
    fits = re.compile(expression).search
    done = samples[~having(samples, _WAITS, "stack")]
    is_inside = fitting(done, "stack", lambda stack: any(map(fits, _in_loop(stack).split(";"))))
    return float(done["looks"][is_inside].sum() / max(done["looks"].sum(), 1))


def _in_loop(stack: str) -> str:
    """Return what a worker does in its loop: what stands before that is where it was started."""
    _, loop, inside = stack.rpartition(_LOOP)
    return inside if loop else ""


def _dearest_line(samples: pd.DataFrame) -> tuple[str, float]:
    """Return the program's line with most of the time of workers, and the share of its function.

    It is "" if none has much. A worker waits where it asks which batch is next.
    """
    stacks = samples["stack"][~having(samples, _WAITS, "stack")].astype(object)
    lines = stacks.map(lambda stack: own_line(_in_loop(stack)))
    found = pd.DataFrame(
        {
            "line": lines,
            "function": lines.str.replace(_LINE, "", regex=True) if len(lines) else lines,
            "looks": samples["looks"][lines.index],
        }
    )
    of_functions = found.groupby("function")["looks"].sum()
    named = of_functions.drop("", errors="ignore")
    if named.empty or named.max() < _MUCH * of_functions.sum():
        return "", 0.0
    mine = found[found["function"] == named.idxmax()]
    line = mine.groupby("line")["looks"].sum().idxmax()
    return str(line), float(named.max() / of_functions.sum())
