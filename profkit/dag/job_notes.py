"""Notes for the user who starts the jobs: what of the plan has no effect, and what comes again."""

from collections.abc import Iterator

from profkit.dag.inputs import Dag
from profkit.planning import script_notes
from profkit.planning.model import Run


def notes_on_jobs(dag: Dag, *, is_again: bool = False) -> Iterator[str]:
    """Yield the notes of the plan, why captures are made again, and what scripts then do again.

    All captures are where a user wants them made `is_again`.
    """
    yield from dag.notes()
    if not (is_again or dag.attempts.keeps_old_code) and (changes := dag.changed_sources()):
        yield f"captures again, as {changes}; capture=keep leaves them as they are"
    waiting = [run for run in dag.plan.runs if is_again or not _is_captured(dag, run)]
    yield from script_notes.repeated(waiting, dag.plan.tools)


def _is_captured(dag: Dag, run: Run) -> bool:
    return all(
        dag.attempts.is_settled(dag.capture(run.name, tool, repeat), tool)
        for tool in run.tools
        for repeat in range(dag.plan.tools[tool].repeats)
    )
