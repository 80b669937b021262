"""Whether a change helped: numbers of a run from before its program changed, to compare with."""

from collections.abc import Iterator

from profkit.cli.run_folders import RUNS, RunFolder
from profkit.core.saved_results import BASELINES
from profkit.dag.inputs import Dag
from profkit.planning.model import Run


def keep_numbers(dag: Dag) -> set[str]:
    """Save the numbers of runs whose program has changed; return the runs to compare with such.

    Of a run that failed after an earlier change, they are those from before that one.
    """
    if dag.attempts.keeps_old_code:
        return set()
    return {run.name for run in dag.plan.runs if _keeps(RunFolder(RUNS / run.name), dag, run)}


def _keeps(folder: RunFolder, dag: Dag, run: Run) -> bool:
    name = _baseline(folder)
    if folder.step_time_ns is None:
        return (BASELINES / f"{name}.json").is_file()
    if not any(map(dag.attempts.changes_since, dag.captures_of(run))):
        return False
    # Late: it takes longer to load than `profkit run` may take to start.
    from profkit.cli.measured_run import measured, save_baseline  # noqa: PLC0415

    save_baseline(name, measured(folder))
    return True


def compared_with_before(folder: RunFolder) -> Iterator[str]:
    """Yield by how much a run differs from the numbers that were kept of it."""
    if folder.step_time_ns is None:
        return
    # Late: as above.
    from profkit.analyze.shared.paired import BAND  # noqa: PLC0415
    from profkit.cli.comparison import compared_runs, sentences  # noqa: PLC0415
    from profkit.cli.measured_run import measured, read_baseline  # noqa: PLC0415

    before = _baseline(folder)
    comparison = compared_runs(read_baseline(before), measured(folder), band=BAND)
    if comparison.judgements:
        yield f"before the change, and now (why: profkit compare {before} {folder.name}):"
        yield from (f"  {sentence}" for sentence in sentences(comparison))


def _baseline(folder: RunFolder) -> str:
    return f"before-{folder.name}"
