"""Which ranks the tools of a run have recorded that a light capture chose, and why."""

from collections.abc import Iterator

from profkit.core.capture_record import read_capture
from profkit.dag.inputs import Dag
from profkit.planning.chosen_tools import choosing
from profkit.planning.model import Run


def described(dag: Dag, run: Run) -> Iterator[str]:
    """Yield a line for each tool whose captures name the ranks chosen, and each other choice."""
    for tool in choosing(run.tools):
        said = dict.fromkeys(
            "; ".join(f"{one['rank']}: {one['reason']}" for one in chosen)
            for repeat in range(dag.plan.tools[tool].repeats)
            if (path := dag.capture(run.name, tool, repeat)).is_file()
            and (chosen := read_capture(path).get("chosen_ranks"))
        )
        yield from (f"{tool} recorded ranks {ranks}" for ranks in said)
