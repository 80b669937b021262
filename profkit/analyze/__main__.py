"""``profkit analyze NAME``: one analysis over the tables of a run."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from profkit import analyze
from profkit.analyze.base import Analysis, Recording, Recordings, ResultTables
from profkit.analyze.shared import mapped_frames
from profkit.analyze.shared.read_tables import (
    frame,
    frame_of_runs,
    large,
    rank_batches,
    readable,
    run_by_run,
)
from profkit.core import job_record, job_usage, progress_events, registry, resources, result
from profkit.core.capture_record import capture_warnings
from profkit.core.checksums import sha256
from profkit.core.errors import InputError, PluginError, ProfkitError
from profkit.core.fingerprint import provenance
from profkit.core.hardware import AUTO, Hardware, read_hardware, reported_hardware
from profkit.core.rank_spans import RankSpan
from profkit.core.settings import Settings, checked, from_json
from profkit.process import malloc

_SectionReader = Callable[[dict[str, Any], list[Path]], Any]
"""Takes a section of the run's configuration, and the tables of the run."""


def main(argv: Sequence[str]) -> None:
    """Run the analysis that `argv` names and write its result."""
    options = _parser().parse_args(argv)
    malloc.keep_freed()
    malloc.share()
    # Arrow's own allocator keeps half as much as the tables take.
    pa.set_memory_pool(pa.system_memory_pool())
    # results/runs/<run>/analyze/<name>.json, or results/selection/analyze/<name>.json
    run = options.out.resolve().parents[2 if options.ranks else 1].name
    about = {"stage": "analyze", "run": run}
    about |= {"name": options.name, "log": ""}
    progress_events.emit("started", **about)
    try:
        # Arrow strings suit long columns: looking up a few column names takes twice as long.
        strings = pd.option_context("mode.string_storage", "python")
        with strings, job_usage.recorded(options.usage):
            _map(options) if options.ranks else _run(options)
    except BaseException:
        progress_events.emit("failed", **about)
        raise
    progress_events.emit("finished", **about)


def _run(options: argparse.Namespace) -> None:
    analysis = analyze.analysis(options.name)
    where = f"analyses.{options.name}"
    config = checked(where, analysis.config, from_json("--settings", options.settings))
    sections = {
        name: from_json(f"--{name}", getattr(options, name)) for name in analysis.run_parameters
    }
    hashes = {str(path): readable(path, job_record.verified) for path in options.tables}
    others = (*options.results, *options.maps)
    hashes |= {str(path): readable(path, sha256) for path in others}
    document = result.Document(
        analysis=options.name,
        title=analysis.title,
        summary=analysis.summary,
        result=result_of(
            analysis, config, sections, options.tables, options.results, maps=options.maps
        ),
        provenance=provenance(
            analyze.__name__,
            registry.module_name("analysis", analyze.__name__, options.name),
            asdict(config),
            hashes,
            sections,
        ),
        attempt=options.attempt,
    )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    result.write(options.out, document)


def _map(options: argparse.Namespace) -> None:
    """Leave what the map of an analysis makes of some ranks."""
    analysis = analyze.analysis(options.name)
    if analysis.map is None or analysis.across:
        raise InputError(f"the analysis {options.name} has no map of ranks")
    where = f"analyses.{options.name}"
    config = checked(where, analysis.map_config, from_json("--settings", options.settings))
    files = {name: _files_named(name, options.tables) for name in analysis.mapped_tables}
    hashes = {str(path): readable(path, job_record.verified) for path in options.tables}
    batches = rank_batches(files, analysis.columns, options.ranks)
    made_by = provenance(
        analyze.__name__,
        analysis.map.__module__,
        asdict(config),
        hashes,
    )
    parts = (analysis.map(**rows, config=config) for _, rows in batches)
    mapped_frames.write(options.out, parts, made_by, options.attempt)


def result_of(  # noqa: PLR0913 - the arguments of the job
    analysis: Analysis,
    config: Settings,
    sections: Mapping[str, dict[str, Any]],
    tables: list[Path],
    results: list[Path],
    *,
    maps: Sequence[Path] = (),
) -> result.Result:
    """Run `analysis` on those of the given tables and results that its parameters name.

    `maps` are what other jobs have made of the tables that it maps; without, that is done here.
    `sections` are the parts of the run's configuration that it reads, by the parameter's name.
    """
    inputs = _inputs(analysis, tables, results)
    for name, section in sections.items():
        inputs[name] = _read_section(analysis, name, section, tables)
    if maps:
        inputs["mapped"] = mapped_frames.read(maps)
    elif analysis.map:
        parts = run_by_run if analysis.across else rank_batches
        files = {name: _files_named(name, tables) for name in analysis.mapped_tables}
        inputs["mapped"] = {
            part: analysis.map(**rows, config=config)
            for part, rows in parts(files, analysis.columns)
        }
    found = analysis.run(**inputs, config=config)
    if not isinstance(found, result.Result):
        raise PluginError(f"the analysis returned {type(found).__name__}, and no Result")
    return found


def _inputs(analysis: Analysis, tables: list[Path], results: list[Path]) -> dict[str, Any]:
    """Read the tables and results that the parameters of `analysis` name from the given files."""
    inputs: dict[str, Any] = {}
    read = frame_of_runs if analysis.across else frame
    for name in analysis.tables:
        if name in analysis.mapped_tables:
            continue
        read_one = large if name in analysis.large_tables else read
        inputs[name] = read_one(_files_named(name, tables), analysis.columns.get(name))
    for name in analysis.tables_by_tool:
        if name in analysis.optional and not any(path.stem == name for path in tables):
            inputs[name] = None
            continue
        found = _files_named(name, tables)
        tools = dict.fromkeys(path.parent.name for path in found)
        read_one = large if name in analysis.large_tables else read
        inputs[name] = {
            tool: read_one(
                [path for path in found if path.parent.name == tool], analysis.columns.get(name)
            )
            for tool in tools
        }
    for name, source in analysis.tables_of_tools.items():
        wanted = source.tool, source.table
        own = [path for path in tables if (path.parent.name, path.stem) == wanted]
        inputs[name] = read(own, source.columns) if own else None
    for name in analysis.results:
        found = _files_named(name, results)
        if not (by_run := _results(found, analysis.tables_of_results.get(name))):
            raise InputError(f"the analysis {name} failed, whose result this one reads")
        inputs[name] = by_run if analysis.across else next(iter(by_run.values()))
    for name in analysis.results_if_there:
        found = [path for path in results if path.stem == name]
        by_run = _results(found, analysis.tables_of_results.get(name))
        inputs[name] = by_run if analysis.across else next(iter(by_run.values()), None)
    if analysis.reads_recordings:
        inputs["recordings"] = _recordings(tables)
    return inputs


def _recordings(tables: Sequence[Path]) -> Recordings:
    """Return what the conversions behind `tables`, and the captures behind these, noted by tool."""
    # results/runs/<run>/tables/<tool>/<table>.parquet
    folders = dict.fromkeys(path.parent for path in tables)
    return {
        folder.name: Recording(
            notes=tuple(dict.fromkeys(note.get("text", "") for note in _notes(folder))),
            warnings=tuple(
                dict.fromkeys(
                    text
                    for path in sorted(_captures_behind(folder).glob("rep*/capture.json"))
                    for text in capture_warnings(path)
                )
            ),
        )
        for folder in folders
    }


def _notes(folder: Path) -> Sequence[Mapping[str, str]]:
    record = folder / job_record.CONVERSION
    return job_record.read_job(record).notes if record.is_file() else ()


def _captures_behind(folder: Path) -> Path:
    """Return the folder of the captures that the tables in `folder` were made of."""
    return folder.parent.parent / "capture" / folder.name


def _results(paths: Sequence[Path], tables: ResultTables | None) -> dict[str, result.Result]:
    """Return the results of one analysis by run, without the runs in which it failed."""
    read = partial(result.read, tables=tables)
    documents = {path.resolve().parents[1].name: readable(path, read) for path in paths}
    found = documents.items()
    return {run: document.result for run, document in found if document.status == "ok"}


def _read_section(
    analysis: Analysis, name: str, section: dict[str, Any], tables: list[Path]
) -> Any:
    """Return the parameter that section `name` of the configuration gives; by run across runs."""
    read = _SECTION_READERS[name]
    if not analysis.across:
        return read(section, tables)
    of_runs: dict[str, list[Path]] = defaultdict(list)
    for path in tables:
        of_runs[path.resolve().parents[2].name].append(path)
    return {run: read(of_run, of_runs[run]) for run, of_run in section.items()}


def _hardware(section: dict[str, Any], tables: list[Path]) -> Hardware:
    """Return the hardware of the configuration, or with ``auto`` that of the traces' devices."""
    # Where the traces decide, the plan adds a hash of the files: for staleness only.
    fields = {key: value for key, value in section.items() if key != "parts"}
    configured = checked("hardware", Hardware, fields)
    if configured.name != AUTO:
        return configured
    devices = [frame([path]) for path in tables if path.stem == "devices"]
    names = [str(name) for rows in devices for name in rows["name"].unique()]
    known = [
        hardware for folder in resources.folders("hardware") for hardware in read_hardware(folder)
    ]
    return reported_hardware(names, known)


_SECTION_READERS: dict[str, _SectionReader] = {
    "hardware": _hardware,
    "behaviour": lambda section, _: section,
}


def _files_named(name: str, paths: list[Path]) -> list[Path]:
    """Return the files called `name`, in the order of the command line."""
    found = [path for path in paths if path.stem == name]
    if not found:
        given = ", ".join(str(path) for path in paths) or "none"
        raise InputError(f"no file named {name!r} was given", hint=f"the files were: {given}")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profkit analyze", description=__doc__)
    parser.add_argument("name", help="the analysis; see `profkit list analyses`")
    parser.add_argument("--settings", default="{}", help="settings of the analysis, as JSON")
    parser.add_argument(
        "--tables",
        type=Path,
        nargs="*",
        default=[],
        help="Parquet files, as <tool>/<table>.parquet",
    )
    parser.add_argument(
        "--results", type=Path, nargs="*", default=[], help="results of analyses that it reads"
    )
    parser.add_argument(
        "--ranks",
        type=RankSpan.parsed,
        help="sum up these alone, as in 0:128, for another job to go on",
    )
    parser.add_argument(
        "--maps", type=Path, nargs="*", default=[], help="what such jobs have left, of all ranks"
    )
    parser.add_argument("--hardware", default="{}", help="peaks of the GPU, as JSON")
    parser.add_argument("--behaviour", default="{}", help="settings of the run, as JSON")
    parser.add_argument("--attempt", type=int, default=1, help="how often this was tried, from 1")
    parser.add_argument("--out", type=Path, required=True, help="the result, a JSON file")
    job_usage.add_argument(parser)
    return parser


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except ProfkitError as error:
        sys.exit(str(error))
