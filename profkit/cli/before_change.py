"""Whether a change helped: numbers of a run from before its program changed, to compare with."""

from collections.abc import Iterator

from profkit.cli.run_folders import RUNS, RunFolder
from profkit.core.saved_results import BASELINES, BEFORE
from profkit.dag.inputs import Dag


def keep_numbers(dag: Dag, *, is_again: bool) -> None:
    """Save the numbers of runs whose program has changed, in place of those before them.

    Of all runs, where a user wants them recorded `is_again`.

    Of a run that failed after an earlier change, those from before that one are left.
    """
    if dag.attempts.keeps_old_code and not is_again:
        return
    for run in dag.plan.runs:
        folder = RunFolder(RUNS / run.name)
        if folder.step_time_ns is None:
            continue
        if is_again or any(map(dag.attempts.changes_since, dag.captures_of(run))):
            # Late: it takes longer to load than `profkit run` may take to start.
            from profkit.cli.measured_run import measured, save_baseline  # noqa: PLC0415

            save_baseline(_baseline(folder), measured(folder))


def compared_with_before(folder: RunFolder) -> Iterator[str]:
    """Yield by how much a run differs from before its program changed, or it was recorded anew."""
    before = _baseline(folder)
    if folder.step_time_ns is None or not (BASELINES / f"{before}.json").is_file():
        return
    # Late: as above.
    from profkit.analyze.shared.paired import BAND  # noqa: PLC0415
    from profkit.cli.comparison import compared_runs, sentences  # noqa: PLC0415
    from profkit.cli.measured_run import measured, read_baseline  # noqa: PLC0415

    kept, now = read_baseline(before), measured(folder)
    if kept.began == now.began:  # a person ended what was to come in its place
        return
    comparison = compared_runs(kept, now, band=BAND)
    if comparison.judgements:
        is_changed = any(one.key.startswith("sources.") for one in comparison.found)
        what = "before the change" if is_changed else "the time before"
        yield f"{what}, and now (why: profkit compare {before} {folder.name}):"
        yield from (f"  {sentence}" for sentence in sentences(comparison))


def _baseline(folder: RunFolder) -> str:
    return f"{BEFORE}{folder.name}"
