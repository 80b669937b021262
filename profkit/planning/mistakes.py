"""Mistakes in overrides and YAML files: found early where Hydra is silent, and said in words."""

import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from hydra import compose
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from profkit.core import resources, run_settings
from profkit.core.errors import ConfigError
from profkit.core.settings import nearest
from profkit.planning import own_files
from profkit.planning.option_files import MAIN

FOREIGN = (
    HydraException,
    OmegaConfBaseException,
    yaml.YAMLError,
    ValueError,
    RecursionError,
)
"""Errors of those who compose, for `readable`."""

# Groups of which several options may be chosen for one run.
_LISTS = ("tool", "toolset", "analysis", "experiment")
_ENTRIES = {"tool": "tools", "analysis": "analyses"}
_NO_KEY = re.compile(r"Could not (?:override|delete|delete from config\.) '([^']+)'")
_READ = re.compile(r"\$\{(\w+)")
_EMPTY = {"tools": "tool=[]", "analyses": "analysis=[]"}
_LONGEST = 1000
_REPORT = "report"
_OF_ALL_RUNS = (_REPORT, *run_settings.NAMES)
_SHOWN = 60
_CLOSE = "close each ${ by a }"
_GRAMMAR = "the overrides follow Hydra's grammar"


def check(parsed: Sequence[Override], loader: ConfigLoader, main: Collection[Any]) -> None:
    """Refuse overrides that Hydra takes without a word, or stumbles over.

    `main` are the keys of config.yaml; others may be added for an interpolation to read.
    """
    _check_swept_once(parsed)
    read = {key for one in parsed for key in _READ.findall(str(one.input_line))}
    for override in parsed:
        key, line = override.key_or_group, str(override.input_line)
        if not key:
            raise ConfigError(f"{line}: no key before the =", hint="write key=value")
        if re.split(r"[./@:]", key)[0] == "hydra":
            raise ConfigError(
                f"{line}: has no effect, as Hydra only composes here",
                hint="results lie in results/; sweeps are written as lists of values",
            )
        if override.is_sweep_override() and key.partition(".")[0] in _OF_ALL_RUNS:
            raise of_all_runs(key)
        options = loader.get_group_options(key)
        if override.is_delete():
            _check_deleted(override, options, _names(main, loader))
        elif options:
            _check_choice(override, options)
        elif "." not in key and not (key in main or _is_group(key, loader) or key in read):
            raise ConfigError(f"no such key: {key}", hint=nearest(key, _names(main, loader)))


def of_all_runs(key: str) -> ConfigError:
    """Return the error for a sweep over `key`, which all runs have in common."""
    if key.partition(".")[0] == _REPORT:
        return ConfigError(
            "report: cannot be swept, as all runs have one report",
            hint="put text with commas in further quotes: 'report.title=\"a, b\"'",
        )
    return ConfigError(f"{', '.join(run_settings.NAMES)} cannot be swept: they make no other run")


def no_option(group: str, name: str, options: Sequence[str]) -> ConfigError:
    """Return the error for `name`, which `group` has no option of; `options` are those it has."""
    return ConfigError(f"no {group} named {name!r}", hint=nearest(name, options))


def noted(chosen_by: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a note on what was written and does not count: in overrides, and beside them."""
    yield from own_files.unread_main()
    for overrides in chosen_by:
        yield from repeated(overrides)


def repeated(overrides: Sequence[str]) -> Iterator[str]:
    """Yield a note on each key that `overrides` set to several values."""
    for key, values in _values_by_key(overrides).items():
        if len(values) > 1:
            yield (
                f"{key} is set {len(values)} times, and the last counts: {values[-1]};"
                f" {_all_of(key, values)}"
            )


def _check_swept_once(parsed: Sequence[Override]) -> None:
    """Refuse a sweep over a key that is set otherwise as well, as Hydra then mixes both."""
    swept = {override.key_or_group for override in parsed if override.is_sweep_override()}
    for key, values in _values_by_key([str(one.input_line) for one in parsed]).items():
        if key in swept and len(values) > 1:
            text = f"{key} is set to {' and to '.join(values)}"
            raise ConfigError(text, hint=_all_of(key, values))


def _values_by_key(overrides: Sequence[str]) -> dict[str, list[str]]:
    """Return the different values that `overrides` set each key to, the last one last."""
    found: dict[str, dict[str, None]] = {}
    for override in overrides:
        key, _, value = override.partition("=")
        # What is added to a list twice, and a key that is added and there, Hydra refuses itself.
        if key.startswith(("+", "~")) and not key.startswith("++"):
            continue
        values = found.setdefault(key.lstrip("+"), {})
        values.pop(value, None)
        values[value] = None
    return {key: list(values) for key, values in found.items()}


def _all_of(key: str, values: Sequence[str]) -> str:
    if key in _LISTS:
        return f"all of them are {key}=[{','.join(value.strip('[]') for value in values)}]"
    if any("(" in value for value in values):
        return "name all values in one list"
    return f"a run for each is {key}={','.join(values)}"


def _check_choice(override: Override, options: Sequence[str]) -> None:
    """Refuse what is no name of an option, and several names where one is chosen."""
    key, value, line = override.key_or_group, override.value(), str(override.input_line)
    if override.is_sweep_override():
        if override.is_add() and key == "tool":
            hint = f"name them in one list: +{key}=[{line.partition('=')[2]}]"
            raise ConfigError(f"{line}: what is added is added to all runs", hint=hint)
        return
    names = value if isinstance(value, list) else [value]
    if any(not isinstance(name, str) or not name.strip() for name in names):
        raise ConfigError(f"{line}: {key} is chosen by name", hint=nearest("", options))
    if isinstance(value, list) and key not in _LISTS:
        swept = f"{key}={','.join(map(str, names))}"
        raise ConfigError(f"{line}: a run has one {key}", hint=f"a run for each is {swept}")


def _check_deleted(override: Override, options: Sequence[str], known: Sequence[str]) -> None:
    """Refuse to take away what a run has to have: its groups, and the values of settings."""
    key, line = override.key_or_group, override.input_line
    if (entries := _ENTRIES.get(key)) and (name := override.value()):
        raise ConfigError(f"{line}: {key} is a list", hint=f"leave one out with ~{entries}.{name}")
    section, *names = key.split(".")
    if section not in known:
        raise ConfigError(f"no such key: {section}", hint=nearest(section, known))
    is_entry = (section in ("tools", "analyses") and len(names) == 1) or names[:1] == ["env"]
    if is_entry or key in _LISTS:
        return
    if options:
        raise ConfigError(f"{line}: a run has one {key}", hint=f"choose from: {', '.join(options)}")
    hint = f"write {_EMPTY.get(key, f'{key}=VALUE, or leave it out for its default')}"
    raise ConfigError(f"{line}: a setting has to have a value", hint=hint)


def _names(main: Collection[Any], loader: ConfigLoader) -> list[str]:
    return sorted({*map(str, main), *loader.list_groups("")} - {"defaults", "hydra"})


def _is_group(key: str, loader: ConfigLoader) -> bool:
    """Say whether `key` is a group, which its package may follow."""
    return bool(loader.get_group_options(re.split(r"[@:]", key)[0]))


def cannot_read(override: str, error: Exception, parser: OverridesParser) -> ConfigError:
    """Return the error for an override that Hydra cannot parse, with one that it can."""
    if len(override) > _LONGEST:
        start = f"{override[:_SHOWN]}... ({len(override):,} characters)"
        return ConfigError(f"cannot read {start}", hint="look at the quotes and brackets around it")
    reason = str(error).strip().partition("\n")[0]
    said = "" if "Exception" in reason or override in reason else f": {reason}"
    return ConfigError(f"cannot read {override!r}{said}", hint=_repaired(override, parser))


def _repaired(override: str, parser: OverridesParser) -> str:
    key, is_set, value = override.partition("=")
    if not is_set:
        return f"write {key}=VALUE; a program is profiled by: profkit profile -- python train.py"
    if not own_files.is_readable(value):
        return _CLOSE
    words = override.split()
    if len(words) > 1 and all("=" in word for word in words):
        return f"these are several overrides: quote each alone, {shlex.join(words)}"
    quoted = value.strip("\"'").replace('"', '\\"')
    text = f'{key}="{quoted}"'
    try:
        parser.parse_overrides([text])
    except FOREIGN:
        return f"{_GRAMMAR}; put text with commas, = or brackets in further quotes"
    return f"put the text in further quotes: {shlex.quote(text)}"


def unknown_key(key: str, config: DictConfig) -> ConfigError:
    """Return the error for a key that is not in `config`, with the nearest that is."""
    keys = list(_flat(OmegaConf.to_container(config, resolve=False)))
    if key.rpartition(".")[0].endswith(".env"):
        return ConfigError(f"{key}: a new variable", hint=f"write +{key}=VALUE")
    if key in keys:
        return ConfigError(f"{key}: new keys are added, not set", hint=f"write +{key}=VALUE")
    if close := difflib.get_close_matches(key, keys, n=1, cutoff=0.75):
        return ConfigError(f"no such key: {key}", hint=f"did you mean {close[0]!r}?")
    section, *names = key.split(".")
    entries = [one.partition(".")[2] for one in keys if one.count(".") == 1]
    for group, of_group in _ENTRIES.items():
        if section == of_group and len(names) > 1 and names[0] not in entries:
            hint = f"{names[0]} is none of the {of_group} of this run; add it: +{group}={names[0]}"
            return ConfigError(f"no such key: {key}", hint=hint)
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
    groups = [word for word in chosen if "." not in word.lstrip("+~").partition("=")[0]]
    try:
        return compose(MAIN, overrides=groups)
    except (HydraException, OmegaConfBaseException):
        pass  # of which one, is seen one by one
    kept: list[str] = []
    for override in groups:
        try:
            compose(MAIN, overrides=[*kept, override])
        except (HydraException, OmegaConfBaseException):
            continue
        kept.append(override)
    return compose(MAIN, overrides=kept)


def readable(error: BaseException, chosen: Sequence[str]) -> ConfigError:
    """Return an error of `FOREIGN` in words; `chosen` are the overrides, for their groups' keys."""
    for cause in _causes(error):
        if isinstance(cause, ConfigError):
            return ConfigError(f"{_where(error)}{cause}")
    if isinstance(error, HydraException | OmegaConfBaseException):
        return _of_overrides(error, chosen)
    if match := re.search(r"Invalid defaults list in '([^']+)', (.*)", str(error)):
        text = f"conf/{match[1]}.yaml: {match[2]}"
        return ConfigError(text, hint="write defaults: [override /model: gpt_tiny], for one")
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark):
        problem = error.problem or error.context or "is no YAML"
        hint = "mend that line; text with special characters needs quotes"
        return ConfigError(f"{mark.name}:{mark.line + 1}: {problem}", hint=hint)
    if isinstance(error, RecursionError):
        text = "the options of conf/ include one another without an end"
        return ConfigError(text, hint="look at the lists `defaults` in the files that were chosen")
    if not isinstance(error, UnicodeDecodeError):
        raise error
    files = (path for folder in resources.folders() for path in sorted(folder.rglob("*.yaml")))
    named = ", ".join(str(path) for path in files if not _is_utf8(path))
    return ConfigError(f"{named or 'conf/'}: not UTF-8: {error}", hint="save it as UTF-8")


def _is_utf8(path: Path) -> bool:
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors during whose handling `error` was raised, from the last to the first."""
    while (earlier := error.__context__) is not None:
        yield earlier
        error = earlier


def _where(error: BaseException) -> str:
    """Return the key that OmegaConf was at, with a colon."""
    key = getattr(error, "full_key", None)
    return f"{key}: " if key else ""


def _of_overrides(error: Exception, chosen: Sequence[str]) -> ConfigError:
    text = str(error)
    if match := _NO_KEY.search(text):
        return unknown_key(match[1], _groups_only(chosen))
    if match := re.search(r"Multiple values for (\w+)\.", text):
        prefix = f"+{match[1]}="
        added = [word.removeprefix(prefix) for word in chosen if word.startswith(prefix)]
        hint = f"name them in one list: +{match[1]}=[{','.join(added)}]"
        return ConfigError(f"{match[1]}: added more than once", hint=hint)
    if match := re.search(r"An item is already at '([^']+)'", text):
        return ConfigError(f"+{match[1]}: the key is there already", hint="leave out the +")
    if match := re.search(r"Could not (?:find|load) '([^']+)/([^'/]*)'", text):
        group, name = match.groups()
        # Of a list of names, Hydra does not say what there is.
        options = GlobalHydra.instance().config_loader().get_group_options(group)
        return no_option(group, name, options)
    if match := re.match(r"(?:In '([^']+)': \w+ raised while|Error merging override )", text):
        return _of_merging(match[1], text, chosen)
    return _of_interpolation(error, text, chosen)


def _of_merging(option: str | None, text: str, chosen: Sequence[str]) -> ConfigError:
    """Return the error for an override, or a file of `option`, whose content fits no section."""
    if option is None:
        override = text.partition("override ")[2]
        key = override.partition("=")[0].lstrip("+")
        hint = f"set one of its keys, as in {key}.KEY=VALUE"
        return ConfigError(f"{override}: {key} is a section", hint=hint)
    path = Path("conf", f"{option}.yaml")
    sections = own_files.sections(OmegaConf.to_container(compose(MAIN), resolve=False))
    files = [file for file in own_files.chosen(chosen) if file.path == path]
    found = [text for file in files if (text := own_files.misplaced(file, sections))]
    return ConfigError(found[0] if found else f"{path}: is no section where one belongs")


def placed(error: ConfigError, overrides: Sequence[str]) -> ConfigError:
    """Return `error` with file and line behind each key whose value a file of the user's gives."""
    files = own_files.chosen(overrides)
    lines = str(error).splitlines()
    keys = [match[1] if (match := re.match(r" *([\w.]+): ", line)) else "" for line in lines]
    names = [word.lstrip("+").partition("=")[0] for word in overrides]
    overridden = {"", *(name for name in names if not resources.folders(name))}
    places = ["" if key in overridden else own_files.place_of(key, files) for key in keys]
    pairs = zip(lines, places, strict=True)
    return ConfigError("\n".join(f"{line} ({place})" if place else line for line, place in pairs))


def _of_interpolation(error: Exception, text: str, chosen: Sequence[str]) -> ConfigError:
    where = _where(error)
    if "Recursive interpolation" in text:
        hint = "give one of the keys that it goes through a value of its own"
        return ConfigError(f"{where}its ${{...}} leads back to itself", hint=hint)
    if match := re.search(r"Interpolation key '([^']+)' not found", text):
        config = compose(MAIN)
        return ConfigError(f"{where}{unknown_key(match[1], config)}")
    if match := re.search(r"Unsupported interpolation type (\S+)", text):
        hint = "${key} reads a key, ${oc.env:NAME} an environment variable"
        return ConfigError(f"{where}${{{match[1]}:...}}: no such resolver", hint=hint)
    if line := text.strip().partition("\n")[0]:
        return ConfigError(f"{where}{line}", hint=_GRAMMAR)
    place = own_files.unreadable(own_files.chosen(chosen))
    words = [word for word in chosen if not own_files.is_readable(word)]
    found = place or next(iter(words), "an override or a file of conf/")
    return ConfigError(f"{found}: cannot be read", hint=_CLOSE)
