"""Tables, charts and drawings of results on the page, as far as there is room for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from profkit.core import result
from profkit.core.drawing import Drawing
from profkit.core.errors import InputError
from profkit.core.result import Chart, Result
from profkit.report import view
from profkit.report.column_labels import columns
from profkit.report.drawings import placed
from profkit.report.embedded_json import embedded_json
from profkit.report.labelled_values import Value

_MAX_CELL = 1000
_FEWEST_ROWS = 1
_NO_STEP = -1
# Charts that tell something of a single place: an interval, changes to a sum, a tree.
_OF_ONE_PLACE = frozenset({"forest", "waterfall", "sunburst"})
_OF_ROWS = frozenset({"box", "scatter"})


@dataclass(slots=True)
class Parts:
    """What the sections of a run draw, which they name by position."""

    tables: list[view.Table] = field(default_factory=list)
    charts: list[view.Chart] = field(default_factory=list)
    drawings: list[tuple[str, Drawing]] = field(default_factory=list)

    def add(
        self, analysis: str, shown: Result, names: Mapping[int, str]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Add what `shown` holds; return the positions of its tables, charts and drawings."""
        positions = {key: len(self.tables) + i for i, key in enumerate(shown.tables)}
        first_chart, first_drawing = len(self.charts), len(self.drawings)
        drawn = [_chart(analysis, chart, shown, positions) for chart in shown.charts]
        self.tables.extend(
            _table(f"{analysis}-{key}", table, names) for key, table in shown.tables.items()
        )
        self.charts.extend(chart for chart in drawn if _compares(chart, self.tables[chart.table]))
        self.drawings.extend(shown.drawings.items())
        return (
            tuple(positions.values()),
            tuple(range(first_chart, len(self.charts))),
            tuple(range(first_drawing, len(self.drawings))),
        )

    def fitted(
        self, anchor: str, max_rows: int, room: int
    ) -> tuple[view.Drawn, tuple[view.Block, ...]]:
        """Return what of it fits into `room` bytes; drawings have at least half of these.

        `anchor` is that of the run.
        """
        frames = [replace(table, rows=()) for table in self.tables]
        room = max(room - len(embedded_json(frames)) - len(embedded_json(self.charts)), 0)
        sizes = [
            [len(embedded_json(row)) + 1 for row in table.rows[:max_rows]] for table in self.tables
        ]
        of_drawings = max(room // 2, room - sum(map(sum, sizes)))
        drawings, blocks, used = placed(anchor, self.drawings, of_drawings)
        tables = _cut(self.tables, sizes, max_rows, room - used)
        charts = tuple(_with_note(chart, tables) for chart in self.charts)
        return view.Drawn(tables=tables, charts=charts, drawings=drawings), blocks


def _table(name: str, table: result.Table, names: Mapping[int, str]) -> view.Table:
    """Return `table` as `name`, with the `names` of ranks in the columns of their numbers."""
    kinds = [(is_rank(column), _is_step(column)) for column in table.columns]
    return view.Table(
        title=table.title,
        name=name,
        columns=columns(table.columns),
        rows=tuple(
            tuple(
                rank_name(value, names)
                if names_rank
                else cell(None if names_step and value == _NO_STEP else value)
                for value, (names_rank, names_step) in zip(row, kinds, strict=True)
            )
            for row in table.rows
        ),
        note=table.note,
        total=len(table.rows),
        sums=tuple((table.columns.index(name), whole) for name, whole in table.sums.items()),
        left_out=table.left_out,
    )


def is_rank(name: str) -> bool:
    """Return whether a column or an item of this name holds numbers of ranks."""
    return name == "rank" or (name.endswith("_rank") and not name.endswith("_per_rank"))


def _is_step(name: str) -> bool:
    """Return whether a column of this name holds numbers of steps."""
    return name == "step" or (name.endswith("_step") and not name.endswith("_per_step"))


def rank_name(value: Value, names: Mapping[int, str]) -> Value:
    """Return the name of the rank with number `value`, or the number where it has none."""
    return names.get(int(value), value) if isinstance(value, int | float) else cell(value)


def cell(value: Value) -> Value:
    """Return `value` as the page can show it: not too long, and exact."""
    if isinstance(value, str) and len(value) > _MAX_CELL:
        return value[:_MAX_CELL] + "…"
    # Scripts have doubles only: an integer beyond 2^53 would change on its way to the reader.
    return str(value) if isinstance(value, int) and abs(value) >= 2**53 else value


def _chart(analysis: str, chart: Chart, shown: Result, positions: dict[str, int]) -> view.Chart:
    columns = shown.tables[chart.table].columns if chart.table in shown.tables else ()
    wanted = [chart.x, *chart.y, *filter(None, (chart.color, chart.choose, chart.needs))]
    if missing := [name for name in wanted if name not in columns]:
        raise InputError(
            f"analysis {analysis!r}: the chart {chart.title!r} draws {', '.join(missing)}, which "
            f"table {chart.table!r} does not have",
            hint=f"its columns are: {', '.join(columns) or 'none, there is no such table'}",
        )
    return view.Chart(
        title=chart.title,
        kind=chart.kind,
        table=positions[chart.table],
        x=columns.index(chart.x),
        y=tuple(columns.index(name) for name in chart.y),
        color=columns.index(chart.color) if chart.color else -1,
        horizontal=chart.horizontal,
        log=chart.log,
        lines=chart.lines,
        choose=columns.index(chart.choose) if chart.choose else -1,
        band=chart.band,
        needs=columns.index(chart.needs) if chart.needs else -1,
    )


def _compares(chart: view.Chart, table: view.Table) -> bool:
    """Return whether a chart has two places side by side: the table says all of one alone."""
    if chart.kind in _OF_ONE_PLACE:
        return bool(table.rows)
    rows = [row for row in table.rows if any(row[y] is not None for y in chart.y)]
    if chart.kind in _OF_ROWS:
        return len(rows) > 1
    bars = chart.color if chart.kind == "bar" and chart.color >= 0 else chart.x
    places = {(row[chart.x], row[bars]) for row in rows if row[chart.x] is not None}
    return len(places) > 1


def _cut(
    tables: Sequence[view.Table], sizes: Sequence[Sequence[int]], max_rows: int, room: int
) -> tuple[view.Table, ...]:
    """Cut the longest tables until all of them, of rows of these `sizes`, fit into `room` bytes."""
    limit = max_rows
    while limit > _FEWEST_ROWS and sum(sum(row_sizes[:limit]) for row_sizes in sizes) > room:
        limit = limit * 3 // 4
    return tuple(replace(table, rows=table.rows[:limit]) for table in tables)


def _with_note(chart: view.Chart, tables: Sequence[view.Table]) -> view.Chart:
    table = tables[chart.table]
    if len(table.rows) == table.total:
        return chart
    return replace(chart, note=f"Drawn from the first {len(table.rows):,} of {table.total:,} rows.")
