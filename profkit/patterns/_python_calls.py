"""Time inside Python functions of a kind: from recorded calls, else from the lines of causes."""

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.patterns._causes import largest
from profkit.patterns._rows import Chosen, having, trains, within
from profkit.patterns.base import CHARGED, LOADS, Step, charged
from profkit.tables.frame_files import imported_library
from profkit.tables.python_frames import is_foreign, own_lines

MODEL = (
    r"torch/nn/modules/module\.py\(\d+\): _\w*call"
    r"|torch/(?:_tensor|autograd/__init__)\.py\(\d+\): backward"
)
"""Functions of PyTorch that call the model, or its gradients."""

OWN_ALONE = r"(?!)"
"""Names of functions, for patterns that look at those of the program alone."""

_LEAST_SHARE = 0.08
_LEAST_SIGHTINGS = 2
_NEARLY = 0.1
_LINE = re.compile(r"\(\d+\)")
LOADING = r"^enumerate\(Data"


def serves(python_calls: pd.DataFrame, cpu_ops: pd.DataFrame) -> bool:
    """Tell whether no batches are loaded: the program trains nothing, and answers what comes."""
    loads = bool(having(python_calls, LOADS).any())
    return len(cpu_ops) > 0 and not (trains(cpu_ops) or loads)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spent:
    """Time inside functions of a kind."""

    cause: str
    """Id of the cause that holds most of it."""

    gain_ns: float
    """Upper bound of what is gained without them."""

    place: str
    """The program's line with most of it, else the function."""

    calls: int = 0
    """Calls of them from outside; 0 if calls were not recorded."""

    also: Mapping[str, float] = field(default_factory=dict)
    """Other causes that hold some of it, and how much, in ns."""


def spent_in(
    expression: str,
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Spent | None:
    """Return the time inside functions whose ``file(line): function`` contains `expression`.

    With a GPU no more is gained than it is idle. Without one it is all that happens inside them.
    """
    fits = having(python_calls, expression)
    if not fits.any():
        found = largest(causes, expression, "place", step)
        if found is None:
            return None
        return Spent(cause=found.id, gain_ns=found.gain_ns, place=found.place)
    return spent_in_calls(outermost(python_calls, fits), python_calls, cpu_ops, causes, step)


def spent_in_calls(
    chosen: Chosen,
    python_calls: pd.DataFrame,
    cpu_ops: pd.DataFrame,
    causes: pd.DataFrame,
    step: Step,
) -> Spent:
    """Return the time in the `chosen` calls, none of which lies in another, as `spent_in` does."""
    ids = causes["id"].astype(str)
    idle = causes.loc[ids == "gpu_idle", "ms_per_step"]
    if idle.empty:
        return spent_on_cpu(python_calls, chosen, cpu_ops, causes)
    calls = python_calls[chosen]
    lasted = calls["end_ns"] - calls["start_ns"]
    loading = within(calls, python_calls[having(python_calls, LOADS)])
    is_loading = lasted[loading].sum() * 2 > lasted.sum()
    return Spent(
        cause="gpu_idle.loading_data" if is_loading else "gpu_idle.python",
        gain_ns=min(float(lasted.sum()), float(idle.iloc[0]) * 1e6 * step.count),
        place=_place(own_lines(python_calls, chosen), calls["name"], lasted),
        calls=len(calls),
    )


def spent_on_cpu(
    python_calls: pd.DataFrame, chosen: Chosen, cpu_ops: pd.DataFrame, causes: pd.DataFrame
) -> Spent:
    """Return the time in the `chosen` calls, none of which lies in another, and its causes."""
    calls = python_calls[chosen]
    inside = within(python_calls, calls)
    own, ops = python_calls[inside], cpu_ops[within(cpu_ops, calls)]
    lines = own_lines(python_calls, inside)
    gain_ns = charged(own)
    loads = python_calls[having(python_calls, LOADS)]
    of_ops = _by_cause(ops, within(ops, loads))
    known = set(causes["id"].astype(str))
    loading = within(own, loads)
    of_lines = own[CHARGED].groupby(
        np.where(loading, "loading_data", [_known(line, known) for line in lines])
    )
    # What the lines took and no operator did is Python.
    outside = max(1 - float(of_ops.sum()) / max(gain_ns, 1.0), 0.0)
    held = pd.concat([of_ops, of_lines.sum() * outside]).groupby(level=0).sum()
    held = held[held > 0].sort_values(ascending=False, kind="stable")
    return Spent(
        cause=str(held.index[0]) if len(held) else "python",
        gain_ns=gain_ns,
        place=_place(lines, own["name"], own[CHARGED]),
        calls=len(calls),
        also={str(name): float(time) for name, time in held.iloc[1:].items()},
    )


def outermost(python_calls: pd.DataFrame, fits: Chosen) -> Chosen:
    """Choose the calls that fit and lie in no other that fits, on the same thread."""
    rows = python_calls[fits].sort_values(["repeat", "tid", "start_ns"], kind="stable")
    ends = rows.groupby(["repeat", "tid"], observed=True)["end_ns"].cummax()
    before = ends.groupby([rows["repeat"], rows["tid"]], observed=True).shift(fill_value=-1)
    chosen = np.zeros(len(python_calls), dtype=bool)
    outer = rows.index[(rows["start_ns"] >= before).to_numpy()]
    chosen[python_calls.index.get_indexer(outer)] = True
    return chosen


def _by_cause(ops: pd.DataFrame, loading: Chosen) -> "pd.Series[int]":
    """Return what operators are charged with, by the id of the cause that has it."""
    ids = "cpu_operators." + ops["name"].astype(object).str.replace(".", "_")
    labels = np.where(loading | having(ops, LOADING), "loading_data", ids)
    return ops[CHARGED].groupby(labels).sum()


def _known(line: str, ids: Container[str]) -> str:
    """Return the id of a line as a cause; of all Python where it is too small for one."""
    name = f"python.{line.replace('.', '_')}"
    return name if name in ids else "python"


def _place(lines: NDArray[np.object_], names: "pd.Series[str]", time_ns: "pd.Series[int]") -> str:
    """Return the line of the program with most time; without any, the function."""
    labels = np.where(lines == "", names.astype(object).to_numpy(), lines)
    return str(pd.Series(time_ns.to_numpy()).groupby(labels).sum().idxmax())


def least_ns(step: Step) -> float:
    """Return how long functions take in all steps, in ns, for which there is no other reason."""
    return _LEAST_SHARE * step.ms * 1e6 * step.count


def long_lasting(
    python_calls: pd.DataFrame, names: NDArray[np.object_], step: Step
) -> Iterator[Chosen]:
    """Yield the outermost calls of each of `names` that took long, those of the longest first.

    `names` are one for each call, "" for calls that do not count.
    """
    lasted = (python_calls["end_ns"] - python_calls["start_ns"]).groupby(names).sum()
    longest = lasted[(lasted >= least_ns(step)) & (lasted.index != "")]
    for name in longest.sort_values(ascending=False).index:
        calls = outermost(python_calls, names == name)
        if calls.sum() >= _LEAST_SIGHTINGS:
            yield calls


def functions(python_calls: pd.DataFrame) -> NDArray[np.object_]:
    """Return the function of each call without its line, "" where it is none of the program's."""
    text = python_calls["name"].astype("category").cat
    made = np.array([function_of(str(name)) for name in text.categories], dtype=object)
    names = python_calls["name"].astype(object).to_numpy()
    return np.where(own_lines(python_calls) == names, made[text.codes.to_numpy()], "")


def calls_of(python_calls: pd.DataFrame, place: str) -> Chosen:
    """Choose the calls of the function that `place` is a line of, whichever of its lines."""
    names = python_calls["name"].astype(object).to_numpy()
    own = functions(python_calls)
    is_own = (own == function_of(place)) & (own != "")
    return np.asarray((names == place) | is_own, dtype=np.bool_)


def function_of(frame: str) -> str:
    """Return file and function of a frame, without its line."""
    return _LINE.sub("", frame)


def innermost_line(python_calls: pd.DataFrame, instants: "pd.Series[int]") -> Chosen:
    """Choose the calls at the program's line in which most of the `instants` are.

    That is the one of least time of all in which at least half of them are, as dense as anywhere
    and nearly as many: where several lines call the same function, the one in that. If it calls a
    function that has nearly as many in several lines, it is the one with most of these.
    """
    names = python_calls["name"].astype(object).to_numpy()
    own = own_lines(python_calls) == names
    rows = python_calls[own][["name", "start_ns", "end_ns"]].astype({"name": str})
    rows["function"] = rows["name"].map(function_of)
    rows["count"] = contained(rows, instants)
    rows["ns"] = rows["end_ns"] - rows["start_ns"]
    least = max(len(instants), 1) / 2
    lines = _innermost(_sums(rows, "name"), least)
    if lines.empty:
        return np.zeros(len(names), dtype=bool)
    line = str(lines["ns"].idxmin())
    functions = _sums(rows, "function").drop(index=function_of(line))
    functions = functions[functions["ns"] <= lines["ns"].min()]
    inner = _innermost(functions, (1 - _NEARLY) * float(lines["count"][line]))
    if len(inner):
        inside = rows[(rows["function"] == inner["ns"].idxmin()).to_numpy()]
        inside = inside.sort_values("start_ns", kind="stable")
        # Methods of several classes may have one name, and call each other.
        is_around = (inside["start_ns"].shift(-1) < inside["end_ns"]).to_numpy()
        line = str(inside[~is_around].groupby("name")["count"].sum().idxmax())
    return np.asarray(own & (names == line), dtype=np.bool_)


def _sums(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return count and ns by `column`, without calls in one that is the same there."""
    ordered = rows.sort_values([column, "start_ns"], kind="stable")
    ended = ordered.groupby(column)["end_ns"].cummax().shift(fill_value=0)
    is_same = (ordered[column] == ordered[column].shift()).to_numpy()
    is_inside = is_same & (ordered["start_ns"] < ended).to_numpy()
    made: pd.DataFrame = ordered[~is_inside].groupby(column)[["count", "ns"]].sum()
    return made


def _innermost(sums: pd.DataFrame, least: float) -> pd.DataFrame:
    """Return those of at `least` this count that are as dense as anywhere, and nearly as many."""
    sums = sums[sums["count"] >= least]
    between_ns = sums["ns"] / sums["count"]
    sums = sums[between_ns <= (1 + _NEARLY) * between_ns.min()]
    made: pd.DataFrame = sums[sums["count"] >= (1 - _NEARLY) * sums["count"].max()]
    return made


def contained(rows: pd.DataFrame, instants: "pd.Series[int]") -> NDArray[np.int64]:
    """Return how many of the `instants` each of the `rows` contains."""
    known = np.sort(instants.to_numpy(np.int64))
    start, end = (rows[name].to_numpy(np.int64) for name in ("start_ns", "end_ns"))
    return np.searchsorted(known, end, "left") - np.searchsorted(known, start, "left")


def calling_place(python_calls: pd.DataFrame, place: str) -> str:
    """Return the program's frame that calls `place` where that is a library's, else `place`."""
    calls = python_calls.drop_duplicates("call").set_index("call")
    names, callers = calls["name"].astype(str), calls["caller"]
    at = next(iter(names.index[names == place]), -1)
    for _ in range(len(names)):
        if at not in names.index or not (imported_library(names[at]) or is_foreign(names[at])):
            break
        at = callers[at]
    return str(names.get(at, place))
