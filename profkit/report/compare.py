"""Runs side by side: what differs, the key numbers, and charts of them."""

from collections.abc import Iterator, Sequence

from profkit.core import result
from profkit.report import sources, view
from profkit.report.place import Place, plain, run_label
from profkit.report.settings import Settings
from profkit.report.units import column

_LOG_FROM = 8  # largest over smallest value of an axis that was swept by doubling


def key_numbers(
    run: sources.Run, runs: Sequence[sources.Run], keys: Sequence[str]
) -> tuple[view.Number, ...]:
    """Return the run's numbers named by `keys`, or for each the reason why it is not known."""
    asked = {name for each in runs for name in each.selected.analyses}
    return tuple(_number(run, runs, key) for key in keys if key.partition(".")[0] in asked)


def _number(run: sources.Run, runs: Sequence[sources.Run], key: str) -> view.Number:
    if metric := _metric(run, key):
        return view.Number(title=metric.title, value=metric.value, unit=metric.unit)
    example = next((found for each in runs if (found := _metric(each, key))), None)
    named = column(key.partition(".")[2])
    return view.Number(
        title=example.title if example else named.label,
        value=None,
        unit=example.unit if example else named.unit,
        reason=_reason(run, key),
    )


def _metric(run: sources.Run, key: str) -> result.Metric | None:
    analysis, _, name = key.partition(".")
    document = run.documents.get(analysis)
    return document.result.metrics.get(name) if document else None


def _reason(run: sources.Run, key: str) -> str:
    """Say why a number is not known: by what was abstained from under its name, or by all."""
    analysis, _, name = key.partition(".")
    document = run.documents.get(analysis)
    if document is None:
        return f"there is no result of the analysis {analysis}"
    abstentions = document.result.abstentions
    label = column(name).label.casefold()
    if own := [each.reason for each in abstentions if each.what.casefold() == label]:
        return "; ".join(own)
    said = [f"{each.what}: {each.reason}" for each in abstentions]
    return "; ".join(said) or f"the analysis {analysis} left no such number"


def overview(places: Sequence[Place], settings: Settings) -> view.Drawn:
    """Return the tables and charts that compare the runs; nothing if there is only one."""
    if len(places) <= 1:
        return view.Drawn()
    runs = [place.run for place in places]
    keys = list(dict.fromkeys(_metric_keys(runs)))
    links = tuple(place.here.href for place in places)
    glance = _comparison(runs, settings.key_metrics, "Runs by their key numbers", links)
    every = _comparison(runs, keys, "All numbers of all runs", links)
    drawn, charts = _charts(runs, settings.key_metrics)
    return view.Drawn(tables=(glance, every, drawn), charts=charts)


def _metric_keys(runs: Sequence[sources.Run]) -> Iterator[str]:
    for run in runs:
        for name, document in run.documents.items():
            yield from (f"{name}.{metric}" for metric in document.result.metrics)


def _comparison(
    runs: Sequence[sources.Run], keys: Sequence[str], title: str, links: tuple[str, ...]
) -> view.Table:
    varying = _varying(runs)
    numbers = [key_numbers(run, runs, keys) for run in runs]
    first = numbers[0]
    rows = tuple(
        (run.selected.run, *_differs(run, varying), *(each.value for each in mine), _captures(run))
        for run, mine in zip(runs, numbers, strict=True)
    )
    before = 1 + len(varying)
    return view.Table(
        title=title,
        columns=(
            view.Column(label="Run"),
            *(view.Column(label=key, unit="id") for key in varying),
            *(view.Column(label=each.title, unit=each.unit) for each in first),
            view.Column(label="Captures"),
        ),
        rows=rows,
        total=len(rows),
        links=links,
        best=tuple(_best(runs, keys, rows, before)),
        reasons={
            f"{row},{before + index}": each.reason
            for row, mine in enumerate(numbers)
            for index, each in enumerate(mine)
            if each.reason
        },
    )


def _varying(runs: Sequence[sources.Run]) -> list[str]:
    return list(dict.fromkeys(key for run in runs for key in run.selected.differs))


def _differs(run: sources.Run, varying: Sequence[str]) -> list[view.Value]:
    return [plain(run.selected.differs.get(key)) for key in varying]


def _captures(run: sources.Run) -> str:
    bad = [f"{each.tool} {each.status}" for each in run.captures if each.status != "ok"]
    if bad:
        return f"failed: {', '.join(dict.fromkeys(bad))}"
    return f"{len(run.captures)} ok" if run.captures else "none"


def _best(
    runs: Sequence[sources.Run],
    keys: Sequence[str],
    rows: Sequence[tuple[view.Value, ...]],
    before: int,
) -> Iterator[tuple[int, int]]:
    """Yield the cells that are best in their column, where that means anything."""
    asked = {name for run in runs for name in run.selected.analyses}
    shown = [key for key in keys if key.partition(".")[0] in asked]
    for place, key in enumerate(shown, start=before):
        metrics = [_metric(run, key) for run in runs]
        better = next((each.better for each in metrics if each), "neither")
        values = [row[place] for row in rows]
        known = [value for value in values if isinstance(value, int | float)]
        if better == "neither" or len(set(known)) <= 1:
            continue
        best = min(known) if better == "lower" else max(known)
        if _stands_out(best, metrics):
            yield from ((row, place) for row, value in enumerate(values) if value == best)


def _stands_out(best: float, metrics: Sequence[result.Metric | None]) -> bool:
    """Say whether the interval of the best value, if it has one, meets that of no other."""
    winner = next(each for each in metrics if each and each.value == best)
    intervals = [each.interval for each in metrics if each and each.value != best and each.interval]
    return winner.interval is None or all(
        winner.interval.high < each.low or each.high < winner.interval.low for each in intervals
    )


def _charts(
    runs: Sequence[sources.Run], keys: Sequence[str]
) -> tuple[view.Table, tuple[view.Chart, ...]]:
    """Draw each key number against what was swept, one series for each of the other choices."""
    varying = _varying(runs)
    axis = _axis(runs, varying)
    others = [key for key in varying if key != axis]
    numbers = [key_numbers(run, runs, keys) for run in runs]
    rows = tuple(
        (
            plain(run.selected.differs.get(axis))
            if axis
            else _series(run, varying) or run_label(run),
            _series(run, others) if axis else "",
            *(each.value for each in mine),
        )
        for run, mine in zip(runs, numbers, strict=True)
        for named in [_series(run, varying) or run_label(run)]
    )
    table = view.Table(
        title="Compared",
        columns=(
            view.Column(label=axis or "Run", unit="id"),
            view.Column(label=" and ".join(others)),
            *(view.Column(label=each.title, unit=each.unit) for each in numbers[0]),
        ),
        rows=rows,
        total=len(rows),
    )
    against = f", by {axis or ' and '.join(varying) or 'run'}"
    return table, tuple(
        view.Chart(
            title=each.title + against,
            kind="line" if axis else "bar",
            table=2,
            x=0,
            y=(2 + index,),
            color=1 if axis and others else -1,
            horizontal=not axis,
            log=("x",) if _by_doubling([row[0] for row in rows]) else (),
        )
        for index, each in enumerate(numbers[0])
    )


def _axis(runs: Sequence[sources.Run], varying: Sequence[str]) -> str:
    """Return the key with the most numbers that was swept, or "" if only names were."""
    values = {key: {plain(run.selected.differs.get(key)) for run in runs} for key in varying}
    numeric = [
        key
        for key, found in values.items()
        if len(found) > 1 and all(isinstance(value, int | float) for value in found)
    ]
    # A seed is swept to see the noise, not to be the axis of anything.
    return max(numeric, key=lambda key: (key != "seed", len(values[key])), default="")


def _series(run: sources.Run, others: Sequence[str]) -> str:
    """Return the name of the run's series: numbers need their key, names speak for themselves."""
    values = {key: plain(run.selected.differs.get(key)) for key in others}
    return ", ".join(
        value if isinstance(value, str) else f"{key} {value}" for key, value in values.items()
    )


def _by_doubling(values: Sequence[view.Value]) -> bool:
    numbers = [value for value in values if isinstance(value, int | float)]
    positive = len(numbers) == len(values) and min(numbers) > 0
    return positive and max(numbers) / min(numbers) >= _LOG_FROM
