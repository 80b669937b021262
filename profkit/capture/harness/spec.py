"""What a capture is asked to do, and how that reaches the ranks that it starts."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from profkit.capture import tool as tool_named
from profkit.capture.base import Rank, Tool
from profkit.capture.harness.ranks.coordinates import placed
from profkit.capture.launchers import launcher as launcher_named
from profkit.capture.launchers.base import RankLauncher
from profkit.core.parallel_layout import Parallel
from profkit.core.settings import checked
from profkit.workloads import workload_settings

VARIABLE = "PROFKIT_CAPTURE"
"""Environment variable with the `Spec` as JSON; every process of a capture has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """One capture: one tool, one repeat of one run."""

    token: str
    """Random text that tells the processes of this capture from all others."""

    tool: str
    """Name of the tool."""

    out: str
    """Absolute path of the capture's folder."""

    repeat: int = 0
    """Repeat, from 0."""

    attempt: int = 1
    """How often this capture was tried, this time included."""

    deadline_s: float = 0.0
    """Unix time at which what still runs is killed."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the tool."""

    reads: list[str] = field(default_factory=list)
    """Absolute paths of the results that the tool chooses by, named after their analyses."""

    workload: dict[str, Any] = field(default_factory=dict)
    """The run's behaviour: workload, model, launcher, batch, steps..."""

    @property
    def folder(self) -> Path:
        """Where the capture's files belong."""
        return Path(self.out)

    @property
    def workload_text(self) -> str:
        """The workload's configuration, as the built-in programs take it."""
        return json.dumps(self.workload)

    @property
    def run(self) -> str:
        """Name of the run; ``results/runs/<run>/capture/<tool>/rep<k>`` is the folder's path."""
        return self.folder.parents[2].name

    @property
    def steps(self) -> int:
        """Number of steps that the workload will run, -1 if it does not say."""
        return workload_settings(self.workload).total_steps(int(self.workload.get("steps", -1)))

    @property
    def parallel(self) -> Parallel:
        """How the program lays out its ranks, as far as the configuration says."""
        return checked("parallel", Parallel, self.workload.get("parallel", {}))

    def ranks(self) -> list[Rank]:
        """Return every rank of the run, named as the configuration says."""
        size, parallel = int(self.workload.get("world_size", 1)), self.parallel
        return [placed(index, size, index, parallel) for index in range(size)]

    def records_rank(self, rank: Rank, tool: Tool) -> bool:
        """Say whether `tool` records `rank`, which else only keeps time."""
        return tool.records_rank(rank.rank, rank.world_size, self.parallel)

    def results(self) -> dict[str, Path]:
        """Return the results that the tool chooses by, by analysis."""
        return {path.stem: path for path in map(Path, self.reads)}

    def load_tool(self) -> Tool:
        """Return the tool with its settings; raises `ConfigError` if they do not fit."""
        return checked(f"tools.{self.tool}", tool_named(self.tool), self.settings)

    def load_launcher(self) -> RankLauncher:
        """Return what starts the ranks; raises `ConfigError` if its settings do not fit."""
        settings = dict(self.workload.get("launcher", {"name": "python"}))
        return checked("launcher", launcher_named(settings.pop("name", "python")), settings)


def exported(spec: Spec) -> dict[str, str]:
    """Return the environment variable that hands `spec` to every process of the capture."""
    return {VARIABLE: json.dumps(asdict(spec))}


def received(environment: Mapping[str, str]) -> Spec:
    """Return the capture that this process belongs to."""
    return Spec(**json.loads(environment[VARIABLE]))


def rank_of(environment: Mapping[str, str], parallel: Parallel) -> Rank:
    """Return this process's place, as torchrun and other launchers say it."""
    rank, size, local = (
        int(environment.get(name, default))
        for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
    )
    return placed(rank, size, local, parallel)
