"""From ``conf/`` and overrides to plain configurations: Hydra composes, its grammar sweeps."""

import itertools
import math
import re
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf, open_dict

from profkit.analyze import analyses, analysis
from profkit.capture import tool
from profkit.core import registry
from profkit.core.errors import ConfigError
from profkit.core.settings import adapter
from profkit.planning import mistakes, own_files, resolvers
from profkit.planning.option_files import MAIN, OptionFiles, Options, OwnOptions
from profkit.workloads.models import family

# Groups that are not in the defaults list and are switched on with "+": accepted without it too.
_OPTIONAL_GROUPS = ("experiment", "toolset")

# Which ranks a tool records makes no other run: numbers are a list of them and no sweep.
_RANK_NUMBERS = re.compile(r"(\+*(?:(?:tools\.\w+\.)?ranks|keep_raw)=)(\d+(?:,\d+)*)")

# A configuration of nothing but the analyses that are added to it.
_REQUIRED = "required_analyses"

# Beyond, a sweep is a mistake: planning alone would take minutes.
_MOST_RUNS = 10_000

# What an interpolation begins with, a section unless it is a resolver; empty for a key alone.
_INTERPOLATED = re.compile(r"\$\{\.*(?:(\w+)[.}]|)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Composed:
    """One configuration of a selection."""

    values: dict[str, Any]
    """Plain data, everything resolved."""

    overrides: tuple[str, ...]
    """The overrides that make this one alone, sweeps replaced by their value here."""

    variables: tuple[str, ...] = ()
    """Environment variables that were read for this one or another of the selection."""

    passed_on: frozenset[str] = frozenset()
    """Keys and sections that the workload's command and the launcher take values from, be it by
    way of others."""


def compose_all(
    conf: Path, overrides: Sequence[str], check: Callable[[Composed], object] | None = None
) -> list[Composed]:
    """Return every configuration that `overrides` select, in the order of Hydra's multirun.

    `check` sees the first one of each choice of groups without the analyses that others read: it
    may raise before all analyses are loaded, which takes longer than the rest.

    Raises `ConfigError` for what is misspelt, missing or not resolvable.
    """
    with _hydra(conf, [_normalised(override) for override in overrides]) as (loader, options):
        own_files.check_aliases(own_files.chosen(overrides))
        parser = OverridesParser.create(config_loader=loader)
        given = [_normalised(override) for override in overrides]
        parsed = _parse(parser, given)
        mistakes.check(parsed, loader, _main(conf).keys())
        with resolvers.watched() as variables:
            parsed += _parse(parser, _sweeps_of_experiment(parsed))
            composed = list(_expanded(options, parser, parsed, check))
        return [replace(one, variables=tuple(sorted(variables))) for one in composed]


@contextmanager
def _hydra(conf: Path, chosen: Sequence[str]) -> Iterator[tuple[ConfigLoader, Options]]:
    """Open `conf` and turn Hydra's and OmegaConf's errors into ours.

    `chosen` are the overrides; a hint names keys of the groups that they choose.
    """
    if not conf.is_dir():
        raise ConfigError(f"{conf}: no such folder of configurations")
    Plugins.instance().register(OptionFiles)
    Plugins.instance().register(OwnOptions)
    _store_defaults()
    with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        assert isinstance(loader, ConfigLoaderImpl)  # noqa: S101 - there is no other
        loader.repository = options = Options(loader.get_search_path())
        try:
            yield loader, options
        except mistakes.FOREIGN as error:
            raise mistakes.readable(error, chosen) from None


def _main(conf: Path) -> DictConfig:
    """Return what config.yaml of `conf` says."""
    source = OptionFiles("main", f"{OptionFiles.scheme()}://{conf}")
    main = source.load_config("config").config
    assert isinstance(main, DictConfig)  # noqa: S101 - config.yaml is a section
    return main


def _store_defaults() -> None:
    """Register with Hydra the group of all analyses, and the plugins of other packages."""
    store = ConfigStore.instance()
    store.store(name=_REQUIRED, node={})
    everything = {"defaults": list(registry.module_names("profkit.analyze"))}
    store.store(name="all", group="analysis", node=everything, package="_global_")
    packages = {"tool": ("profkit.capture", "tools"), "analysis": ("profkit.analyze", "analyses")}
    for group, (package, section) in packages.items():
        for point in registry.external(package):
            kind = tool(point.name) if group == "tool" else analysis(point.name).config
            node = adapter(kind).dump_python(kind(), mode="json")
            store.store(name=point.name, group=group, node=node, package=f"{section}.{point.name}")
    for point in registry.external("profkit.workloads.models"):
        sizes = family(point.name)
        node = adapter(sizes).dump_python(sizes(), mode="json")
        names = {"name": point.name, "family": point.name}
        store.store(name=point.name, group="model", node=names | node)


def _normalised(override: str) -> str:
    if found := _RANK_NUMBERS.fullmatch(override):
        return f"{found[1]}[{found[2]}]"
    key = override.partition("=")[0]
    return f"+{override}" if key in _OPTIONAL_GROUPS else override


def _parse(parser: OverridesParser, overrides: Sequence[str]) -> list[Override]:
    parsed: list[Override] = []
    for override in overrides:
        try:
            parsed += parser.parse_overrides([override])
        except mistakes.FOREIGN as error:
            raise mistakes.cannot_read(override, error, parser) from None
    return parsed


def _sweeps_of_experiment(parsed: Sequence[Override]) -> list[str]:
    """Return the sweeps that the chosen experiments declare and the command line leaves alone."""
    chosen = [override for override in parsed if override.key_or_group in _OPTIONAL_GROUPS]
    if not chosen:
        return []
    plain = [str(override.input_line) for override in chosen if not override.is_sweep_override()]
    composed = compose(MAIN, overrides=plain, return_hydra_config=True)
    params = OmegaConf.select(composed, "hydra.sweeper.params") or {}
    taken = {override.key_or_group for override in parsed}
    return [f"{key}={value}" for key, value in params.items() if key.lstrip("+") not in taken]


def _expanded(
    options: Options,
    parser: OverridesParser,
    parsed: Sequence[Override],
    check: Callable[[Composed], object] | None,
) -> Iterator[Composed]:
    """Yield the product of all sweeps; compose once for each distinct choice of groups.

    A compose takes 41 ms and setting a value in the result 1 ms, which is what makes a sweep of
    a thousand batch sizes bearable.
    """
    fixed = [str(override.input_line) for override in parsed if not override.is_sweep_override()]
    sweeps = [override for override in parsed if override.is_sweep_override()]
    axes = [_axis(sweep) for sweep in sweeps]
    if math.prod(map(len, axes)) > _MOST_RUNS:
        names = " ".join(str(sweep.input_line) for sweep in sweeps)
        raise ConfigError(f"{names}: selects more than {_MOST_RUNS:,} runs", hint="sweep over less")
    values = {text: _parse(parser, [text])[0] for axis in axes for text in axis}
    is_group = [bool(options.get_group_options(sweep.key_or_group)) for sweep in sweeps]
    groups = {
        text for axis, of_group in zip(axes, is_group, strict=True) if of_group for text in axis
    }
    swept = {values[text].key_or_group.partition(".")[0] for text in values if text not in groups}
    composed: dict[tuple[str, ...], DictConfig] = {}
    constant: dict[tuple[str, ...], dict[str, Any]] = {}
    for choice in itertools.product(*axes):
        key = tuple(text for text in choice if text in groups)
        if key not in composed:
            composed[key] = compose(MAIN, overrides=[*fixed, *key])
            _check_appended(composed[key], parsed, options)
        for text in choice:
            if text not in groups:
                _set(composed[key], values[text])
        overrides, passed_on = (*fixed, *choice), _passed_on(composed[key])
        if key not in constant:
            if check:
                plain = _resolved(composed[key], skip=())
                check(Composed(values=plain, overrides=overrides, passed_on=passed_on))
            _add_required(composed[key], options)
            constant[key] = _constant(composed[key], swept)
        plain = constant[key] | _resolved(composed[key], skip=constant[key])
        yield Composed(values=plain, overrides=overrides, passed_on=passed_on)


def _passed_on(config: DictConfig) -> frozenset[str]:
    raw = OmegaConf.to_container(config, resolve=False)
    assert isinstance(raw, dict)  # noqa: S101 - a DictConfig always becomes a dict
    # The throughput is no part of what the program does.
    raw["workload"] = {**raw["workload"], "samples": None}
    read = {"workload", "launcher"}
    while more := set(_INTERPOLATED.findall(repr([raw[key] for key in read]))) & set(raw) - read:
        read |= more
    return frozenset(read)


def _constant(config: DictConfig, swept: set[str]) -> dict[str, Any]:
    """Return the sections that are the same whatever is swept, resolved once for all runs."""
    raw = OmegaConf.to_container(config, resolve=False)
    assert isinstance(raw, dict)  # noqa: S101 - a DictConfig always becomes a dict
    targets = {str(key): set(_INTERPOLATED.findall(repr(value))) for key, value in raw.items()}
    varying = {*swept, ""}
    while more := {key for key in targets if targets[key] & varying} - varying:
        varying |= more
    return _resolved(config, skip={key for key in targets if key in varying})


def _resolved(config: DictConfig, skip: Container[str]) -> dict[str, Any]:
    """Return the sections of `config` that are not in `skip` as plain data."""
    wanted = [str(key) for key in config if key not in skip]
    nodes = {key: config[key] for key in wanted}
    return {
        key: OmegaConf.to_container(node, resolve=True, throw_on_missing=True)
        if OmegaConf.is_config(node)
        else node
        for key, node in nodes.items()
    }


def _axis(override: Override) -> list[str]:
    if not override.is_discrete_sweep():
        raise ConfigError(
            f"{override.input_line}: a continuous interval is not a list of runs",
            hint="write range(start,stop,step) or a list of values",
        )
    key = override.get_key_element()
    try:
        values = [*itertools.islice(override.sweep_string_iterator(), _MOST_RUNS + 1)]
    except (TypeError, ValueError) as error:
        hint = "as in range(1,9,2), or a list of values"
        raise ConfigError(f"{override.input_line}: {error}", hint=hint) from None
    return [f"{key}={value}" for value in values]


def _set(config: DictConfig, override: Override) -> None:
    if override.is_add():
        OmegaConf.update(config, override.key_or_group, override.value(), force_add=True)
    elif OmegaConf.is_missing(config, override.key_or_group) or _has(config, override):
        OmegaConf.update(config, override.key_or_group, override.value())
    else:
        raise mistakes.unknown_key(override.key_or_group, config)


def _has(config: DictConfig, override: Override) -> bool:
    absent = object()
    return OmegaConf.select(config, override.key_or_group, default=absent) is not absent


def _add_required(config: DictConfig, options: Options) -> None:
    """Add the analyses whose results the chosen ones read, with their options of ``conf/``."""
    there = analyses()
    found: list[str] = [name for name in config.analyses or () if name in there]
    for name in found:
        # Across runs, results that may be missing are those of a choice of the user's.
        read = there[name].results + (() if there[name].across else there[name].results_if_there)
        found += [other for other in read if other not in found]
    if missing := [name for name in found if name not in config.analyses]:
        required = options.of_analyses(missing)
        if others := [name for name in missing if name not in required]:
            alone = compose(_REQUIRED, overrides=[f"+analysis=[{','.join(others)}]"])
            required |= alone.analyses
        with open_dict(config):
            for name in missing:
                config.analyses[name] = required[name]


def _check_appended(config: DictConfig, parsed: Sequence[Override], options: Options) -> None:
    """Refuse ``tool=[a] +tool=b``, of which Hydra silently drops the second."""
    for section, group in (("tools", "tool"), ("analyses", "analysis")):
        for override in parsed:
            if override.key_or_group != group or not override.is_add():
                continue
            value = override.value()
            names = value if isinstance(value, list) else [value]
            missing = [str(name) for name in names if str(name) not in config[section]]
            known = options.get_group_options(group)
            if unknown := [name for name in missing if "/" not in name and name not in known]:
                raise mistakes.no_option(group, unknown[0], known)
            if missing:
                raise ConfigError(
                    f"{override.input_line}: has no effect beside {group}=[...]",
                    hint=f"name all of them: {group}=[...,{','.join(missing)}]",
                )
