"""Settings of the report."""

from dataclasses import dataclass, field

from pydantic import PositiveInt

from profkit.core import settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Topic(settings.Settings):
    """A view of a run: analyses and files of one subject."""

    name: str
    """Part of the page's address."""

    title: str
    """Its name for the reader."""

    analyses: tuple[str, ...] = ()
    """Analyses, in the order in which they are shown; ``*`` is all that no topic names."""

    tools: tuple[str, ...] = ()
    """Tools whose files are listed by rank, for opening."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageSize(settings.Settings):
    """How large a page of some runs may be."""

    runs: PositiveInt
    """Runs of the page."""

    bytes: PositiveInt
    """Bytes of the page."""


def _topics() -> tuple[Topic, ...]:
    return (
        Topic(
            name="timeline",
            title="Timeline",
            analyses=(
                "step_timeline",
                "steps",
                "causes",
                "breakdown",
                "idle",
                "launches",
                "transfers",
                "critical_path",
                "sequences",
            ),
            tools=("torch_profiler", "nsys"),
        ),
        Topic(
            name="compute",
            title="Compute",
            analyses=("flame_graph", "step_costs", "python_hotspots", "*"),
            tools=("py_spy", "pyinstrument"),
        ),
        Topic(
            name="ranks",
            title="Ranks",
            analyses=(
                "rank_steps",
                "overlap",
                "stragglers",
                "collectives",
                "hta",
                "representative_ranks",
            ),
        ),
        Topic(
            name="memory",
            title="Memory",
            analyses=(
                "memory_verdict",
                "memory_timeline",
                "memory_peak",
                "memory_model",
                "memory_lines",
                "memory_over_steps",
                "fragmentation",
                "host_memory_peak",
                "memory_workload",
                "snapshot_diff",
            ),
            tools=("memory_snapshot", "memory_layers", "memlab", "host_memory"),
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings(settings.Settings):
    """Composed from ``conf/report/default.yaml``."""

    title: str = ""
    """Heading of the report; empty says what the selection varies."""

    key_metrics: tuple[str, ...] = (
        "steps.step_time_ns",
        "steps.throughput_per_s",
        "steps.peak_memory_bytes",
        "memory_peak.peak_bytes",
    )
    """Numbers that runs are compared by, as ``analysis.metric``: columns of the first table."""

    findings_on_top: int = 8
    """Findings shown at once before the reader asks for the rest; a count."""

    rows_per_page: int = 10
    """Rows of a table before the reader turns the page."""

    max_rows_per_table: int = 5000
    """Rows of a table that travel in the report; the rest stays in the result file beside it."""

    topics: tuple[Topic, ...] = field(default_factory=_topics)
    """Views of a run beside its overview, in their order."""

    max_bars: int = 20
    """Bars of a chart; the table below it has the rest."""

    max_files_per_folder: int = 40
    """Raw files listed for one folder before the report links to the folder instead."""

    page_bytes: tuple[PageSize, ...] = (
        PageSize(runs=1, bytes=6_000_000),
        PageSize(runs=100, bytes=26_000_000),
        PageSize(runs=500, bytes=40_000_000),
    )
    """How large the page may be, by how many runs it shows; in between in proportion, beyond the
    last as large as it. Rows of tables and details of drawings for which there is no room are left
    out, and the page says so."""
