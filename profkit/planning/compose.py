"""From ``conf/`` and overrides to plain configurations: Hydra composes, its grammar sweeps."""

import difflib
import itertools
import re
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from profkit.analyze import analyses
from profkit.capture import tools
from profkit.core import registry, resources
from profkit.core.errors import ConfigError
from profkit.core.settings import Settings, adapter, nearest
from profkit.planning import resolvers
from profkit.workloads.models import family

# Groups that are not in the defaults list and are switched on with "+": accepted without it too.
_OPTIONAL_GROUPS = ("experiment", "toolset")

# Name of profkit's own config.yaml: a user's program may well have one of that name in conf/.
_MAIN = "profkit_config"

# The section that an interpolation reads; empty for a relative one or a resolver.
_INTERPOLATED = re.compile(r"\$\{(?:(\w+)[.}]|)")


class OwnOptions(SearchPathPlugin):
    """Lets the options in the user's ``conf/`` be found, before those of the same name here."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """See Hydra's `SearchPathPlugin`."""
        search_path.prepend("own", f"file://{resources.own_conf()}", anchor="main")


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
    """Keys and sections that the workload's command and the launcher take values from."""


def compose_all(conf: Path, overrides: Sequence[str]) -> list[Composed]:
    """Return every configuration that `overrides` select, in the order of Hydra's multirun.

    Raises `ConfigError` for what is misspelt, missing or not resolvable.
    """
    with _hydra(conf, [_normalised(override) for override in overrides]) as loader:
        parser = OverridesParser.create(config_loader=loader)
        given = [_normalised(override) for override in overrides]
        parsed = _parse(parser, given)
        _check_own(parsed)
        with resolvers.watched() as variables:
            parsed += _parse(parser, _sweeps_of_experiment(parsed))
            composed = list(_expanded(loader, parser, parsed))
        return [replace(one, variables=tuple(sorted(variables))) for one in composed]


@contextmanager
def _hydra(conf: Path, chosen: Sequence[str]) -> Iterator[ConfigLoader]:
    """Open `conf` and turn Hydra's and OmegaConf's errors into ours.

    `chosen` are the overrides; a hint names keys of the groups that they choose.
    """
    if not conf.is_dir():
        raise ConfigError(f"{conf}: no such folder of configurations")
    _store_defaults(conf)
    Plugins.instance().register(OwnOptions)
    with initialize_config_dir(str(conf.resolve()), version_base="1.3"):
        try:
            yield GlobalHydra.instance().config_loader()
        except (HydraException, OmegaConfBaseException) as error:
            raise _readable(error, chosen) from None


def _store_defaults(conf: Path) -> None:
    """Register with Hydra the group of all analyses, and the plugins of other packages."""
    store = ConfigStore.instance()
    store.store(name=_MAIN, node=OmegaConf.load(conf / "config.yaml"))
    found: dict[str, dict[str, type[Settings]]] = {
        "tool": dict(tools()),
        "analysis": {name: analysis.config for name, analysis in analyses().items()},
    }
    everything = {"defaults": list(found["analysis"])}
    store.store(name="all", group="analysis", node=everything, package="_global_")
    packages = {"tool": ("profkit.capture", "tools"), "analysis": ("profkit.analyze", "analyses")}
    for group, (package, section) in packages.items():
        for point in registry.external(package):
            kind = found[group][point.name]
            node = adapter(kind).dump_python(kind(), mode="json")
            store.store(name=point.name, group=group, node=node, package=f"{section}.{point.name}")
    for point in registry.external("profkit.workloads.models"):
        sizes = family(point.name)
        node = adapter(sizes).dump_python(sizes(), mode="json")
        names = {"name": point.name, "family": point.name}
        store.store(name=point.name, group="model", node=names | node)


def _normalised(override: str) -> str:
    key = override.partition("=")[0]
    return f"+{override}" if key in _OPTIONAL_GROUPS else override


def _parse(parser: OverridesParser, overrides: Sequence[str]) -> list[Override]:
    parsed: list[Override] = []
    for override in overrides:
        try:
            parsed += parser.parse_overrides([override])
        except HydraException as error:
            reason = str(error).strip().partition("\n")[0]
            hint = (
                "it follows Hydra's grammar; put text with commas, = or brackets in further quotes"
            )
            raise ConfigError(f"cannot read {override!r}: {reason}", hint=hint) from None
    return parsed


def _check_own(parsed: Sequence[Override]) -> None:
    """Refuse overrides of Hydra's own settings, which have no effect here."""
    for override in parsed:
        if re.split(r"[./@:]", override.key_or_group)[0] == "hydra":
            raise ConfigError(
                f"{override.input_line}: has no effect, as Hydra only composes here",
                hint="results lie in results/; sweeps are written as lists of values",
            )


def _sweeps_of_experiment(parsed: Sequence[Override]) -> list[str]:
    """Return the sweeps that the chosen experiments declare and the command line leaves alone."""
    chosen = [override for override in parsed if override.key_or_group in _OPTIONAL_GROUPS]
    if not chosen:
        return []
    plain = [str(override.input_line) for override in chosen if not override.is_sweep_override()]
    composed = compose(_MAIN, overrides=plain, return_hydra_config=True)
    params = OmegaConf.select(composed, "hydra.sweeper.params") or {}
    taken = {override.key_or_group for override in parsed}
    return [f"{key}={value}" for key, value in params.items() if key.lstrip("+") not in taken]


def _expanded(
    loader: ConfigLoader, parser: OverridesParser, parsed: Sequence[Override]
) -> Iterator[Composed]:
    """Yield the product of all sweeps; compose once for each distinct choice of groups.

    A compose takes 41 ms and setting a value in the result 1 ms, which is what makes a sweep of
    a thousand batch sizes bearable.
    """
    fixed = [str(override.input_line) for override in parsed if not override.is_sweep_override()]
    sweeps = [override for override in parsed if override.is_sweep_override()]
    axes = [_axis(sweep) for sweep in sweeps]
    values = {text: _parse(parser, [text])[0] for axis in axes for text in axis}
    is_group = [bool(loader.get_group_options(sweep.key_or_group)) for sweep in sweeps]
    groups = {
        text for axis, of_group in zip(axes, is_group, strict=True) if of_group for text in axis
    }
    swept = {values[text].key_or_group.partition(".")[0] for text in values if text not in groups}
    composed: dict[tuple[str, ...], DictConfig] = {}
    constant: dict[tuple[str, ...], dict[str, Any]] = {}
    for choice in itertools.product(*axes):
        key = tuple(text for text in choice if text in groups)
        if key not in composed:
            composed[key] = compose(_MAIN, overrides=[*fixed, *key])
            _check_appended(composed[key], parsed)
            constant[key] = _constant(composed[key], swept)
        for text in choice:
            if text not in groups:
                _set(composed[key], values[text])
        plain = constant[key] | _resolved(composed[key], skip=constant[key])
        overrides, passed_on = (*fixed, *choice), _passed_on(composed[key])
        yield Composed(values=plain, overrides=overrides, passed_on=passed_on)


def _passed_on(config: DictConfig) -> frozenset[str]:
    raw = [OmegaConf.to_container(config[key], resolve=False) for key in ("workload", "launcher")]
    # The throughput is no part of what the program does.
    texts = [{**section, "samples": None} for section in raw if isinstance(section, dict)]
    return frozenset(_INTERPOLATED.findall(repr(texts)))


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
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def _set(config: DictConfig, override: Override) -> None:
    if override.is_add():
        OmegaConf.update(config, override.key_or_group, override.value(), force_add=True)
    elif OmegaConf.is_missing(config, override.key_or_group) or _has(config, override):
        OmegaConf.update(config, override.key_or_group, override.value())
    else:
        raise _unknown_key(override.key_or_group, config)


def _has(config: DictConfig, override: Override) -> bool:
    absent = object()
    return OmegaConf.select(config, override.key_or_group, default=absent) is not absent


def _check_appended(config: DictConfig, parsed: Sequence[Override]) -> None:
    """Refuse ``tool=[a] +tool=b``, of which Hydra silently drops the second."""
    for section, group in (("tools", "tool"), ("analyses", "analysis")):
        for override in parsed:
            if override.key_or_group != group or not override.is_add():
                continue
            value = override.value()
            names = value if isinstance(value, list) else [value]
            if missing := [str(name) for name in names if str(name) not in config[section]]:
                raise ConfigError(
                    f"{override.input_line}: has no effect beside {group}=[...]",
                    hint=f"name all of them: {group}=[...,{','.join(missing)}]",
                )


def _unknown_key(key: str, config: DictConfig) -> ConfigError:
    """Return the error for a key that is not in `config`, with the nearest that is."""
    keys = list(_flat(OmegaConf.to_container(config, resolve=False)))
    if close := difflib.get_close_matches(key, keys, n=1, cutoff=0.75):
        return ConfigError(f"no such key: {key}", hint=f"did you mean {close[0]!r}?")
    folder, _, word = key.rpartition(".")
    siblings = [key.rpartition(".")[2] for key in keys if key.rpartition(".")[0] == folder]
    return ConfigError(f"no such key: {key}", hint=nearest(word, siblings or _tops(keys)))


def _tops(keys: Sequence[str]) -> list[str]:
    return [key for key in keys if "." not in key]


def _flat(values: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(values, dict):
        for key, value in values.items():
            yield f"{prefix}{key}"
            yield from _flat(value, f"{prefix}{key}.")


def _groups_only(chosen: Sequence[str]) -> DictConfig:
    """Compose what `chosen` says of groups, as far as Hydra accepts it."""
    kept: list[str] = []
    for override in chosen:
        key = override.lstrip("+~").partition("=")[0]
        if "." in key:
            continue
        try:
            compose(_MAIN, overrides=[*kept, override])
        except (HydraException, OmegaConfBaseException):
            continue
        kept.append(override)
    return compose(_MAIN, overrides=kept)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors during whose handling `error` was raised, from the last to the first."""
    while (earlier := error.__context__) is not None:
        yield earlier
        error = earlier


def _readable(error: Exception, chosen: Sequence[str]) -> ConfigError:
    text = str(error)
    for cause in _causes(error):
        if isinstance(cause, ConfigError):
            where = getattr(error, "full_key", None)
            return ConfigError(f"{where}: {cause}" if where else str(cause))
    if match := re.search(r"Could not (?:override|delete) '([^']+)'", text):
        return _unknown_key(match[1], _groups_only(chosen))
    if match := re.search(r"Multiple values for (\w+)\.", text):
        prefix = f"+{match[1]}="
        added = [word.removeprefix(prefix) for word in chosen if word.startswith(prefix)]
        hint = f"name them in one list: +{match[1]}=[{','.join(added)}]"
        return ConfigError(f"{match[1]}: added more than once", hint=hint)
    if match := re.search(r"An item is already at '([^']+)'", text):
        return ConfigError(f"+{match[1]}: the key is there already", hint="leave out the +")
    if match := re.search(r"Could not (?:find|load) '([^']+)/([^'/]+)'", text):
        group, name = match.groups()
        options = re.findall(r"^\t(\S+)$", text, flags=re.MULTILINE)
        return ConfigError(f"no {group} named {name!r}", hint=nearest(name, options))
    return ConfigError(text.strip().partition("\n")[0], hint="the overrides follow Hydra's grammar")
