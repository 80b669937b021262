"""Experts on all rows: a mixture of experts that computes each of them for rows it is not for."""

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd

from profkit.core.verdict import Confidence
from profkit.patterns._rows import Chosen, calling_line, cause, equal, having, inside, place, time
from profkit.patterns._shapes import MATMULS, MATRIX, listed, operands, shape
from profkit.patterns.base import Match, pattern

_CHOOSE = r"^aten::(?:topk|argmax|max)$"
_FEWEST, _MOST = 4, 512
"""Experts."""

_NEVER = np.iinfo(np.int64).max
_SOON = 32
"""Operators behind a choice of which one is given what was chosen."""


@pattern(
    title="Experts computed for rows of others",
    source="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.index_add_.html",
)
def match(cpu_ops: pd.DataFrame, kernels: pd.DataFrame) -> Match | None:
    """Find products of all experts with all rows, behind a choice of a few experts for each row.

    What the others give is multiplied by 0, as by a mask.
    """
    passes = cpu_ops[having(cpu_ops, "^forward$") & equal(cpu_ops, "kind", "annotation")]
    chosen = np.zeros(len(cpu_ops), dtype=bool)
    used = Counter[tuple[int, int]]()
    for of, rows in _behind_choices(cpu_ops, passes):
        products = _of_experts(cpu_ops, rows, *of[:2])
        if len(products):
            chosen[products] = True
            used[of[1], of[2]] += 1
    if not used:
        return None
    (experts, each), _ = used.most_common(1)[0]
    backward = cpu_ops["forward"].isin(cpu_ops["op"][chosen]).to_numpy(bool)
    made = chosen | inside(cpu_ops, backward)
    return Match(
        cause=cause(cpu_ops, made, kernels),
        advice=f"Each of {experts} experts computes all rows, and a row needs {each} of them: give"
        " each its own rows (`x[rows]`, `index_add_`), or sort the rows by their experts and use a "
        "grouped product.",
        gain_ns=time(cpu_ops, made, kernels) * (1 - each / experts),
        place=calling_line(cpu_ops["stack"][chosen].astype(str)) or place(cpu_ops, chosen),
        confidence=Confidence.MEDIUM,
        evidence={"experts": experts, "experts_of_a_row": each},
    )


def _behind_choices(
    cpu_ops: pd.DataFrame, passes: pd.DataFrame
) -> Iterator[tuple[tuple[int, int, int], Chosen]]:
    """Yield rows, experts and experts of a row of each choice, and what follows it in its pass."""
    start, tid = (cpu_ops[name].to_numpy(np.int64) for name in ("start_ns", "tid"))
    at = np.flatnonzero(having(cpu_ops, _CHOOSE))
    begins, ends = (passes[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    for row, following in zip(at, np.append(start[at], _NEVER)[1:], strict=True):
        *sizes, experts = shape(str(cpu_ops["input_shapes"].iloc[row])) or [0]
        around = (begins <= start[row]) & (start[row] < ends)
        if not (_FEWEST <= experts <= _MOST and sizes and around.any()):
            continue
        until = min(int(ends[around].min()), following)
        follows = (start > start[row]) & (start < until) & (tid == tid[row])
        is_one = str(cpu_ops["name"].iloc[row]) != "aten::topk"
        each = 1 if is_one else _asked(cpu_ops["input_shapes"][follows], sizes, experts)
        if each:
            yield (math.prod(sizes), experts, each), follows


def _asked(following: "pd.Series[str]", sizes: list[int], experts: int) -> int:
    """Return how many are chosen of each row, by what is given on; 0 if nothing shows it."""
    for text in following.iloc[:_SOON].astype(str):
        for number in range(len(listed(text))):
            given = shape(text, number)
            if given[:-1] == sizes and given[-1] < experts:
                return given[-1]
    return 0


def _of_experts(cpu_ops: pd.DataFrame, rows: Chosen, count: int, experts: int) -> list[int]:
    """Return which of the `rows` are products of all `experts` with `count` rows each."""
    products = np.flatnonzero(rows & having(cpu_ops, MATMULS))
    texts = cpu_ops["input_shapes"].iloc[products].astype(str).tolist()
    lefts = [operands(text)[0] for text in texts]
    times = Counter(text for text, left in zip(texts, lefts, strict=True) if left[-2:-1] == [count])
    return [
        int(row)
        for row, text, left in zip(products, texts, lefts, strict=True)
        if left[-2:-1] == [count]
        and (left[:-2] == [experts] or (len(left) == MATRIX and times[text] >= experts))
    ]
