"""Objects sent: Python objects that ranks pickle for one another in each step."""

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._communication import CAUSE, exposed
from profkit.patterns._python_calls import outermost, spent_in_calls
from profkit.patterns._rows import having, within
from profkit.patterns.base import Match, Step, pattern

_SENDS = (
    r"torch/distributed/distributed_c10d\.py\(\d+\): "
    r"(?:all_gather_object|gather_object|broadcast_object_list|scatter_object_list)$"
)


@pattern(
    title="Python objects sent between ranks",
    source="https://docs.pytorch.org/docs/stable/distributed.html"
    "#torch.distributed.all_gather_object",
    calls=_SENDS,
)
def match(  # noqa: PLR0913, PLR0917 (a parameter names a table)
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    collectives: pd.DataFrame,
    kernels: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Match | None:
    """Find calls that pickle objects, send them and read them again."""
    sends = having(python_calls, _SENDS)
    if not sends.any():
        return None
    calls = outermost(python_calls, sends)
    spent = spent_in_calls(calls, python_calls, cpu_ops, causes, step)
    # Of gloo they are on other threads.
    sent = collectives.assign(tid=python_calls["tid"][calls].iloc[0])
    inside = within(sent, python_calls[calls])
    sent_ns = exposed(inside, collectives, kernels, causes, step)
    if sent_ns > spent.gain_ns:
        cause, also = CAUSE, {spent.cause: spent.gain_ns, **spent.also}
    else:
        cause, also = spent.cause, {CAUSE: sent_ns, **spent.also}
    return Match(
        cause=cause,
        advice="Send tensors instead of objects, which are pickled with all the memory that views "
        "of tensors are part of, and sent twice: their sizes first.",
        gain_ns=spent.gain_ns + sent_ns,
        also=also,
        place=spent.place,
        confidence=Confidence.HIGH,
    )
