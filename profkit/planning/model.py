"""The plan: what was asked for, typed and frozen; it exists while Snakemake parses."""

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from profkit.core.run_settings import RunSettings

_AUTO = "auto"
"""Name of the hardware that is looked up by the name of the GPU in the traces."""

_DEVICES = "devices"
"""Table of the GPUs that a trace names."""

_COMMAND, _MODEL = "workload.command", "model.name"
"""What takes values from other keys, which tell runs apart in fewer words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One configuration of the selection, and what is captured of it."""

    name: str
    """Folder under ``results/runs``: a readable slug and 8 hex digits of `behaviour`."""

    behaviour: dict[str, Any]
    """What changes how the workload behaves: its identity."""

    unread: tuple[str, ...] = ()
    """Keys of `behaviour` that its program never gets, so that no label shows them."""

    hardware: dict[str, Any]
    """Peaks that measured numbers are compared with."""

    tools: dict[str, dict[str, Any]]
    """Settings of each tool."""

    analyses: dict[str, dict[str, Any]]
    """Settings of each analysis."""

    overrides: tuple[str, ...]
    """Overrides that make this run alone."""

    comparisons: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings of each analysis across runs that this run is part of; the same in all runs."""

    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Analyses whose results a tool chooses by before it captures, of the tools that do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolPlan:
    """The parts of a tool that the workflow depends on."""

    tables: tuple[str, ...]
    """Tables that converting leaves."""

    code: str
    """Fingerprint of the converter."""

    repeats: int
    """How often it captures the same run."""

    has_converter: bool = True
    """Whether it has raw files to convert, besides what the harness recorded."""

    is_alone: bool = False
    """Whether nothing may run beside its captures, whatever ``exclusive`` says."""

    records_all_ranks: bool = True
    """Whether it leaves no rank out."""

    timeline_code: str = ""
    """Fingerprint of the code that draws a timeline of its tables; empty if they give none."""

    timeline_tables: tuple[str, ...] = ()
    """Tables that its timeline is drawn from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnalysisPlan:
    """The parts of an analysis that the workflow depends on."""

    tables: tuple[str, ...]
    tables_by_tool: tuple[str, ...]
    results: tuple[str, ...]
    code: str
    tables_of_tools: tuple[tuple[str, str], ...] = ()
    """Tool and table of those that it reads from one tool, if that is enabled."""

    run_parameters: tuple[str, ...] = ()
    """What it reads of the run's configuration: hardware, behaviour, both or nothing."""

    compares_ranks: bool = False
    """Whether it prefers the tables of a tool that recorded all ranks."""

    map_code: str = ""
    """Fingerprint of what sums up a batch of ranks in a job of its own; empty if nothing does."""

    map_module: str = ""
    """Module of that."""

    map_settings: tuple[str, ...] = ()
    """Settings of the analysis that it reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairing:
    """Two runs whose repeats are captured in pairs: one right after the other."""

    a: str
    """Name of the run that is compared with."""

    b: str
    """Name of the run that is compared."""

    coin: int
    """Seed of the coin that says which run of a pair is captured first."""

    @property
    def name(self) -> str:
        """Name of the comparison, which no run has."""
        (a, *_), (b, _, digits) = (run.rsplit("-", 2) for run in (self.a, self.b))
        return f"{a}-vs-{b}-{digits[1:]}"

    def order(self, repeat: int) -> tuple[str, str]:
        """Return the names of both runs in the order in which the pair `repeat` is captured."""
        # No secret: the same seed has to give the same order again.
        coin = random.Random(f"{self.coin} {self.a} {self.b} {repeat}")  # noqa: S311
        return (self.a, self.b) if coin.random() < 1 / 2 else (self.b, self.a)

    def other(self, run: str) -> str:
        """Return the name of the run that `run` is captured in pairs with."""
        return self.b if run == self.a else self.a


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A selection of runs, and what is made of them."""

    overrides: tuple[str, ...]
    runs: tuple[Run, ...]
    run_settings: RunSettings
    """What is the same for all runs, and is handed to each job whole."""

    tools: dict[str, ToolPlan]
    analyses: dict[str, AnalysisPlan]
    report: dict[str, Any]
    report_code: str
    notes: tuple[str, ...] = ()

    left_out: tuple[str, ...] = ()
    """Notes on analyses of all those that there are which the tools chosen give no tables for."""

    hardware_hash: str = ""
    """Hash of the files that ``hardware=auto`` chooses from."""

    variables: tuple[str, ...] = ()
    """Environment variables that the configuration reads: another value is another plan."""

    pairing: Pairing | None = None
    """How the two runs are captured in pairs; None for a selection of runs as such."""

    files: tuple[str, ...] = ()
    """Files without which there is nothing to plan: scripts, and manifests of imported runs."""

    @property
    def is_imported(self) -> bool:
        """Whether the runs were imported, so that nothing captures them."""
        return bool(self.run_settings.imports)

    def run(self, name: str) -> Run:
        """Return the run `name`."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Run]:
        return {run.name: run for run in self.runs}

    def waiting_for(self, analysis: str) -> int:
        """Return how many analyses wait for `analysis`, one after the other."""
        of = (name for name, needs in self.analyses.items() if analysis in needs.results)
        return max((1 + self.waiting_for(name) for name in of), default=0)

    def tools_making(self, run: Run, table: str) -> list[str]:
        """Return the tools of `run` that make `table`."""
        return [name for name in run.tools if table in self.tools[name].tables]

    @staticmethod
    def leaves_hardware_to_traces(run: Run) -> bool:
        """Say whether the hardware of `run` is looked up by the GPU that its traces name."""
        return run.hardware.get("name") == _AUTO

    def run_values(self, run: Run, analysis: str) -> dict[str, dict[str, Any]]:
        """Return what `analysis` reads of the configuration of `run`, by parameter."""
        hardware = run.hardware
        if self.leaves_hardware_to_traces(run):
            # The files are read by the job: their hash makes it stale when one changes.
            hardware = {**hardware, "parts": self.hardware_hash}
        values = {"hardware": hardware, "behaviour": read_settings(run)}
        return {name: values[name] for name in self.analyses[analysis].run_parameters}

    def tables(self, run: Run, analysis: str) -> list[str]:
        """Return the Parquet files that `analysis` reads of `run`."""
        needs = self.analyses[analysis]
        tools = list(run.tools)
        if needs.compares_ranks:
            tools.sort(key=lambda name: not self.tools[name].records_all_ranks)
        by_tool = {name: self.tools[name].tables for name in tools}
        pairs = [(tool_with_tables(by_tool, needs.tables), table) for table in needs.tables]
        pairs += [
            (tool, table)
            for table in needs.tables_by_tool
            for tool in self.tools_making(run, table)
        ]
        pairs += [(tool, table) for tool, table in needs.tables_of_tools if tool in run.tools]
        if "hardware" in needs.run_parameters and self.leaves_hardware_to_traces(run):
            pairs += [(tool, _DEVICES) for tool in self.tools_making(run, _DEVICES)]
        return [
            f"results/runs/{run.name}/tables/{tool}/{table}.parquet"
            for tool, table in dict.fromkeys(pairs)
        ]


def tool_with_tables(by_tool: Mapping[str, Sequence[str]], tables: Sequence[str]) -> str:
    """Return the first tool that makes all of `tables`, or "".

    They come from one tool, because each has a clock of its own.
    """
    return next((name for name, own in by_tool.items() if set(tables) <= set(own)), "")


def differing(runs: Sequence[Run]) -> dict[str, dict[str, Any]]:
    """Return for each run the keys of its behaviour that are not the same in all of them."""
    flat = {run.name: _scalars(read_settings(run)) for run in runs}
    keys = dict.fromkeys(itertools.chain.from_iterable(flat.values()))
    varying = [key for key in keys if len({str(one.get(key)) for one in flat.values()}) > 1]
    shown = [key for key in varying if not _follows(key, list(flat.values()))]
    others = [key for key in shown if key != _COMMAND]
    if others and _is_known(_COMMAND, others, list(flat.values())):
        shown = others
    words = {key: key.removesuffix(".name") for key in shown}
    if _MODEL in words and all("imported" in behaviour for behaviour in flat.values()):
        words[_MODEL] = "recording"  # has the name that it was imported by
    return {
        name: {word: behaviour.get(key) for key, word in words.items()}
        for name, behaviour in flat.items()
    }


def read_settings(run: Run) -> dict[str, Any]:
    """Return what the program of a run gets of its behaviour."""
    return {key: value for key, value in run.behaviour.items() if key not in run.unread}


def _follows(key: str, behaviours: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether the field `key` of a group is known once the name of the group's choice is."""
    name = f"{key.partition('.')[0]}.name"
    if key == name or name not in behaviours[0]:
        return False
    return _is_known(key, [name], behaviours)


def _is_known(key: str, others: Sequence[str], behaviours: Sequence[Mapping[str, Any]]) -> bool:
    """Say whether the value of `key` is known once those of `others` are."""
    choices = [tuple(str(behaviour.get(other)) for other in others) for behaviour in behaviours]
    values = [str(behaviour.get(key)) for behaviour in behaviours]
    return len({*zip(choices, values, strict=True)}) == len({*choices})


def _scalars(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _scalars(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
