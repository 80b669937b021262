"""Make a plan: check every section of the configurations against the plugins that read them."""

import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeGuard

from profkit.analyze import analyses
from profkit.capture import tool as tool_named
from profkit.capture import tools
from profkit.capture.launchers import launcher as launcher_named
from profkit.capture.launchers.base import RankLauncher
from profkit.core import registry, resources, run_settings, secret_store
from profkit.core.errors import ConfigError
from profkit.core.fingerprint import fingerprint
from profkit.core.formatting import size
from profkit.core.hardware import Hardware
from profkit.core.parallel_layout import CHOICE, REPRESENTATIVE, Parallel, Ranks
from profkit.core.run_settings import RunSettings
from profkit.core.secret_masking import Masker, forms, secret_values
from profkit.core.settings import adapter, checked, known, plain
from profkit.planning import command_line, conflicts, mistakes, rank_notes, script_notes
from profkit.planning.chosen_tools import LIGHT, asked_for, choosing, recorded_ranks
from profkit.planning.compose import Composed, compose_all
from profkit.planning.configuration import Configuration
from profkit.planning.imported import imported, manifest_of
from profkit.planning.merged_runs import check_comparisons, unified
from profkit.planning.model import Plan, Run
from profkit.planning.requirements import left_out_note, missing_requirement
from profkit.planning.run_names import run_name
from profkit.planning.sides import paired, selections, sides_of
from profkit.report.settings import Settings as ReportSettings
from profkit.workloads import workload_settings
from profkit.workloads.base import BaseWorkload
from profkit.workloads.runtime.request import Request, without_choices
from profkit.workloads.zero import Zero

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MAX_MODEL_BYTES = 16 << 40

# What changes the behaviour of the workload, and so is another run.
_GROUPS = ("workload", "model", "zero", "launcher")
_BEHAVIOUR_KEYS = tuple(field.name for field in fields(Request) if field.name not in _GROUPS)


def make(conf: Path, overrides: Sequence[str]) -> Plan:
    """Return the plan for `overrides`; raises `ConfigError` with all there is to say about one."""
    try:
        return _made(conf, overrides)
    except ConfigError as error:
        raise mistakes.placed(error, [*itertools.chain(*selections(overrides))]) from None


def _made(conf: Path, overrides: Sequence[str]) -> Plan:
    chosen_by = selections(overrides)
    checker = _Checker(explicit=any(_is_chosen(words, "analysis") for words in chosen_by))
    composed = [choice for words in chosen_by for choice in compose_all(conf, words, checker.check)]
    if not composed:
        raise ConfigError(
            f"no run is selected by {' '.join(overrides)}",
            hint="a glob() or range() among them matches nothing",
        )
    variables = tuple(sorted({name for choice in composed for name in choice.variables}))
    checker.interpolated = {name: os.environ[name] for name in variables if name in os.environ}
    configurations = [checker.configuration(choice) for choice in composed]
    selected = [
        run
        for choice, config in zip(composed, configurations, strict=True)
        for run in (checker.imported(config) if config.imports else [checker.run(choice, config)])
    ]
    sides = sides_of(overrides)
    runs, pairing = (unified(selected), None) if sides is None else paired(selected, sides.coin)
    whole = _run_settings(configurations)
    check_comparisons(runs)
    # Late: Arrow, which this loads, takes longer than the mistakes that end before it.
    from profkit.planning.part_plans import analysis_plan, tool_plan  # noqa: PLC0415

    # Their settings are the same in all runs, of which they make none.
    settings = {name: values for run in runs for name, values in run.tools.items()}
    chosen = {
        name: checked(f"tools.{name}", tool_named(name), values)
        for name, values in settings.items()
    }
    plans = {name: tool_plan(name, tool, whole.repeats) for name, tool in sorted(chosen.items())}
    wanted = {name for run in runs for name in (*run.analyses, *run.comparisons)}
    hide = secret_store.hiding(os.environ, itertools.chain(*checker.maskers)).document
    return Plan(
        overrides=tuple(map(hide, overrides)),
        runs=tuple(runs),
        run_settings=whole,
        tools=plans,
        analyses={
            name: analysis_plan(name, analysis)
            for name, analysis in analyses().items()
            if name in wanted
        },
        report=hide(checker.section("report", ReportSettings, configurations[0].report)),
        report_code=fingerprint("profkit.report", "profkit.report.__main__"),
        notes=(
            *dict.fromkeys(mistakes.noted(chosen_by)),
            *checker.notes,
            *conflicts.notes({} if whole.imports else chosen, exclusive=whole.exclusive),
        ),
        left_out=tuple(left_out_note(why, *names) for why, names in checker.left_out.items()),
        variables=variables,
        pairing=pairing,
        files=tuple(sorted(checker.files)),
        hardware_hash=_hash_of(resources.folders("hardware", conf)),
    )


def _run_settings(configurations: Sequence[Configuration]) -> RunSettings:
    """Return the settings of the whole run.

    Raises `ConfigError` if the sides of a comparison differ in them, or in those of the report.
    """
    if any(config.report != configurations[0].report for config in configurations):
        raise mistakes.of_all_runs("report")
    whole, *others = [run_settings.of(config) for config in configurations]
    if any(other != whole for other in others):
        raise mistakes.of_all_runs(run_settings.NAMES[0])
    # What was imported was captured once.
    return replace(whole, repeats=1) if whole.imports else whole


def _hash_of(folders: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.yaml")):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _is_chosen(overrides: Sequence[str], group: str) -> bool:
    return any(override.lstrip("+").startswith(f"{group}=") for override in overrides)


@dataclass(kw_only=True)
class _Checker:
    """Checks the sections of many configurations, each distinct one once."""

    explicit: bool
    """Whether the user named the analyses, so that one that cannot run is an error."""

    interpolated: dict[str, str] = field(default_factory=dict)
    """Environment variables that the configurations read, with their values."""

    notes: list[str] = field(default_factory=list)
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)
    """Names of analyses that cannot run, by the reason."""

    files: set[str] = field(default_factory=set)
    """Files without which there is nothing to plan."""

    seen: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    maskers: dict[frozenset[str], Masker] = field(default_factory=dict)
    """What puts references in the place of secrets, by those in the settings of a launcher."""

    def section(self, where: str, kind: type[Any], values: object) -> dict[str, Any]:
        """Return `values` as `kind` spells them out."""
        key = (where, json.dumps(values, sort_keys=True, default=str))
        if key not in self.seen:
            self.seen[key] = plain(checked(where, kind, values))
        return self.seen[key]

    def configuration(self, composed: Composed) -> Configuration:
        """Check the keys of ``conf/config.yaml``, and that there is no other."""
        config = checked("", Configuration, dict(composed.values))
        return command_line.with_named_ranks(config, composed.overrides)

    def check(self, composed: Composed) -> None:
        """Check what needs no analysis, which all the others would be loaded for."""
        config = self.configuration(composed)
        if not [imported(name) for name in config.imports]:
            self.program(composed, config)

    def program(
        self, composed: Composed, config: Configuration
    ) -> tuple[dict[str, Any], BaseWorkload, dict[str, dict[str, Any]]]:
        """Return the behaviour of a run, its workload, and the settings of each of its tools."""
        behaviour = {name: self.group(name, getattr(config, name)) for name in _GROUPS}
        behaviour |= {name: getattr(config, name) for name in _BEHAVIOUR_KEYS}
        behaviour["parallel"] = adapter(Parallel).dump_python(config.parallel, mode="json")
        self.check_model(config)
        workload = self.workload(behaviour, config, self.launcher(behaviour))
        notes = script_notes.without_effect(composed, script_notes.unread(composed, workload))
        self.notes += [note for note in notes if note not in self.notes]
        steps = workload.total_steps(config.steps)
        config.check(steps)
        asked = asked_for(composed.overrides, config, analyses_are_named=self.explicit)
        ranks = recorded_ranks(config, asked)
        chosen = {name: self.tool(name, values, steps, ranks) for name, values in asked.items()}
        if choosing(chosen) and LIGHT not in chosen:
            chosen[LIGHT] = self.tool(LIGHT, {}, steps, "all")
        return behaviour, workload, chosen

    def run(self, composed: Composed, config: Configuration) -> Run:
        """Return the run that one configuration describes."""
        behaviour, workload, chosen = self.program(composed, config)
        self.notes += [
            note
            for note in rank_notes.notes(config, self.launcher(behaviour), chosen)
            if note not in self.notes
        ]
        unread = script_notes.unread(composed, workload)
        settings = self.analyses(self.sections(config, chosen), tuple(chosen))
        hide = self.masker(behaviour).document
        behaviour = hide(behaviour)
        return Run(
            name=run_name(behaviour, workload, unread),
            behaviour=behaviour,
            unread=tuple(sorted(unread)),
            hardware=self.section("hardware", Hardware, config.hardware),
            tools=hide(chosen),
            analyses=_with_scope(settings, ""),
            overrides=tuple(map(hide, itertools.filterfalse(_follows_capture, composed.overrides))),
            comparisons=_with_scope(settings, "runs"),
            reads=self.reads(chosen, settings),
        )

    def masker(self, behaviour: Mapping[str, Any]) -> Masker:
        """Return what hides the secrets of a run, those that its launcher sets among them.

        What is one at one place is one wherever it stands, as in the name of a folder.
        """
        own = behaviour["launcher"].get("env", {})
        values = secret_values(self.interpolated) | secret_values(own)
        hidden = secret_store.hiding(os.environ, values).document(behaviour)
        known = frozenset(values | forms(secret_store.secrets_of(json.dumps(hidden))))
        if known not in self.maskers:
            self.maskers[known] = secret_store.hiding(os.environ, known)
        return self.maskers[known]

    def imported(self, config: Configuration) -> list[Run]:
        """Return the runs that ``profkit import`` made."""
        self.files |= {str(manifest_of(name)) for name in config.imports}
        return [
            Run(
                name=name,
                behaviour=behaviour,
                hardware=self.section("hardware", Hardware, config.hardware),
                tools={tool: {}},
                analyses=_with_scope(settings, ""),
                overrides=(f"imports=[{name}]",),
                comparisons=_with_scope(settings, "runs"),
            )
            for name in config.imports
            for tool, behaviour in [imported(name)]
            for settings in [self.analyses(self.sections(config, {}), (tool,))]
        ]

    def group(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Check one group against the dataclass of the plugin that reads it."""
        labels = {key: values[key] for key in values if key not in without_choices(values)}
        if not _SAFE.fullmatch(str(labels.get("name", ""))):
            raise ConfigError(f"{name}.name: must be a word that can name a folder")
        kind = settings_class(name, str(labels.get("family", labels["name"])))
        return {**labels, **self.section(name, kind, without_choices(values))}

    def launcher(self, behaviour: Mapping[str, Any]) -> RankLauncher:
        """Return the launcher; raises `ConfigError` if it cannot start so many processes."""
        section = dict(behaviour["launcher"])
        launcher = checked("launcher", launcher_named(section.pop("name")), section)
        if reason := launcher.check(behaviour["world_size"]):
            raise ConfigError(f"launcher: {reason}")
        return launcher

    def workload(
        self, behaviour: Mapping[str, Any], config: Configuration, launcher: RankLauncher
    ) -> BaseWorkload:
        """Return the program; raises `ConfigError` if it cannot run here, or sharded like this."""
        workload = workload_settings(behaviour)
        # What an image holds shows when it runs.
        is_seen = launcher.container.engine == "none"
        check = workload.check_command if launcher.finds_ranks else workload.check
        if reason := check(launcher.working_folder) if is_seen else "":
            raise ConfigError(f"workload.{reason}")
        if is_seen and (program := workload.program(launcher.working_folder)):
            self.files.add(str(program))
        if reason := workload.check_sharding(config.sharding(), config.world_size):
            raise ConfigError(f"zero: {reason}")
        if workload.has_only_replicas and config.parallel.tp * config.parallel.pp > 1:
            raise ConfigError(
                f"parallel: the ranks of workload={behaviour['workload']['name']} are data-parallel"
                " replicas; leave parallel.tp and parallel.pp at 1"
            )
        return workload

    def check_model(self, config: Configuration) -> None:
        """Raise `ConfigError` if the model cannot be built here."""
        family = config.family()
        if reason := family.check():
            raise ConfigError(f"model.{reason}")
        size_bytes = 4 * (family.parameter_count() or 0)
        if size_bytes > _MAX_MODEL_BYTES:
            raise ConfigError(
                f"model: its parameters take {size(size_bytes)} in fp32, more than any machine has",
                hint="check the model's sizes, such as its layers and width",
            )

    def tool(self, name: str, values: object, steps: int, ranks: Ranks) -> dict[str, Any]:
        """Check a tool's settings, and that they fit the number of steps, if that is known."""
        kind = known("tool", name, tools())
        if kind.outputs and isinstance(values, Mapping):
            values = {"ranks": ranks, **values}
        settings = self.section(f"tools.{name}", kind, values)
        tool = checked(f"tools.{name}", kind, settings)
        if reason := tool.check(steps) if steps > 0 else "":
            raise ConfigError(f"tools.{name}: {reason}")
        is_chosen = settings.get("ranks") == REPRESENTATIVE
        return {**settings, "ranks": "all"} if is_chosen and tool.records_all_ranks else settings

    def reads(
        self, chosen: Mapping[str, dict[str, Any]], settings: Mapping[str, Any]
    ) -> dict[str, tuple[str, ...]]:
        """Return which of the analyses chosen each tool waits for; note those that it cannot."""
        found = {}
        for name, values in chosen.items():
            wanted = checked(f"tools.{name}", tools()[name], values).input_analyses()
            wanted += (CHOICE,) if name in choosing(chosen) else ()
            selected = tuple(other for other in wanted if other in settings)
            note = f"tool {name} cannot choose by {' and '.join(wanted)}: no part of the selection"
            if selected != wanted and note not in self.notes:
                self.notes.append(note)
            if selected:
                found[name] = selected
        return found

    def sections(
        self, config: Configuration, chosen: Mapping[str, dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the sections of the analyses; the one that chooses ranks is for tools that ask."""
        if choosing(chosen):
            return {CHOICE: {"skip_first": config.warmup_steps}, **config.analyses}
        is_kept = self.explicit
        return {name: own for name, own in config.analyses.items() if is_kept or name != CHOICE}

    def analyses(
        self, sections: Mapping[str, Any], enabled: tuple[str, ...]
    ) -> dict[str, dict[str, Any]]:
        """Check the analyses' settings; leave out those whose tables no enabled tool makes."""
        available = analyses()
        kinds = {name: known("analysis", name, available).config for name in sections}
        settings = {
            name: self.section(f"analyses.{name}", kinds[name], values)
            for name, values in sections.items()
        }
        reasons = {name: missing_requirement(name, enabled, settings) for name in settings}
        missing = {name: reason for name, reason in reasons.items() if reason}
        spared = {other for name in settings for other in available[name].results_if_there}
        for name, reason in missing.items():
            if self.explicit and name not in spared:
                raise ConfigError(f"analysis {name}: {reason}")
            self.left_out.setdefault(reason, {})[name] = None
        return {name: values for name, values in settings.items() if name not in missing}


def _with_scope(settings: Mapping[str, dict[str, Any]], across: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the analyses of one run (""), or of all (``runs``)."""
    available = analyses()
    return {name: values for name, values in settings.items() if available[name].across == across}


def settings_class(group: str, name: str) -> type[Any]:
    """Return the settings class behind one choice of a group."""
    if group == "zero":
        return Zero
    package, attribute = {
        "workload": ("profkit.workloads", "Workload"),
        "model": ("profkit.workloads.models", "Model"),
        "launcher": ("profkit.capture.launchers", "Launcher"),
    }[group]
    return registry.load(group, package, name, attribute, _is_class)


def _is_class(plugin: object) -> TypeGuard[type[Any]]:
    return isinstance(plugin, type)


def _follows_capture(override: str) -> bool:
    """Say whether an override concerns only what comes after the capture."""
    key = override.lstrip("+~").partition("=")[0]
    is_of_report = key.startswith(("analyses.", "report"))
    return is_of_report or key in ("analysis", "repeats", "capture", "exclusive")
