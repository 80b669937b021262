"""Compare how results were made with how they would be made now: the reasons why one is stale."""

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from profkit.core import registry
from profkit.core.capture_record import read_capture, was_cut_short
from profkit.core.checksums import sha256
from profkit.core.errors import InputError
from profkit.core.fingerprint import HISTORY_CODE, TIMELINE_CODE, closure
from profkit.core.job_record import JobRecord, damaged_outputs, read_analysis, read_job
from profkit.core.run_manifest import read_manifest
from profkit.core.settings import nearest
from profkit.dag import snakemake_records
from profkit.dag.inputs import ACROSS, REPORT, Dag
from profkit.planning.model import Run


def check_path(path: Path) -> None:
    """Raise `InputError` if `path` can be no result of any plan."""
    if len(path.parts) > 1 and not (_is_report(path) or _is_across(path) or _is_of_run(path)):
        raise _no_result(path)


@dataclass(frozen=True)
class Staleness:
    """Gives the reasons why a file of a plan would be made again; without any it is fresh."""

    dag: Dag

    def why(self, path: Path) -> list[str]:
        """Return the reasons for which `path` is stale; raises `InputError` if it is no result."""
        parts = path.parts
        if _is_report(path):
            return self.report()
        if _is_across(path):
            if path.stem in self.dag.results_across():
                return self.comparison(path.stem)
            raise InputError(f"{path}: nothing that this selection makes")
        names = [run.name for run in self.dag.plan.runs]
        if len(parts) == 1:
            begun = [name for name in names if name.startswith(path.name)]
            is_other = Path("results/runs", path).is_dir()
            parts = ("runs", *begun) if len(begun) == 1 else ("runs", *parts) if is_other else parts
        if "runs" not in parts[:-1]:
            raise _no_result(path)
        name, *below = parts[parts.index("runs") + 1 :]
        if name not in names:
            config = Path(f"results/runs/{name}/config.yaml")
            hint = nearest(name, names)
            if config.is_file():
                hint = f"add the overrides that select it; {config} begins with them"
            raise InputError(f"{path}: the run {name} is not in the selection", hint=hint)
        run = self.dag.plan.run(name)
        return self._of_part(run, *below, path=path) if below else self.of_run(run)

    def of_run(self, run: Run) -> list[str]:
        """Say why anything of `run` would be made again."""
        return list(dict.fromkeys(itertools.chain.from_iterable(self.stale_jobs(run).values())))

    def _of_part(self, run: Run, stage: str, *rest: str, path: Path) -> list[str]:
        if stage == "analyze" and rest and (name := Path(rest[0]).stem) in run.analyses:
            return self.analysis(run, name)
        if stage == "timeline" and rest and (tool := rest[0].partition(".")[0]) in run.tools:
            return self.timeline(run, tool)
        if stage == "maps" and rest and rest[0] in run.analyses:
            return self._of_map(run, *rest)
        if stage in ("tables", "convert") and rest and rest[0] in run.tools:
            return self.tables(run, rest[0])
        if stage == "capture" and rest and rest[0] in run.tools:
            found = self._of_captures(run, *rest)
            if found or path.exists():
                return found
        if stage in ("manifest.json", "config.yaml"):
            return self.manifest(run)
        raise InputError(f"{path}: nothing that this selection makes")

    def _of_map(self, run: Run, analysis: str, *rest: str) -> list[str]:
        """Say why sums of batches of ranks would be made again, of all or of one."""
        paths = map(Path, self.dag.batches.maps_of(run, analysis))
        wanted = (path for path in paths if path.name in (rest or [path.name]))
        return [reason for path in wanted for reason in self.map(run, analysis, path)]

    def _of_captures(self, run: Run, tool: str, *rest: str) -> list[str]:
        """Say why captures of `tool` would be made again, of all repeats or of one."""
        names = [f"rep{repeat}" for repeat in range(self.dag.plan.tools[tool].repeats)]
        wanted = [name for name in names if name in (rest[:1] or names)]
        reasons = [self.capture(run, tool, names.index(name)) for name in wanted]
        return [*itertools.chain.from_iterable(reasons)]

    def manifest(self, run: Run) -> list[str]:
        """Say why the manifest would be made again."""
        path = Path(f"results/runs/{run.name}/manifest.json")
        if self.dag.plan.is_imported:
            return []
        if missing := [
            file for file in (path, path.with_name("config.yaml")) if not file.is_file()
        ]:
            return [f"{file}: was never made" for file in missing]
        made = read_manifest(path)
        if made is None:
            return [f"{path}: is damaged"]
        wildcards = Wildcards(run.name)
        about = json.loads(self.dag.about(wildcards))
        about["attempt"] = self.dag.manifest_attempt(wildcards)
        reasons = _differences("run", {key: made.facts.get(key) for key in about}, about)
        recorded = {(row.tool, row.repeat): row.started for row in made.captures}
        for capture in self.dag.captures_of(run):
            key = (capture.parts[-3], int(capture.parts[-2].removeprefix("rep")))
            is_new = capture.is_file() and read_capture(capture).get("started") != recorded.get(key)
            if is_new or key not in recorded:
                reasons.append(f"{path}: input {capture} changed")
        return reasons

    def capture(self, run: Run, tool: str, repeat: int) -> list[str]:
        """Say why a capture would be made again."""
        path = self.dag.capture(run.name, tool, repeat)
        if not path.is_file():
            return [f"{path}: was never captured"]
        record = read_capture(path)
        reasons = _differences(f"tools.{tool}", record["settings"], run.tools[tool])
        reasons += _differences("run", record["workload"], run.behaviour)
        if self.dag.attempt(tool, repeat)(Wildcards(run.name)) != record["attempt"]:
            failure = f"failed ({record['status']}: {record['reason']})"
            changes = self.dag.attempts.changes(record)
            whats = changes if record["status"] == "ok" else [failure]
            whats += ["its program was interrupted"] if was_cut_short(record) else []
            if beside := self.dag.beside(run.name, tool, repeat) if not whats else None:
                whats = [f"is captured together with {beside}"]
            reasons += [f"{path}: {what}" for what in whats]
        return reasons

    def tables(self, run: Run, tool: str) -> list[str]:
        """Say why the conversion of `tool` would be made again."""
        repeats = range(self.dag.plan.tools[tool].repeats)
        upstream = [reason for repeat in repeats for reason in self.capture(run, tool, repeat)]
        record = Path(f"results/runs/{run.name}/tables/{tool}/convert.json")
        if not record.is_file():
            return [*upstream, f"{record}: was never made"]
        made = read_job(record)
        damaged = damaged_outputs(record, made)
        files = [file for file in self.dag.converted(run.name, tool) if file not in damaged]
        upstream += [f"{table}: {found}" for table, found in damaged.items()]
        upstream += [f"{file}: is gone" for file in files if not file.exists()]
        code = ("profkit.convert", registry.converter_module(tool))
        inputs = [pattern.format(run=run.name) for pattern in self.dag.captures(tool)]
        inputs += self.dag.imported_files(tool)(Wildcards(run.name))
        inputs += self.dag.batches.parts_of(run, tool)
        return [*upstream, *_changes(record, made, code, inputs)]

    def timeline(self, run: Run, tool: str) -> list[str]:
        """Say why the timeline of `tool` would be drawn again; it may have none."""
        if not self.dag.plan.tools[tool].timeline_code:
            return []
        record = Path(f"results/runs/{run.name}/timeline/{tool}.json")
        trace = record.with_suffix(".trace.json.gz")
        upstream = self.tables(run, tool)
        if missing := [file for file in (record, trace) if not file.is_file()]:
            return [*upstream, *(f"{file}: was never made" for file in missing)]
        made = read_job(record)
        upstream += [f"{file}: {found}" for file, found in damaged_outputs(record, made).items()]
        inputs = [self.dag.captures(tool)[0], *self.dag.timeline_tables(tool)]
        wanted = [pattern.format(run=run.name) for pattern in inputs]
        return [*upstream, *_changes(record, made, TIMELINE_CODE, wanted)]

    def analysis(self, run: Run, name: str) -> list[str]:
        """Say why an analysis of one run would be made again."""
        return self._result(name, Wildcards(run.name))

    def map(self, run: Run, name: str, path: Path) -> list[str]:
        """Say why the sums at `path`, of a batch of ranks, would be made again for an analysis."""
        if not path.is_file():
            return [f"{path}: was never made"]
        made = read_job(path)
        if made.has_failed:
            return [f"{path}: {made.status}: {made.reason}"]
        wanted = self.dag.batches.settings(run, name)
        reasons = _differences(f"analyses.{name}", made.provenance.settings, wanted)
        code = ("profkit.analyze", self.dag.plan.analyses[name].map_module)
        tables = self.dag.plan.tables(run, name)
        return [*reasons, *_changes(path, made, code, tables)]

    def comparison(self, name: str) -> list[str]:
        """Say why an analysis across runs would be made again."""
        return self._history() if name == "history" else self._result(name, Wildcards(""))

    def _history(self) -> list[str]:
        path = Path(f"{ACROSS}/analyze/history.json")
        if not path.is_file():
            return [f"{path}: was never made"]
        return _changes(path, read_analysis(path), HISTORY_CODE, self.dag.history_inputs())

    def _result(self, name: str, wildcards: "Wildcards") -> list[str]:
        path = Path(self.dag.folder(name).format(run=wildcards.run)) / "analyze" / f"{name}.json"
        tables = self.dag.tables(name)(wildcards)
        others = self.dag.plan.analyses[name].results
        runs = self.dag.analysed(name, wildcards)
        upstream = [
            reason
            for run in runs
            for tool in dict.fromkeys(map(_tool_of, self.dag.plan.tables(run, name)))
            for reason in self.tables(run, tool)
        ]
        upstream += [
            reason
            for run in runs
            for other in others
            if other in run.analyses
            for reason in self.analysis(run, other)
        ]
        maps = self.dag.batches.maps(name)(wildcards)
        upstream += [reason for path in maps for reason in self.map(runs[0], name, Path(path))]
        upstream = list(dict.fromkeys(upstream))
        if not path.is_file():
            return [*upstream, f"{path}: was never made"]
        made = read_analysis(path)
        if made.has_failed:
            return [*upstream, f"{path}: {made.status}: {made.reason}"]
        code = ("profkit.analyze", registry.module_names("profkit.analyze")[name])
        inputs = [*tables, *self.dag.results(name)(wildcards), *maps]
        settings = self.dag.settings(name, wildcards)
        reasons = _differences(f"analyses.{name}", made.provenance.settings, settings)
        for key, value in self.dag.run_values(name, wildcards).items():
            reasons += _differences(key, made.provenance.run_parameters.get(key), value)
        return [*upstream, *reasons, *_changes(path, made, code, inputs)]

    def report(self) -> list[str]:
        """Say why the report would be made again."""
        reasons = [reason for run in self.dag.plan.runs for reason in self.of_run(run)]
        for name in self.dag.results_across():
            reasons += self.comparison(name)
        path = REPORT.with_suffix(".json")
        if missing := [file for file in (REPORT, path) if not file.is_file()]:
            return [*dict.fromkeys(reasons), *(f"{file}: was never made" for file in missing)]
        made = read_job(path)
        if made.has_failed:
            return [*dict.fromkeys(reasons), f"{path}: {made.status}: {made.reason}"]
        inputs = [self.dag.selection(write=False), *self.dag.report_inputs()]
        reasons += _differences("report", made.provenance.settings, self.dag.plan.report)
        code = ("profkit.report", "profkit.report.__main__")
        reasons += _changes(path, made, code, inputs, output=REPORT)
        return list(dict.fromkeys(reasons))

    def forgotten(self) -> list[str]:
        """Return the stale files that Snakemake takes for fresh, as it has lost their params."""
        # No job makes the file of a comparison.
        kept = self.dag.kept_comparison()
        made = (file for file in self.dag.report_inputs() if file not in kept)
        files = [*map(Path, made), REPORT]
        lost = (file for file in files if file.is_file() and not snakemake_records.has(file))
        return [str(file) for file in lost if self.why(file)]

    def stale_jobs(self, run: Run) -> dict[str, list[str]]:
        """Return the reasons for each job of `run` that is stale, but for the report."""
        found = {
            f"capture {tool} rep{repeat}": self.capture(run, tool, repeat)
            for tool in run.tools
            for repeat in range(self.dag.plan.tools[tool].repeats)
        }
        found["manifest"] = self.manifest(run)
        found |= {f"convert {tool}": self.tables(run, tool) for tool in run.tools}
        found |= {f"timeline {tool}": self.timeline(run, tool) for tool in run.tools}
        found |= {f"analyze {name}": self.analysis(run, name) for name in run.analyses}
        return {job: reasons for job, reasons in found.items() if reasons}


@dataclass(frozen=True)
class Wildcards:
    """Stands in for Snakemake's object of this name."""

    run: str
    """Name of the run."""


_closure = cache(closure)


def _tool_of(table: str) -> str:
    return Path(table).parent.name


def _changes(
    path: Path,
    record: JobRecord,
    code: tuple[str, str],
    inputs: Iterable[str],
    *,
    output: Path | None = None,
) -> list[str]:
    """Return what failed, or has changed in the code, the packages and the inputs since.

    `output` is what Snakemake has a record of, if that is not the `record` at `path` itself.
    """
    if record.has_failed:
        return [f"{path}: {record.status}: {record.reason}"]
    made = record.provenance
    modules, packages = _closure(*code)
    changed = _changed(made.modules, modules)
    # Assets stand among the modules by their path.
    reasons = [f"{'asset' if '/' in name else 'module'} {name}" for name in changed]
    reasons += [
        f"package {name} {made.packages.get(name, 'absent')} -> {packages.get(name, 'absent')}"
        for name in _changed(made.packages, packages)
    ]
    wanted = list(inputs)
    reasons += [f"input {name} was added" for name in wanted if name not in made.inputs]
    reasons += [f"input {name} was removed" for name in made.inputs if name not in wanted]
    age = path.stat().st_mtime_ns
    for name in wanted:
        file = Path(name)
        # Hashing gigabytes is for files that may have changed.
        is_newer = file.is_file() and file.stat().st_mtime_ns > age
        if name in made.inputs and is_newer:
            if sha256(file) != made.inputs[name]:
                reasons.append(f"input {name} changed")
            elif not snakemake_records.has(output or path):
                reasons.append(f"input {name} is newer, and Snakemake has lost its checksum")
    return [f"{path}: {reason}" for reason in reasons]


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]


def _differences(where: str, before: Any, now: Any) -> list[str]:
    """Return each setting that differs, by its path."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        keys = dict.fromkeys([*before, *now])
        return [
            reason
            for key in keys
            for reason in _differences(f"{where}.{key}", before.get(key), now.get(key))
        ]
    return [] if before == now else [f"setting {where}: {before!r} -> {now!r}"]


def _is_report(path: Path) -> bool:
    return path.name.startswith("report.")


def _is_across(path: Path) -> bool:
    return path.parts[-4:-1] == (*Path(ACROSS).parts, "analyze")


def _is_of_run(path: Path) -> bool:
    return "runs" in path.parts[:-1]


def _no_result(path: Path) -> InputError:
    return InputError(
        f"{path}: not a result of profkit",
        hint="name results/report.html, a run, or a file below results/runs/<run>/",
    )
