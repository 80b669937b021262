"""One capture on this host: its tool, its launcher, its command line and its environment."""

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from profkit.capture.base import Rank, Tool, Wrapper
from profkit.capture.harness import chosen_ranks, tool_supervisor
from profkit.capture.harness.followed import request as follow_request
from profkit.capture.harness.hosts import host_reports
from profkit.capture.harness.rank import PROGRAM
from profkit.capture.harness.record.mask_outputs import OutputMask
from profkit.capture.harness.spec import Spec, to_environment
from profkit.capture.launchers.base import Node, RankLauncher
from profkit.core.errors import ConfigError
from profkit.core.run_settings import RunSettings
from profkit.core.settings import plain
from profkit.process import caller_environment
from profkit.workloads import workload_settings
from profkit.workloads.runtime import command_words


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One capture on this host."""

    spec: Spec
    tool: Tool
    launcher: RankLauncher
    node: Node
    run_settings: RunSettings

    @property
    def command(self) -> list[str]:
        """The command line that starts the ranks, as it is without a container."""
        started = self._started
        if not isinstance(self.tool, Wrapper) or not self.wraps_launcher:
            return started
        command = self._tool_command(self.tool)
        if self._is_in_image():
            return command
        return tool_supervisor.supervised_command(self.tool, command, started)

    @property
    def tool_commands(self) -> list[list[str]]:
        """The tool's own command lines, around the first rank that it records; [] for a session."""
        if not isinstance(self.tool, Wrapper):
            return []
        later = self.tool.later_commands(self.spec.raw_folder, self._first_recorded)
        return [self._tool_command(self.tool), *later]

    @property
    def _started(self) -> list[str]:
        """The command line of the launcher, without a tool."""
        program: Sequence[str] = PROGRAM
        if self.launcher.finds_ranks:
            program = follow_request.reaching(command_words.split(self.words)[1])
        return self.launcher.command(program, len(self.spec.ranks()), self.node)

    @property
    def tool_options(self) -> list[str]:
        """The words of the tool's own command line before the program that it starts."""
        return [*itertools.chain(*(line[: -len(self._program)] for line in self.tool_commands[:1]))]

    def _tool_command(self, tool: Wrapper) -> list[str]:
        find = tool.command if self._is_in_image() else tool.found_command
        return find(self._program, self.spec.raw_folder, self._first_recorded)

    @property
    def _program(self) -> list[str]:
        """The command line that a tool is put around."""
        python = [self.launcher.interpreter, *PROGRAM]
        return self._started if self.wraps_launcher else python

    @property
    def _first_recorded(self) -> Rank:
        """The rank that the files of the tool on this host begin with."""
        ranks = self.spec.ranks()
        own = ranks[self.node.rank * len(ranks) // self.launcher.host_count :]
        if self.wraps_launcher:
            return own[0]
        return next((rank for rank in own if self.spec.records_rank(rank, self.tool)), own[0])

    @property
    def requested(self) -> dict[str, Any]:
        """What is asked for, as the record says it."""
        return {
            "tool": self.spec.tool,
            "repeat": self.spec.repeat,
            "attempt": self.spec.attempt,
            "settings": plain(replace(self.spec, chosen=[]).load_tool()),
            "workload": self.spec.workload,
        }

    @property
    def words(self) -> list[str]:
        """The user's own command, word by word; [] for a workload that is none."""
        return workload_settings(self.spec.workload).words

    @property
    def wraps_launcher(self) -> bool:
        """Whether one process of the tool runs all ranks of this host."""
        if not isinstance(self.tool, Wrapper):
            return False
        return self.tool.wraps_launcher or self.launcher.finds_ranks

    @property
    def environment(self) -> dict[str, str]:
        """What the command starts with: the caller's own environment, and what is added to it."""
        return {**caller_environment.restored(), **self.added_variables}

    @property
    def given_variables(self) -> dict[str, str]:
        """Variables that the command, the tool and the launcher's settings add or replace."""
        typed = command_words.split(self.words)[0] if self.launcher.finds_ranks else {}
        return {
            **typed,
            **self.tool.environment_variables,
            **self.launcher.environment_variables,
        }

    @property
    def added_variables(self) -> dict[str, str]:
        """The given variables, and those that profkit itself adds or replaces."""
        added = {**self.given_variables, **to_environment(self.spec)}
        if not self.launcher.finds_ranks:
            return added
        own = follow_request.of(self.spec, self.tool)
        known = {**caller_environment.restored(), **added}
        return added | follow_request.to_environment(own, self.spec, known)

    @property
    def mask(self) -> OutputMask:
        """What takes the secrets out of the files of the capture."""
        return OutputMask(environment=self.environment, secrets=self.spec.secrets)

    def profiled(self, ranks: Sequence[Rank]) -> list[str]:
        """Return the labels of those `ranks` that the tool writes files for."""
        recorded = [rank for rank in ranks if self.spec.records_rank(rank, self.tool)]
        if self.wraps_launcher:
            recorded = list(ranks[:: max(len(ranks) // self.launcher.host_count, 1)])
        return [rank.label for rank in recorded]

    def notes(self) -> list[str]:
        """Return which ranks the tool records of those that it was asked for, unless all."""
        if self.wraps_launcher and self.spec.settings.get("ranks", "all") != "all":
            return [f"{self.spec.tool} ran the whole command: it recorded all ranks."]
        return chosen_ranks.note(self.spec)

    def unavailable_reason(self) -> str:
        """Return why the tool cannot run; "" for an image, whose tools are not known here."""
        if self._is_in_image():
            return ""
        if self.launcher.finds_ranks and isinstance(self.tool, Wrapper):
            unfit = self.tool.unfit_command(command_words.split(self.words)[1])
            return self.tool.unavailable_reason() or unfit
        return self.tool.unavailable_reason()

    def losses(self) -> list[str]:
        """Return what the tool cannot record on this machine; nothing is known of an image."""
        return [] if self._is_in_image() else self.tool.losses()

    def _is_in_image(self) -> bool:
        return self.launcher.container.engine != "none"


def counting_passes(job: Job) -> Job:
    """Return the capture with each forward pass of the program as a step."""
    workload = job.spec.workload["workload"] | {"step": "forward"}
    return replace(job, spec=replace(job.spec, workload=job.spec.workload | {"workload": workload}))


def prepare(spec: Spec, run_settings: RunSettings) -> Job:
    """Return the capture of `spec`; raises `ConfigError` for settings that do not fit."""
    spec = chosen_ranks.settled(spec)
    tool, launcher = spec.load_tool().with_results(spec.results()), spec.load_launcher()
    if launcher.finds_ranks and isinstance(tool, Wrapper):
        tool = tool.around_command()
    unfit = tool.check(spec.steps) if spec.steps > 0 else ""
    if reason := launcher.check(len(spec.ranks())) or unfit:
        raise ConfigError(f"{spec.tool}: {reason}")
    recorded = sum(spec.records_rank(rank, tool) for rank in spec.ranks())
    spec = replace(spec, rank_bytes=run_settings.max_bytes // max(recorded, 1))
    node = host_reports.this_node(os.environ, launcher.host_count)
    return Job(spec=spec, tool=tool, launcher=launcher, node=node, run_settings=run_settings)
