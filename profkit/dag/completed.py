"""Whether all is as it was when a selection had been worked off: then there is nothing to do.

Snakemake looks into each job, which takes four seconds for a hundred runs; this looks at the size
and the time of change of each file, and into results and records, which are small. Where it is in
doubt, Snakemake decides.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path

import msgspec

from profkit.core import program_variables, progress_events, resources
from profkit.core.cache_file import read_cached, write_cached
from profkit.core.capture_record import read_capture
from profkit.core.saved_results import saved_results
from profkit.dag.inputs import ACROSS, REPORT, Dag
from profkit.planning.model import Plan

_FILE = Path("results/.profkit/completed.cache")
_UNREAD = ("logs", "benchmarks")
"""Folders of a run that no job reads."""

_RECORDS = ("capture.json", "convert.json", "manifest.json")
_FOLDERS_OF_RECORDS = ("analyze", "timeline")

_TARGETS = {"all", str(REPORT)}
_HARMLESS = frozenset(
    {
        *("targets", "config", "snakefile", "directory", "profile", "workflow_profile"),
        *("cores", "jobs", "dryrun", "quiet", "verbose", "printshellcmds", "nolock"),
        "max_jobs_per_timespan",  # it does not compare with itself
    }
)
"""Options of Snakemake that do not change which jobs are to be done."""

_State = tuple[int, int]
"""Size and time of change of a file; those of one that is not there are -1."""


class _Completed(msgspec.Struct, frozen=True):
    """What was there when a selection had been worked off."""

    plan: str
    """Hash of the plan."""

    results: str
    """Hash of the states of all files that the plan makes."""

    sources: dict[str, _State]
    """States of the user's files that the captures ran."""

    variables: dict[str, str]
    """Hashes of the environment variables that they depend on, of those set now."""


def remember(dag: Dag) -> None:
    """Keep the state of the files of `dag`, whose jobs have all been done without a failure."""
    _FILE.unlink(missing_ok=True)
    paths = [path for run in dag.plan.runs for path in dag.captures_of(run)]
    records = [*map(read_capture, paths)]
    found = [entry for record in records for entry in record.get("sources", ())]
    sources = {entry["path"]: _state(Path(entry["path"])) for entry in found}
    variables = {name for record in records for name in record.get("variables", ())}
    results = _results(dag)
    # After their states: what was edited meanwhile makes captures stale, and so does this.
    if not Dag(dag.plan).changed_sources():
        kept = _Completed(
            plan=_hash_of(dag.plan),
            results=results,
            sources=sources,
            variables=_variables(variables),
        )
        write_cached(_FILE, msgspec.json.encode(kept))


def is_unchanged(dag: Dag) -> bool:
    """Say whether the plan, its files and the user's sources are those that were remembered."""
    if (content := read_cached(_FILE)) is None:
        return False
    kept = msgspec.json.decode(content, type=_Completed)
    return (
        kept.plan == _hash_of(dag.plan)
        and all(_state(Path(path)) == state for path, state in kept.sources.items())
        and _variables(kept.variables) == kept.variables
        and kept.results == _results(dag)
    )


def is_whole(argv: Sequence[str]) -> bool:
    """Say whether a person started Snakemake, by `argv`, for the report and nothing else.

    `profkit run` looks whether all is unchanged before it starts Snakemake, and remembers itself.
    """
    program, *words = argv
    by_hand = "snakemake" in Path(program).parts[-2:]  # or it is a folder, with __main__.py
    if not by_hand or progress_events.VARIABLE in os.environ:
        return False
    from snakemake.cli import parse_args  # noqa: PLC0415 - Snakemake is loaded where this is asked

    with redirect_stderr(StringIO()):  # it says which settings it reads
        _, asked = parse_args(words)
        _, usual = parse_args(["--workflow-profile", str(resources.PROFILE)])
    given = {name for name, value in vars(asked).items() if value != getattr(usual, name)}
    return given <= _HARMLESS and _TARGETS.issuperset(asked.targets)


def _hash_of(plan: Plan) -> str:
    return hashlib.sha256(msgspec.json.encode(plan)).hexdigest()


def _variables(names: Iterable[str]) -> dict[str, str]:
    """Return the hashes of the variables with these `names`, and of those of libraries, now."""
    every = sorted({*names, *program_variables.of_libraries()})
    return {name: program_variables.hashed(name) for name in every}


def _results(dag: Dag) -> str:
    folders = [*(f"results/runs/{run.name}" for run in dag.plan.runs), ACROSS]
    digest = hashlib.sha256()
    about = (dag.selection(write=False), str(REPORT), str(REPORT.with_suffix(".json")))
    for path in (*about, *map(str, saved_results()), *dag.kept_comparison()):
        digest.update(f"{path} {_state(Path(path))}\n".encode())
    for folder in folders:
        for path, state in sorted(_states(folder)):
            digest.update(f"{path} {state}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _states(folder: str) -> Iterator[tuple[str, tuple[int | str, ...]]]:
    """Yield each file below `folder` that a job reads, with its state.

    That of results and records, in which a bit may flip without another time, has their content.
    """
    if not os.path.isdir(folder):  # noqa: PTH112 - of thousands of files, as below
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _UNREAD:
                    yield from _states(entry.path)
            elif entry.name in _RECORDS or _is_result(folder, entry.name):
                yield entry.path, (*_state(entry), _hash_of_content(entry.path))
            else:
                yield entry.path, _state(entry)


def _is_result(folder: str, name: str) -> bool:
    return name.endswith(".json") and folder.endswith(_FOLDERS_OF_RECORDS)


def _hash_of_content(path: str) -> str:
    with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - of thousands of files
        return hashlib.sha256(file.read()).hexdigest()
    return ""


def _state(path: "Path | os.DirEntry[str]") -> _State:
    try:
        found = path.stat()
    except OSError:
        return -1, -1
    return found.st_size, found.st_mtime_ns
