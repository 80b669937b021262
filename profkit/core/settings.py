"""Settings dataclasses, and how plain data from ``conf/`` becomes one or a readable error."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from profkit.core.errors import ConfigError

# Imported where settings are checked: conversions and timelines do not wait for pydantic.
if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

T = TypeVar("T")

ADDED_LATER = MappingProxyType({"is_added_later": True})
"""Metadata of a setting that came after captures had been made without it.

``threads: PositiveInt | None = field(default=None, metadata=ADDED_LATER)``

With its default, which may never change, all is as it was before there was the setting. It is left
out of records then: runs keep their names, and captures stay fresh.
"""

_MOST_LISTED = 60

_adapters: "dict[type[Any], TypeAdapter[Any]]" = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Inherit, add typed fields with defaults, and put a docstring under each."""

    __pydantic_config__: ClassVar["ConfigDict"] = {"extra": "forbid"}


def nearest(name: str, candidates: Iterable[str], listed: Iterable[str] = ()) -> str:
    """Return a hint that names the candidates most like `name`, or else `listed` or all ones."""
    choices = sorted(candidates)
    begun = [choice for choice in choices if name and choice.startswith(name)]
    close = begun or difflib.get_close_matches(name, choices, n=1, cutoff=0.7)
    if not choices:
        return "there is none"
    if not close:
        shown = list(listed) or choices
        left = len(shown) - _MOST_LISTED
        more = f" and {left} more" if left > 0 else ""
        return f"choose from: {', '.join(shown[:_MOST_LISTED])}{more}"
    *others, last = map(repr, close)
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


def known(what: str, name: str, plugins: Mapping[str, T]) -> T:
    """Return ``plugins[name]``, or raise a `ConfigError` that names the nearest one there is."""
    if name not in plugins:
        raise ConfigError(f"no {what} named {name!r}", hint=nearest(name, plugins))
    return plugins[name]


def from_json(flag: str, text: str) -> dict[str, Any]:
    """Return the JSON object `text`, the value of command-line option `flag`."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{flag} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{flag} must be a JSON object, got {text}")
    return value


def adapter(kind: type[Any]) -> "TypeAdapter[Any]":
    """Return the validator of the class `kind`; cached, because making one takes 20 ms."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - see above

    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def plain(settings: object) -> dict[str, Any]:
    """Return `settings` as plain data for records, which say by it what has changed."""
    read = adapter(type(settings)).dump_python(settings, mode="json")
    return _without_defaults_added_later(settings, read)


def _without_defaults_added_later(settings: Any, read: dict[str, Any]) -> dict[str, Any]:
    kept = dict(read)
    for one in fields(settings):
        value = getattr(settings, one.name)
        if one.metadata == ADDED_LATER and value == one.default:
            del kept[one.name]
        elif is_dataclass(value):
            kept[one.name] = _without_defaults_added_later(value, read[one.name])
    return kept


def checked(where: str, kind: type[T], settings: object) -> T:
    """Build a `kind` from plain data, or raise a `ConfigError` that names each bad key."""
    from pydantic import ValidationError  # noqa: PLC0415 - see above

    try:
        read = cast("T", adapter(kind).validate_python(settings))
    except ValidationError as error:
        problems = [
            _problem(where, kind, [str(key) for key in problem["loc"]], problem)
            for problem in error.errors(include_url=False)
        ]
        raise ConfigError("\n  ".join(["invalid configuration", *problems])) from None
    if isinstance(settings, Mapping):
        problems = [*_truths_as_numbers(where, settings, adapter(kind).dump_python(read))]
        if problems:
            raise ConfigError("\n  ".join(["invalid configuration", *problems]))
    return read


def _truths_as_numbers(where: str, given: object, read: object) -> Iterator[str]:
    """Yield a line for each true or false that was `given` and would be `read` as 1 or 0."""
    if isinstance(given, bool) and isinstance(read, int | float) and not isinstance(read, bool):
        yield f"{where}: Input should be a number, got {given}"
    elif isinstance(given, Mapping) and isinstance(read, Mapping):
        for key in given:
            yield from _truths_as_numbers(f"{where}.{key}".lstrip("."), given[key], read.get(key))
    elif isinstance(given, list | tuple) and isinstance(read, list | tuple):
        for one, other in zip(given, read, strict=False):
            yield from _truths_as_numbers(where, one, other)


def _problem(where: str, kind: type, keys: list[str], problem: Mapping[str, object]) -> str:
    path = ".".join([where, *keys] if where else keys)
    if problem["type"] == "unexpected_keyword_argument" and is_dataclass(kind) and len(keys) == 1:
        return f"{path}: no such key; {nearest(keys[0], [field.name for field in fields(kind)])}"
    # Not above: its patterns take longer to compile than most jobs take for their settings.
    from profkit.core.secret_masking import Masker  # noqa: PLC0415

    given = Masker().document(problem["input"], name=path)
    return f"{path}: {problem['msg']}, got {given!r}"
