"""The request for one capture, and the environment variable that passes it on to the ranks."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profkit.capture import tool as find_tool
from profkit.capture.base import Rank, Tool
from profkit.capture.harness.ranks.coordinates import configured_rank
from profkit.core.parallel_layout import Parallel
from profkit.core.settings import checked
from profkit.workloads import workload_settings

if TYPE_CHECKING:
    from profkit.capture.launchers.base import RankLauncher

VARIABLE = "PROFKIT_CAPTURE"
"""Environment variable with the `Spec` as JSON; every process of a capture has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """One capture: one tool, one repeat of one run."""

    token: str
    """Random text in the environment of all processes of this capture."""

    tool: str
    """Name of the tool."""

    out: str
    """Absolute path of the capture's folder."""

    repeat: int = 0
    """Repeat, from 0."""

    attempt: int = 1
    """How often this capture was tried, this time included."""

    deadline_s: float = 0.0
    """Unix time of the timeout."""

    node: int = 0
    """Number of the host that this process runs on, from 0."""

    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the tool."""

    raw: str = ""
    """Absolute path of the folder that the tool writes to on this host; "" for `out`."""

    rank_bytes: int = 0
    """Bytes that the files of a recorded rank may take; 0 is no bound."""

    chosen: list[dict[str, Any]] = field(default_factory=list)
    """Number of each rank that is recorded under ``ranks=representative``, and the reason."""

    reads: list[str] = field(default_factory=list)
    """Absolute paths of the results of `Tool.input_analyses`, each named after its analysis."""

    workload: dict[str, Any] = field(default_factory=dict)
    """The run's behaviour: workload, model, launcher, batch, steps..."""

    secrets: list[str] = field(default_factory=list)
    """Values in `settings` and `workload` that were asked for by references to secrets."""

    @property
    def folder(self) -> Path:
        """Folder of the capture's files."""
        return Path(self.out)

    @property
    def raw_folder(self) -> Path:
        """Folder that the tool writes to."""
        return Path(self.raw or self.out)

    @property
    def workload_text(self) -> str:
        """The workload's configuration as JSON, for ``--config``."""
        return json.dumps(self.workload)

    @property
    def run(self) -> str:
        """Name of the run; ``results/runs/<run>/capture/<tool>/rep<k>`` is the folder's path."""
        return self.folder.parents[2].name

    @property
    def steps(self) -> int:
        """Number of steps that the workload will run, -1 if it is not known."""
        return workload_settings(self.workload).total_steps(int(self.workload.get("steps", -1)))

    @property
    def parallel(self) -> Parallel:
        """Layout of the ranks in the configuration."""
        return checked("parallel", Parallel, self.workload.get("parallel", {}))

    def ranks(self) -> list[Rank]:
        """Return every rank of the run, with the coordinates of the configuration."""
        size, parallel = int(self.workload.get("world_size", 1)), self.parallel
        return [configured_rank(index, size, index, parallel) for index in range(size)]

    def records_rank(self, rank: Rank, tool: Tool) -> bool:
        """Say whether `tool` records `rank`; other ranks only time their steps."""
        return tool.records_rank(rank.rank, rank.world_size, self.parallel)

    def results(self) -> dict[str, Path]:
        """Return the result files for `Tool.with_results`, by analysis."""
        return {path.stem: path for path in map(Path, self.reads)}

    def load_tool(self) -> Tool:
        """Return the tool with its settings; raises `ConfigError` if they do not fit.

        Ranks that were chosen have their numbers.
        """
        ranks = {"ranks": [one["rank"] for one in self.chosen]} if self.chosen else {}
        return checked(f"tools.{self.tool}", find_tool(self.tool), {**self.settings, **ranks})

    def load_launcher(self) -> "RankLauncher":
        """Return the launcher; raises `ConfigError` if its settings do not fit."""
        # Late: ranks start nothing, and some run where there is no pydantic.
        from profkit.capture.launchers import launcher as find_launcher

        settings = dict(self.workload.get("launcher", {"name": "python"}))
        return checked("launcher", find_launcher(settings.pop("name", "python")), settings)


def to_environment(spec: Spec) -> dict[str, str]:
    """Return the environment variable with `spec`, for every process of the capture."""
    return {VARIABLE: json.dumps(asdict(spec))}


def from_environment(environment: Mapping[str, str]) -> Spec:
    """Return the request for the capture that this process belongs to."""
    return Spec(**json.loads(environment[VARIABLE]))


def rank_of(environment: Mapping[str, str], parallel: Parallel) -> Rank:
    """Return the rank of this process, by the variables of torchrun and other launchers."""
    rank, size, local = (
        int(environment.get(name, default))
        for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
    )
    return configured_rank(rank, size, local, parallel)
