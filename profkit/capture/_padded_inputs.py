"""How many tokens of the batches that a model is given are padding, and how many have no label."""

import ctypes
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeGuard

from profkit.capture._given_parts import parts

if TYPE_CHECKING:
    import torch

_MOST_CALLS = 8
"""Of models and of losses together."""

_SHORTEST = 8
_MOST_ELEMENTS = 1 << 13
_MOST_ENDS = 4
_ROWS = 2
_DIMENSIONS = (1, _ROWS)
"""Labels are often in one row."""

_FEWEST_VALUES = 3
"""With fewer it is a mask, or says which of two texts a token is of."""

_KINDS = {"torch.int32": ctypes.c_int32, "torch.int64": ctypes.c_int64}

Texts = Sequence[Sequence[int]]
Padded = tuple[int, int, int, int]
"""Rows, length, length of the longest row without its padding, elements that are padding."""

Labelled = tuple[int, int]
"""Labels, and how many of them a loss ignores."""


@dataclass(slots=True)
class PaddedInputs:
    """Looks at what models and losses are given in their first calls: tensors of whole numbers.

    No operator is called while a profiler records: it would be taken for one of the program's.
    """

    found: list[Padded] = field(default_factory=list)
    labels: list[Labelled] = field(default_factory=list)
    calls: int = 0

    def __call__(self, given: Iterable[object]) -> None:
        """Look at the arguments of a call of a model or a loss."""
        if self.calls >= _MOST_CALLS:
            return
        batches = [part for part in parts(given) if _may_be_rows(part)]
        read = [_read(batch) for batch in batches]
        if batches and not any(read):
            return
        self.calls += 1
        for batch, rows in zip(batches, read, strict=True):
            if ignored := _ignored(rows):
                self.labels.append((batch.numel(), round(ignored * batch.numel())))
            elif padded := [_padded(*texts) for texts in _texts(rows, batch)]:
                self.found.append(max(padded, key=itemgetter(-1)))


def _may_be_rows(part: object) -> "TypeGuard[torch.Tensor]":
    """Tell whether a part of what is given may be tokens or labels."""
    import torch

    return (
        type(part) is torch.Tensor
        and str(part.dtype) in _KINDS
        and part.layout is torch.strided
        and not (part.is_meta or part.is_nested)
        and part.dim() in _DIMENSIONS
        and min(part.shape) > 1
        and max(part.shape) >= _SHORTEST
    )


def _read(tokens: "torch.Tensor") -> list[list[int]]:
    """Return rows of `tokens`, the first ones of many; none where that takes an operator."""
    many, length = tokens.shape if tokens.dim() == _ROWS else (1, min(len(tokens), _MOST_ELEMENTS))
    rows = min(many, max(_MOST_ELEMENTS // length, 1))
    if tokens.device.type != "cpu":
        if not _can_be_copied(tokens):
            return []
        tokens = tokens[: rows if tokens.dim() == _ROWS else length].cpu()
    kind: Any = _KINDS[str(tokens.dtype)]
    of_row, of_column = (0, *tokens.stride())[-_ROWS:]
    try:
        first = tokens.data_ptr()
    except RuntimeError:  # no memory of its own, as inside `torch.func.vmap`
        first = 0
    if not first:
        return []
    span = kind * ((length - 1) * of_column + 1)
    begins = (first + row * of_row * ctypes.sizeof(kind) for row in range(rows))
    return [span.from_address(begin)[:: max(of_column, 1)] for begin in begins]


def _can_be_copied(tokens: "torch.Tensor") -> bool:
    """Say whether `tokens` of a GPU can be copied, and no recording has that as the program's."""
    import torch

    is_recording = torch._C._autograd._profiler_enabled()  # noqa: SLF001 - no public name
    # Without CUDA there is nothing to ask for graphs.
    return not (is_recording or (tokens.is_cuda and torch.cuda.is_current_stream_capturing()))


def _ignored(rows: Texts) -> float:
    """Return the share of `rows` that is the only negative value, as labels that do not count."""
    values = set[int]().union(*rows)
    negative = [value for value in values if value < 0]
    if len(negative) != 1 or len(values) < _FEWEST_VALUES:
        return 0.0
    return sum(list(row).count(negative[0]) for row in rows) / sum(map(len, rows))


def _texts(rows: Texts, batch: "torch.Tensor") -> list[tuple[Texts, int]]:
    """Return what may be texts, each of `rows` or each column, and how many of them there are.

    They are those of `batch`, of which some may have been read. Recurrent layers want columns.
    Those of few values are masks, those of negative ones labels, and short ones no texts.
    """
    values = set[int]().union(*rows)
    if batch.dim() != _ROWS or len(values) < _FEWEST_VALUES or min(values) < 0:
        return []
    many = batch.shape[0]
    columns = [*zip(*rows, strict=True)] if len(rows) == many else []
    either = (rows, many), (columns, len(columns))
    return [(some, number) for some, number in either if some and len(some[0]) >= _SHORTEST]


def _padded(texts: Texts, number: int) -> Padded:
    """Return what is padding in a `number` of `texts`, at their ends or before their beginnings."""
    runs = max((_runs(ends) for ends in (texts, [one[::-1] for one in texts])), key=sum)
    length = len(texts[0])
    return number, length, length - min(runs), round(sum(runs) * number / len(runs))


def _runs(rows: Texts) -> list[int]:
    """Return how many elements at the end of each row are padding.

    That is one of the values which most rows end with, as long as it is elsewhere in them at most
    once each, as where a text ends with it.
    """
    ends = Counter(row[-1] for row in rows).most_common(_MOST_ENDS)
    return max((_runs_of(value, rows) for value, _ in ends), key=sum)


def _runs_of(value: int, rows: Texts) -> list[int]:
    runs = [sum(1 for _ in takewhile(value.__eq__, reversed(row))) for row in rows]
    elsewhere = sum(row.count(value) for row in rows) - sum(runs)
    return runs if elsewhere <= len(rows) else [0] * len(rows)
