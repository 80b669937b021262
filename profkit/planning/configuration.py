"""The keys of ``conf/config.yaml``, typed: a configuration of one run."""

from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import NonNegativeInt

from profkit.core.errors import ConfigError
from profkit.core.formatting import counted
from profkit.core.parallel_layout import Ranks
from profkit.core.run_settings import RunSettings
from profkit.workloads.runtime.request import Request


@dataclass(frozen=True, kw_only=True, slots=True)
class Configuration(Request, RunSettings):
    """How a workload behaves, what is done with it, and the settings of the whole run."""

    warmup_steps: NonNegativeInt = 3
    """First steps that are not counted in times."""

    ranks: Ranks | Literal["auto"] = "auto"
    """Ranks that tools record: all, numbers such as 0,3, first-of-each-stage by the layout of
    `parallel`, or representative: those that the tool marks, whose captures are made before, shows
    to be slowest and in the middle, with a whole host and one of each stage. auto is representative
    of more than 8 ranks if marks is among the tools, else all. The others run with the step clock
    alone; marks records all.
    """

    hardware: dict[str, Any] = field(default_factory=dict)
    """Peaks of the hardware."""

    tools: dict[str, Any] = field(default_factory=dict)
    """Settings of each tool, by name; options of the group `tool` fill them in."""

    analyses: dict[str, Any] = field(default_factory=dict)
    """Settings of each analysis, by name; options of the group `analysis` fill them in."""

    report: dict[str, Any] = field(default_factory=dict)
    """Settings of the report."""

    def check(self, steps: int) -> None:
        """Raise `ConfigError` if `steps`, unless it is -1, leave none to measure."""
        if 0 <= steps <= self.warmup_steps:
            raise ConfigError(
                f"warmup_steps={self.warmup_steps} leaves none of"
                f" {counted(steps, 'step')} to measure",
                hint="raise steps or lower warmup_steps",
            )
        if self.keep_raw != "all" and not self.scratch:
            raise ConfigError(
                "keep_raw: without a scratch all raw files are written to the result tree",
                hint="set scratch to a folder on a disk of each host, or leave keep_raw out",
            )
        if reason := self.parallel.check(self.world_size):
            raise ConfigError(f"parallel: {reason}")
        if absent := [rank for rank in self.numbered_ranks() if not 0 <= rank < self.world_size]:
            raise ConfigError(f"ranks: there is no rank {absent[0]} of {self.world_size}")

    def numbered_ranks(self) -> tuple[int, ...]:
        """Return the ranks that are named by number."""
        return () if isinstance(self.ranks, str) else self.ranks
