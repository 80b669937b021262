"""Inputs and params of the rules: the functions that they call, here so that tests can too."""

import hashlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from profkit.core import run_settings
from profkit.core.atomic_write import write_atomically
from profkit.core.capture_record import imported_files
from profkit.core.fingerprint import HISTORY_CODE, fingerprint
from profkit.core.saved_results import COMPARED, comparison_file, saved_results
from profkit.dag import snakemake_locks
from profkit.dag.attempts import (
    Attempts,
    of_analysis,
    of_conversion,
    of_manifest,
    of_report,
    of_timeline,
)
from profkit.dag.batches import Batches
from profkit.dag.capture_resources import of_capture
from profkit.dag.capture_rules import CaptureRule, capture_rules
from profkit.dag.overrides import override_list, save_selection
from profkit.dag.selected import command, described
from profkit.planning import cache
from profkit.planning.model import Plan, Run
from profkit.process import parent_watch

SELECTIONS = Path("results/.profkit/selections")
"""Folder of selections, which reports are about; files are named by their content."""

REPORT = Path("results/report.html")
"""The page; beside it lies as JSON what it was made of."""

ACROSS = "results/selection"
"""Folder of results about all runs of the selection."""

PlanFunction = Callable[[Any], Any]
"""Input and params functions get Snakemake's wildcards, with ``run`` among them."""


def load(overrides: object, plan: object = None, *, is_working: bool = True) -> "Dag":
    """Return the DAG of what `overrides` select: one string as on a command line, or a list.

    A job on another host has the name of a kept `plan` instead.
    Who is working, which a dry run and a job on a cluster are not, records that and the selection.
    """
    kept = cache.of_job(str(plan)) if plan else cache.load(override_list(overrides))
    dag = Dag(plan=kept)
    if is_working:
        snakemake_locks.register()
        os.environ.setdefault(parent_watch.INVOCATION, uuid.uuid4().hex)
        save_selection(dag.plan.overrides, [run.name for run in dag.plan.runs])
    return dag


def as_json(values: object) -> str:
    """Return `values` as one line of JSON, the same for the same content."""
    return json.dumps(values, sort_keys=True)


@dataclass(frozen=True)
class Dag:
    """The questions that rules ask of a plan."""

    plan: Plan

    @property
    def captured_tools(self) -> list[str]:
        """Return the tools that capture; none when the runs were imported."""
        return [] if self.plan.is_imported else list(self.plan.tools)

    @cached_property
    def batches(self) -> Batches:
        """Return what divides the jobs of runs with many ranks."""
        return Batches(self.plan)

    @cached_property
    def comparisons(self) -> dict[str, list[Run]]:
        """Return the runs that each analysis across runs works on."""
        names = dict.fromkeys(name for run in self.plan.runs for name in run.comparisons)
        return {name: [run for run in self.plan.runs if name in run.comparisons] for name in names}

    @property
    def run_settings(self) -> str:
        """Return the settings of the whole run, as each job takes them.

        Rules have them as a resource: another value of a param would make all results stale.
        """
        return run_settings.as_argument(self.plan.run_settings)

    def run(self, wildcards: Any) -> Run:
        """Return the run that a job belongs to."""
        return self.plan.run(wildcards.run)

    @property
    def capture_rules(self) -> list[CaptureRule]:
        """Return the rules of all captures, in the order in which they are captured."""
        return list(capture_rules(self.plan, self.captured_tools))

    def capture_threads(self, tool: str, cores: int | None) -> int:
        """Return all cores, so that nothing runs beside a capture, unless that is configured.

        Captures in pairs are alone: what ran beside one of them would make it another pair.
        """
        return cores or 1 if self._is_alone(tool) else 1

    def _is_alone(self, tool: str) -> bool:
        settings = self.plan.run_settings
        return settings.exclusive or self.plan.tools[tool].is_alone or bool(self.plan.pairing)

    def capture_resource(self, tool: str, name: str) -> PlanFunction:
        """Return the resource function of what a capture with `tool` asks of a cluster."""
        return lambda wildcards: of_capture(
            self.run(wildcards), self.plan.run_settings, is_alone=self._is_alone(tool)
        )[name]

    def tool_settings(self, tool: str) -> PlanFunction:
        """Return the params function for the settings of `tool`."""
        return lambda wildcards: as_json(self.run(wildcards).tools[tool])

    def workload(self, wildcards: Any) -> str:
        """Return the run's behaviour, the part of the configuration that a capture gets."""
        return as_json(self.run(wildcards).behaviour)

    def reads(self, tool: str) -> PlanFunction:
        """Return the input function for the results that `tool` chooses by."""
        return lambda wildcards: [
            f"results/runs/{wildcards.run}/analyze/{name}.json"
            for name in self.run(wildcards).reads.get(tool, ())
        ]

    def attempt(self, tool: str, repeat: int) -> PlanFunction:
        """Return the params function that makes Snakemake capture again."""
        return lambda wildcards: self.attempts.number(
            self.capture(wildcards.run, tool, repeat),
            tool,
            beside=self.beside(wildcards.run, tool, repeat),
        )

    def capture(self, run: str, tool: str, repeat: int) -> Path:
        """Return the capture.json of one repeat."""
        return Path(self.captures(tool)[repeat].format(run=run))

    def beside(self, run: str, tool: str, repeat: int) -> Path | None:
        """Return the other capture of a pair; None for what is not captured in pairs."""
        pairing = self.plan.pairing
        return self.capture(pairing.other(run), tool, repeat) if pairing else None

    @cached_property
    def attempts(self) -> Attempts:
        """Return what counts the attempts of captures."""
        return Attempts(keeps_old_code=self.plan.run_settings.capture == "keep")

    def changed_sources(self) -> str:
        """Return what has happened, in words, to the files that good captures ran."""
        captures = (path for run in self.plan.runs for path in self.captures_of(run))
        changes = (change for path in captures for change in self.attempts.changes_since(path))
        return "; ".join(dict.fromkeys(changes))

    def notes(self) -> tuple[str, ...]:
        """Return what readers of the report should know of the plan."""
        changes = self.changed_sources() if self.attempts.keeps_old_code else ""
        kept = f"captures are of older code: {changes}; capture=renew captures again"
        return (*self.plan.notes, *([kept] if changes else ()))

    def captures(self, tool: str) -> list[str]:
        """Return the pattern of the capture.json of each repeat of `tool`."""
        return [
            f"results/runs/{{run}}/capture/{tool}/rep{repeat}/capture.json"
            for repeat in range(self.plan.tools[tool].repeats)
        ]

    def imported_files(self, tool: str) -> PlanFunction:
        """Return the input function for what was imported: links to files that may be edited."""
        captures = self.captures(tool) if self.plan.is_imported else []
        return lambda wildcards: [
            str(file)
            for capture in captures
            for file in imported_files(Path(capture.format(run=wildcards.run)))
        ]

    def timeline_tables(self, tool: str) -> list[str]:
        """Return the patterns of the tables that the timeline of `tool` is drawn from."""
        names = self.plan.tools[tool].timeline_tables
        return [f"results/runs/{{run}}/tables/{tool}/{name}.parquet" for name in names]

    def all_captures(self, wildcards: Any) -> list[str]:
        """Return the capture.json of every tool and repeat of a run."""
        return [str(path) for path in self.captures_of(self.run(wildcards))]

    def captures_of(self, run: Run) -> list[Path]:
        """Return the capture.json of every tool and repeat of `run`."""
        patterns = [pattern for tool in run.tools for pattern in self.captures(tool)]
        return [Path(pattern.format(run=run.name)) for pattern in patterns]

    def converted(self, run: str, tool: str) -> list[Path]:
        """Return what a conversion leaves beside its record."""
        folder = Path(f"results/runs/{run}")
        tables = (folder / f"tables/{tool}/{name}.parquet" for name in self.plan.tools[tool].tables)
        return [*tables, folder / f"convert/{tool}"]

    def conversion_attempt(self, tool: str) -> PlanFunction:
        """Return the params function that makes a conversion stale that has to be made again."""
        record = f"results/runs/{{run}}/tables/{tool}/convert.json"
        return lambda wildcards: of_conversion(
            Path(record.format(run=wildcards.run)), self.converted(wildcards.run, tool)
        )

    def timeline_attempt(self, tool: str) -> PlanFunction:
        """Return the params function that makes a timeline stale that has to be drawn again."""
        record = f"results/runs/{{run}}/timeline/{tool}.json"
        return lambda wildcards: of_timeline(Path(record.format(run=wildcards.run)))

    def analysis_attempt(self, analysis: str) -> PlanFunction:
        """Return the params function that makes a result stale that has to be made again."""
        path = f"{self.folder(analysis)}/analyze/{analysis}.json"
        return lambda wildcards: of_analysis(Path(path.format(run=getattr(wildcards, "run", ""))))

    def manifest_attempt(self, wildcards: Any) -> int:
        """Return which attempt the manifest of a run is, or has to be."""
        return of_manifest(Path(f"results/runs/{wildcards.run}/manifest.json"))

    def report_attempt(self) -> int:
        """Return the number that makes the report stale if any file behind it is gone."""
        pairs = ((run.name, tool) for run in self.plan.runs for tool in run.tools)
        behind = (path for run, tool in pairs for path in self.converted(run, tool))
        return of_report(REPORT, [*map(Path, self.report_inputs()), *behind])

    def about(self, wildcards: Any) -> str:
        """Return the facts of the manifest that its captures do not have."""
        run = self.run(wildcards)
        about = {
            "run": run.name,
            "command": command(run.overrides),
            "overrides": run.overrides,
            "behaviour": run.behaviour,
            "unread": list(run.unread),
            "hardware": run.hardware,
            "tools": run.tools,
        }
        return as_json(about)

    def folder(self, analysis: str) -> str:
        """Return the pattern of the folder that the result of `analysis` lies in."""
        return ACROSS if analysis in self.comparisons else "results/runs/{run}"

    def analysed(self, analysis: str, wildcards: Any) -> list[Run]:
        """Return the runs that one job of `analysis` works on."""
        return self.comparisons.get(analysis) or [self.run(wildcards)]

    def tables(self, analysis: str) -> PlanFunction:
        """Return the input function for the tables that `analysis` reads."""
        return lambda wildcards: [
            path
            for run in self.analysed(analysis, wildcards)
            for path in self.plan.tables(run, analysis)
        ]

    def results(self, analysis: str) -> PlanFunction:
        """Return the input function for the other results that `analysis` reads."""
        needs = self.plan.analyses[analysis].results
        return lambda wildcards: [
            f"results/runs/{run.name}/analyze/{name}.json"
            for run in self.analysed(analysis, wildcards)
            for name in needs
            if name in run.analyses
        ]

    def analysis_settings(self, analysis: str) -> PlanFunction:
        """Return the params function for the settings of `analysis`."""
        return lambda wildcards: as_json(self.settings(analysis, wildcards))

    def settings(self, analysis: str, wildcards: Any) -> dict[str, Any]:
        """Return the settings of one job of `analysis`."""
        run = self.analysed(analysis, wildcards)[0]
        return (run.analyses | run.comparisons)[analysis]

    def run_flags(self, analysis: str) -> PlanFunction:
        """Return the params function for the flags with the values of the run."""
        return lambda wildcards: [
            word
            for name, value in self.run_values(analysis, wildcards).items()
            for word in (f"--{name}", as_json(value))
        ]

    def run_values(self, analysis: str, wildcards: Any) -> dict[str, Any]:
        """Return the values of the run that a job of `analysis` reads; across runs, by run."""
        runs = self.analysed(analysis, wildcards)
        by_run = {run.name: self.plan.run_values(run, analysis) for run in runs}
        if analysis not in self.comparisons:
            return by_run[runs[0].name]
        names = self.plan.analyses[analysis].run_parameters
        return {name: {run: values[name] for run, values in by_run.items()} for name in names}

    def results_across(self) -> list[str]:
        """Return the names of the results about all runs: where some are saved, with history."""
        return [*self.comparisons, *(["history"] if self.history_inputs() else [])]

    def history_inputs(self) -> list[str]:
        """Return what the history of the runs is made of; nothing if no result is saved."""
        saved = [str(path) for path in saved_results()]
        results = [
            f"results/runs/{run.name}/analyze/{name}.json"
            for run in self.plan.runs
            if "steps" in run.analyses
            for name in COMPARED
            if name in run.analyses
        ]
        return [*results, *saved] if results and saved else []

    def history_code(self) -> str:
        """Return the fingerprint of the code behind the history."""
        return fingerprint(*HISTORY_CODE)

    def history_attempt(self) -> int:
        """Return which attempt the history is, or has to be."""
        return of_analysis(Path(f"{ACROSS}/analyze/history.json"))

    def selection(self, *, write: bool = True) -> str:
        """Return the path of the selection, a file named by its content; `write` it if need be."""
        across = {"run": "all runs", "folder": ACROSS, "analyses": self.results_across()}
        notes = (*self.notes(), *self.plan.left_out)
        made = described(self.plan, notes, across, "".join(self.kept_comparison()))
        content = msgspec.json.format(msgspec.json.encode(made), indent=1)
        path = SELECTIONS / f"{digest(content)}.json"
        if write and not (path.is_file() and path.read_bytes() == content):
            write_atomically(path, content)
        return str(path)

    def kept_comparison(self) -> list[str]:
        """Return the file of what came of a comparison, once there is one."""
        pairing = self.plan.pairing
        kept = [] if pairing is None else [comparison_file(pairing.name)]
        return [str(path) for path in kept if path.is_file()]

    def report_inputs(self) -> list[str]:
        """Return every file that the report shows."""
        of_runs = [path for run in self.plan.runs for path in self.run_files(run)]
        across = (f"{ACROSS}/analyze/{name}.json" for name in self.results_across())
        return [*of_runs, *across, *self.kept_comparison()]

    def run_files(self, run: Run) -> list[str]:
        """Return the files of one run that the report shows."""
        folder = f"results/runs/{run.name}"
        return [
            f"{folder}/manifest.json",
            *([] if self.plan.is_imported else [f"{folder}/config.yaml"]),
            *map(str, self.captures_of(run)),
            *(f"{folder}/tables/{tool}/convert.json" for tool in run.tools),
            *(f"{folder}/analyze/{name}.json" for name in run.analyses),
            *(
                f"{folder}/timeline/{tool}{suffix}"
                for tool in run.tools
                if self.plan.tools[tool].timeline_code
                for suffix in (".json", ".trace.json.gz")
            ),
        ]


def folders(wildcards: Any, input: Any) -> list[str]:  # noqa: A002 - Snakemake's name
    """Return the folder of each capture that a conversion reads."""
    del wildcards
    return [os.path.dirname(path) for path in input.captures]  # noqa: PTH120 - text in, text out


def result_flags(wildcards: Any, input: Any) -> list[str]:  # noqa: A002 - Snakemake's name
    """Return the flags that hand other analyses' results to one, and sums of batches of ranks."""
    del wildcards
    results = ["--results", *input.results] if input.results else []
    return [*results, *(["--maps", *input.maps] if input.maps else [])]


def read_flags(wildcards: Any, input: Any) -> list[str]:  # noqa: A002 - Snakemake's name
    """Return the flag that hands other tools' results to a capture, if it reads any."""
    del wildcards
    return ["--reads", *input.reads] if input.reads else []


def digest(content: bytes) -> str:
    """Return a short name for `content`."""
    return hashlib.sha256(content).hexdigest()[:16]
