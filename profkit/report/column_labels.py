"""Labels and units of columns and keys, split from names such as ``self_cpu_ns``."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from profkit.report.view import Column

_UNITS = frozenset(
    {"ns", "us", "ms", "s", "bytes", "share", "fraction", "percent", "ratio", "count", "flops"}
    | {"flop", "hz", "mhz", "w", "j"}
)
_NOUNS = frozenset({"step", "call", "token", "rank", "sample", "launch"})
_IDENTIFIERS = frozenset(
    {"rank", "step", "repeat", "device", "stream", "tid", "pid", "op", "parent", "correlation"}
    | {"batch", "seed"}
)
_MEASURES = {"ns": "time", "us": "time", "ms": "time", "s": "time", "bytes": "memory"} | {
    unit: unit for unit in ("share", "percent", "ratio", "count")
}
_SPELLINGS = "CPU GPU CUDA DRAM FLOPs NCCL NVTX ID OS ZeRO MFU HFU Python SM P5 P95 Pareto"
_SPELLING = {word.lower(): word for word in _SPELLINGS.split()}


def column(name: str) -> Column:
    """Split a column's name, such as ``self_cpu_ns``, into its label and its unit."""
    if rate := re.fullmatch(r"(.+?)_((?:[a-z]+_)?per_s)", name):
        return Column(label=_words(rate[1]), unit=rate[2])
    if name.startswith("share_of_"):
        return Column(label=_words(name), unit="share")
    if name in _IDENTIFIERS:
        return Column(label=_words(name), unit="id")
    amount, _, noun = name.rpartition("_per_")
    if noun in _NOUNS and (of_one := column(amount)).unit:
        label = of_one.label if "_" in amount else _MEASURES.get(of_one.unit, of_one.label)
        return Column(label=_words(f"{label} per {noun}"), unit=of_one.unit)
    stem, _, suffix = name.rpartition("_")
    if suffix in _UNITS:
        return Column(label=_words(stem or suffix), unit=suffix)
    return Column(label=_words(name))


def columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a table; equal labels with different units name the quantity."""
    split = [column(name) for name in names]
    times = Counter(column.label for column in split)
    return tuple(
        replace(column, label=f"{column.label} {_MEASURES[column.unit]}")
        if times[column.label] > 1
        and not column.label.lower().endswith(_MEASURES.get(column.unit, ""))
        else column
        for column in split
    )


def _words(name: str) -> str:
    words = [_SPELLING.get(word, word) for word in name.strip("_").replace(".", ":_").split("_")]
    text = " ".join(words)
    return text[:1].upper() + text[1:]
