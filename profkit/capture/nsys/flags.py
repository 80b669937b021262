"""Flags of ``nsys`` that the installed version knows; others are left out."""

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from profkit.capture.base import executable
from profkit.process import bounded_command

_HELP_TIMEOUT_S = 30
_FLAG = re.compile(r"^\s*(?:-\w, )?--([\w-]+)(?:\[([\w|]+)\])?=", re.MULTILINE)
_API = re.compile(r"'([\w-]+)'")


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """One flag of the settings."""

    names: tuple[str, ...]
    """Its names in all versions, the newest first, without dashes."""

    value: str
    """Text after the equals sign."""

    setting: str
    """Setting behind it; a flag with "" is left out without a warning."""


@dataclass(frozen=True, slots=True)
class KnownFlags:
    """Flags and APIs that the commands of one version accept."""

    flags: dict[str, frozenset[str]] = field(default_factory=dict)
    """Flags by command (profile, launch, start); a command that is absent accepts everything."""

    apis: frozenset[str] = frozenset()
    """Values of ``--trace``; empty if unknown, which accepts all."""

    def name(self, command: str, names: tuple[str, ...]) -> str:
        """Return the first of `names` that `command` knows, or ""."""
        if command not in self.flags:
            return names[0]
        return next((name for name in names if name in self.flags[command]), "")


def flags_in(text: str) -> frozenset[str]:
    """Return the names of the flags that a page of ``nsys COMMAND --help`` lists."""
    names = set()
    for name, ends in _FLAG.findall(text):
        names |= {f"{name}{end}" for end in ends.split("|")} if ends else {name}
    return frozenset(names)


def apis_in(text: str) -> frozenset[str]:
    """Return the values of ``--trace`` that a page of help lists; none if it does not."""
    _, found, after = text.partition("--trace=")
    listed = after.partition("Select the API")[0] if found else ""
    return frozenset(_API.findall(listed))


@functools.cache
def known_flags(binary: str) -> KnownFlags:
    """Return the flags that the installed `binary` knows; all flags if its help lists none."""
    pages = dict(_pages(binary))
    listed = {name: flags_in(text) for name, text in pages.items()}
    flags = {name: names for name, names in listed.items() if names}
    return KnownFlags(flags, apis_in(pages.get("profile", "")))


def _pages(binary: str) -> Iterator[tuple[str, str]]:
    """Yield commands with their pages of help, until one fails: the next would hang as well."""
    path = executable(binary)
    for command in ("profile", "launch", "start") if path else ():
        answer = bounded_command.ask([path, command, "--help"], timeout_s=_HELP_TIMEOUT_S)
        if answer.failure:
            return
        yield command, answer.text


def arguments(flags: Iterable[Flag], command: str, known: KnownFlags) -> list[str]:
    """Return those `flags` that `command` knows, as arguments."""
    named = [(known.name(command, flag.names), flag.value) for flag in flags]
    return [f"--{name}={value}" for name, value in named if name]


def unknown(flags: Iterable[Flag], commands: Iterable[str], known: KnownFlags) -> list[str]:
    """Return the settings behind those `flags` that none of `commands` knows."""
    names = list(commands)
    return [
        flag.setting
        for flag in flags
        if flag.setting and not any(known.name(name, flag.names) for name in names)
    ]
