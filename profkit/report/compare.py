"""Runs side by side: their differences, key numbers, and charts of these."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from profkit.core import result
from profkit.core.step_time import of_one_statistic
from profkit.report import result_tree, view
from profkit.report.column_labels import column
from profkit.report.labelled_values import Number, Value
from profkit.report.record import verdict_of
from profkit.report.settings import Settings
from profkit.report.shown_run import ShownRun, cell_value, run_label

_UNPROFILED = (
    "Step times are those of unprofiled steps. Causes, and differences of traces, are of traced "
    "ones, whose times are others."
)
_LOG_FROM = 8  # largest over smallest value of an axis that was swept by doubling


_COUNTED = {
    "steps.peak_memory_bytes": "on a GPU: what PyTorch allocated; on a CPU: the whole process",
    "memory_peak.peak_bytes": "tensors and workspaces in PyTorch's allocator",
}
"""What key numbers count that could be taken for one another."""

Examples = Mapping[str, result.Metric | None]
"""Key numbers by key, each of the first run that knows it."""


def examples(runs: Sequence[result_tree.Run], keys: Sequence[str]) -> Examples:
    """Return an example of each of the `keys` whose analysis some of the `runs` have."""
    asked = {name for run in runs for name in run.selected.analyses}
    return {
        key: next((metric for run in runs if (metric := _metric(run, key))), None)
        for key in keys
        if key.partition(".")[0] in asked
    }


def key_numbers(run: result_tree.Run, wanted: Examples) -> tuple[Number, ...]:
    """Return the run's numbers that are `wanted`, or the reasons why they are not known.

    An analysis that knows nothing says that once: of a recording without steps it is not the peak
    of memory that is unknown, but the steps.
    """
    found = [_nothing_known(run, key) or _number(run, key, wanted[key]) for key in wanted]
    return tuple(dict.fromkeys(found))


def _nothing_known(run: result_tree.Run, key: str) -> Number | None:
    """Return what an analysis without any number says is not known; None if it has some."""
    document = run.documents.get(key.partition(".")[0])
    if document is None or document.result.metrics or len(document.result.abstentions) != 1:
        return None
    (abstention,) = document.result.abstentions
    return Number(title=abstention.what, value=None, unit="", reason=abstention.reason)


def _columns(
    runs: Sequence[result_tree.Run], keys: Sequence[str]
) -> tuple[list[tuple[str, str]], list[list[Number]]]:
    """Return keys and titles of the columns that compare `runs`, and the numbers of each run.

    A number that was measured in another way in some runs, such as with a profiler, has another
    title there, and a column of its own.
    """
    known = {
        key: [_number(run, key, example) for run in runs]
        for key, example in examples(runs, keys).items()
    }
    columns = list(dict.fromkeys((key, own.title) for key, mine in known.items() for own in mine))
    return columns, [
        [_under(title, known[key][index]) for key, title in columns] for index in range(len(runs))
    ]


def _under(title: str, number: Number) -> Number:
    if number.title == title:
        return number
    reason = f"it was measured as: {number.title}"
    return Number(title=title, value=None, unit=number.unit, reason=reason)


def _number(run: result_tree.Run, key: str, example: result.Metric | None) -> Number:
    if metric := _metric(run, key):
        known = metric.interval
        return Number(
            title=metric.title,
            value=metric.value,
            unit=metric.unit,
            interval=(known.low, known.high, known.confidence) if known else None,
            reason=_COUNTED.get(key, "one repeat: no interval" * (len(metric.by_repeat) == 1)),
        )
    named = column(key.partition(".")[2])
    return Number(
        title=example.title if example else named.label,
        value=None,
        unit=example.unit if example else named.unit,
        reason=_reason(run, key),
    )


def _metric(run: result_tree.Run, key: str) -> result.Metric | None:
    analysis, _, name = key.partition(".")
    document = run.documents.get(analysis)
    return document.result.metrics.get(name) if document else None


def _reason(run: result_tree.Run, key: str) -> str:
    """Return why a number is not known: its own abstention, or else all of the analysis."""
    analysis, _, name = key.partition(".")
    document = run.documents.get(analysis)
    if document is None:
        return f"there is no result of the analysis {analysis}"
    abstentions = document.result.abstentions
    label = column(name).label.casefold()
    if own := [
        abstention.reason for abstention in abstentions if abstention.what.casefold() == label
    ]:
        return "; ".join(own)
    if len(abstentions) == 1:
        return abstentions[0].reason
    reasons = [f"{abstention.what}: {abstention.reason}" for abstention in abstentions]
    return "; ".join(reasons) or f"the analysis {analysis} left no such number"


def overview(shown_runs: Sequence[ShownRun], settings: Settings) -> view.Drawn:
    """Return the tables and charts that compare the runs; nothing if there is only one."""
    if len(shown_runs) <= 1:
        return view.Drawn()
    runs = _timed_alike([shown_run.run for shown_run in shown_runs])
    keys = list(dict.fromkeys(_metric_keys(runs)))
    links = tuple(shown_run.anchor_link.href for shown_run in shown_runs)
    glance = _comparison(runs, settings.key_metrics, "Runs by their key numbers", links)
    verdicts = [verdict for run in runs if (verdict := verdict_of(run))]
    if any(verdict.is_unprofiled for verdict in verdicts):
        glance = replace(glance, note=_UNPROFILED)
    every = _comparison(runs, keys, "All numbers of all runs", links)
    drawn, charts = _charts(runs, settings.key_metrics)
    return view.Drawn(tables=(glance, every, drawn), charts=charts)


def _timed_alike(runs: Sequence[result_tree.Run]) -> Sequence[result_tree.Run]:
    """Return the runs with the means of their steps where steps of one of them are uneven."""
    steps = [run.documents.get("steps") for run in runs]
    means = of_one_statistic({str(at): of.result for at, of in enumerate(steps) if of})
    return [
        replace(run, documents={**run.documents, "steps": replace(of, result=means[str(at)])})
        if of
        else run
        for at, (run, of) in enumerate(zip(runs, steps, strict=True))
    ]


def _metric_keys(runs: Sequence[result_tree.Run]) -> Iterator[str]:
    for run in runs:
        for name, document in run.documents.items():
            yield from (f"{name}.{metric}" for metric in document.result.metrics)


def _comparison(
    runs: Sequence[result_tree.Run], keys: Sequence[str], title: str, links: tuple[str, ...]
) -> view.Table:
    varying = _varying(runs)
    columns, numbers = _columns(runs, keys)
    first = numbers[0]
    rows = tuple(
        (
            run.selected.run,
            *_differs(run, varying),
            *(number.value for number in mine),
            _captures(run),
        )
        for run, mine in zip(runs, numbers, strict=True)
    )
    before = 1 + len(varying)
    return view.Table(
        title=title,
        columns=(
            view.Column(label="Run"),
            *(view.Column(label=key, unit="id") for key in varying),
            *(view.Column(label=number.title, unit=number.unit) for number in first),
            view.Column(label="Captures"),
        ),
        rows=rows,
        total=len(rows),
        links=links,
        best=tuple(_best(runs, columns, rows, before)),
        reasons={
            f"{row},{before + index}": number.reason
            for row, mine in enumerate(numbers)
            for index, number in enumerate(mine)
            if number.value is None and number.reason
        },
    )


def _varying(runs: Sequence[result_tree.Run]) -> list[str]:
    return list(dict.fromkeys(key for run in runs for key in run.selected.differs))


def _differs(run: result_tree.Run, varying: Sequence[str]) -> list[Value]:
    return [cell_value(run.selected.differs.get(key)) for key in varying]


def _captures(run: result_tree.Run) -> str:
    bad = [f"{capture.tool} {capture.status}" for capture in run.captures if capture.status != "ok"]
    if bad:
        return f"failed: {', '.join(dict.fromkeys(bad))}"
    return f"{len(run.captures)} ok" if run.captures else "none"


def _best(
    runs: Sequence[result_tree.Run],
    columns: Sequence[tuple[str, str]],
    rows: Sequence[tuple[Value, ...]],
    before: int,
) -> Iterator[tuple[int, int]]:
    """Yield the best cells of each column whose metric has a better direction."""
    for index, (key, title) in enumerate(columns, start=before):
        known_metrics = (_metric(run, key) for run in runs)
        metrics = [metric for metric in known_metrics if metric and metric.title == title]
        better = metrics[0].better if metrics else "neither"
        values = [row[index] for row in rows]
        known = [value for value in values if isinstance(value, int | float)]
        if better == "neither" or len(set(known)) <= 1:
            continue
        best = min(known) if better == "lower" else max(known)
        if _stands_out(best, metrics):
            yield from ((row, index) for row, value in enumerate(values) if value == best)


def _stands_out(best: float, metrics: Sequence[result.Metric]) -> bool:
    """Say whether the best value has an interval that meets that of no other, which all have."""
    winner = next(metric for metric in metrics if metric.value == best)
    others = [metric for metric in metrics if metric.value != best]
    return winner.interval is not None and all(
        metric.interval is not None
        and (
            winner.interval.high < metric.interval.low or metric.interval.high < winner.interval.low
        )
        for metric in others
    )


def _charts(
    runs: Sequence[result_tree.Run], keys: Sequence[str]
) -> tuple[view.Table, tuple[view.Chart, ...]]:
    """Draw each key number against the swept key, one series for each of the other choices."""
    varying = _varying(runs)
    axis = _axis(runs, varying)
    others = [key for key in varying if key != axis]
    _, numbers = _columns(runs, keys)
    rows = tuple(
        (
            cell_value(run.selected.differs.get(axis))
            if axis
            else _series(run, varying) or run_label(run),
            _series(run, others) if axis else "",
            *(number.value for number in mine),
        )
        for run, mine in zip(runs, numbers, strict=True)
    )
    table = view.Table(
        title="Compared",
        columns=(
            view.Column(label=axis or "Run", unit="id"),
            view.Column(label=" and ".join(others)),
            *(view.Column(label=number.title, unit=number.unit) for number in numbers[0]),
        ),
        rows=rows,
        total=len(rows),
    )
    against = f", by {axis or ' and '.join(varying) or 'run'}"
    return table, tuple(
        view.Chart(
            title=number.title + against,
            kind="line" if axis else "bar",
            table=2,
            x=0,
            y=(2 + index,),
            color=1 if axis and others else -1,
            horizontal=not axis,
            log=("x",) if _by_doubling([row[0] for row in rows]) else (),
        )
        for index, number in enumerate(numbers[0])
        if any(isinstance(row[2 + index], int | float) for row in rows)
    )


def _axis(runs: Sequence[result_tree.Run], varying: Sequence[str]) -> str:
    """Return the key with the most numbers that was swept, or "" if only names were."""
    values = {key: {cell_value(run.selected.differs.get(key)) for run in runs} for key in varying}
    numeric = [
        key
        for key, found in values.items()
        if len(found) > 1 and all(isinstance(value, int | float) for value in found)
    ]
    # A seed is swept to see the noise, not to be the axis of anything.
    return max(numeric, key=lambda key: (key != "seed", len(values[key])), default="")


def _series(run: result_tree.Run, others: Sequence[str]) -> str:
    """Return the name of the run's series: numbers need their key, names speak for themselves."""
    values = {key: cell_value(run.selected.differs.get(key)) for key in others}
    return ", ".join(
        value if isinstance(value, str) else f"{key} {value}" for key, value in values.items()
    )


def _by_doubling(values: Sequence[Value]) -> bool:
    numbers = [value for value in values if isinstance(value, int | float)]
    positive = len(numbers) == len(values) and min(numbers) > 0
    return positive and max(numbers) / min(numbers) >= _LOG_FROM
