"""Recompilation: the compiler at work in steps that should be steady."""

from collections import Counter
from dataclasses import replace

import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._causes import largest
from profkit.patterns._python_calls import Spent, outermost, spent_in_calls
from profkit.patterns._rows import having
from profkit.patterns.base import Match, Step, pattern
from profkit.tables.python_frames import own_lines

_CAUSE = r"^(?:gpu_idle\.)?compiler$"
COMPILES = (
    r"^torch/(?:_dynamo/(?:convert_frame|symbolic_convert|output_graph)"
    r"|_inductor/(?:compile_fx|compile_fx_ext|graph|scheduler|lowering|codegen/\w+)\.py"
    r"\(\d+\): (?!run|copy_misal)|_functorch/_aot_autograd/graph_compile)"
)
"""Functions of the compiler, but for what calls compiled code, or waits for processes that would
compile."""

ADVICE = (
    "Mark sizes that vary: `torch.compile(dynamic=True)`, or "
    "`torch._dynamo.mark_dynamic(tensor, dimension)`; "
    '`TORCH_LOGS="recompiles"` shows what changed.'
)


@pattern(
    title="Recompilation in steps",
    source="https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
    calls=COMPILES,
)
def match(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Match | None:
    """Find the cause by its name, or where it has none the functions of the compiler."""
    spent = _recorded(causes, step) or _called(python_calls, cpu_ops, causes, step)
    if spent is None:
        return None
    return Match(
        cause=spent.cause,
        advice=ADVICE,
        gain_ns=spent.gain_ns,
        also=spent.also,
        place=spent.place,
        confidence=Confidence.HIGH,
    )


def _recorded(causes: pd.DataFrame, step: Step) -> Spent | None:
    if (found := largest(causes, _CAUSE, "id", step)) is None:
        return None
    return Spent(cause=found.id, gain_ns=found.gain_ns, place=found.place)


def _called(
    python_calls: pd.DataFrame, cpu_ops: pd.DataFrame, causes: pd.DataFrame, step: Step
) -> Spent | None:
    """Return the time in the compiler's functions, where a program calls them in Python."""
    compiles = having(python_calls, COMPILES)
    if not compiles.any():
        return None
    calls = outermost(python_calls, compiles)
    spent = spent_in_calls(calls, python_calls, cpu_ops, causes, step)
    # Stacks are deep then, and the program's line is not in all of them.
    lines = Counter(filter(None, own_lines(python_calls, calls)))
    return replace(spent, place=next((line for line, _ in lines.most_common(1)), ""))
