"""What made the runs: machines, versions, sources, commands, and where runs differ in them."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from profkit.report import sources, view
from profkit.report.place import Place, plain
from profkit.report.units import columns

# The rest is in the manifest.
_MAX_DIFF = 20_000
_MAX_NAMED = 3
_TEXTS = ("diff", "diff_is_cut", "untracked")
_FACTS = {
    "hostname": "The machine",
    "os": "The operating system",
    "python": "The version of Python",
    "cpu": "The CPU",
    "cpu_count": "The number of usable CPUs",
    "driver": "The version of the driver",
    "cuda": "The CUDA version of torch",
    "nccl": "The version of NCCL",
}


def manifest(run: sources.Run) -> tuple[tuple[str, tuple[view.Item, ...]], ...]:
    """Return machine, versions, environment and git state, each as labelled values."""
    versions = run.manifest.get("versions") or _of_captures(run, "versions")
    parts = {
        "Machine": tuple(_items(_machine(run))),
        "Versions": tuple(
            view.Item(label=key, value=plain(each)) for key, each in versions.items()
        ),
        "Environment": tuple(
            view.Item(label=key, value=plain(each))
            for key, each in (run.manifest.get("environment") or {}).items()
        ),
        "Sources": tuple(_items({**_git(run), **_part(run, "script", "script")})),
    }
    return tuple((title, items) for title, items in parts.items() if items)


def listings(run: sources.Run) -> tuple[view.Listing, ...]:
    """Return the longer texts of what made the run: commands, changes, packages."""
    packages = run.manifest.get("packages") or {}
    texts = {
        "Commands": "\n".join(_commands(run)),
        **{
            f"Changes of {name} that were not committed": state["diff"][:_MAX_DIFF]
            for name, state in (run.manifest.get("git") or {}).items()
            if isinstance(state, dict) and "diff" in state
        },
        "All packages": "\n".join(f"{name} {version}" for name, version in packages.items()),
    }
    return tuple(view.Listing(title=title, text=text) for title, text in texts.items() if text)


def _commands(run: sources.Run) -> Iterator[str]:
    """Yield how to make the run again, and the command lines of its captures, each once."""
    yield shlex.join(["profkit", "reproduce", run.selected.run])
    seen = {(each.tool, each.command): each for each in run.captures if each.command}
    yield from (f"{tool}: {shlex.join(command)}" for tool, command in seen)


def differences(places: Sequence[Place]) -> tuple[str, ...]:
    """Return a note for each fact that is not the same in all captures of the selection."""
    found: dict[str, dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for place in places:
        for name, value in _comparable(place.run):
            found[name][value][place.here.text] = None
    return tuple(
        f"{name} is not the same everywhere: {'; '.join(starmap(_said, by_value.items()))}"
        for name, by_value in found.items()
        if len(by_value) > 1
    )


def _comparable(run: sources.Run) -> Iterator[tuple[str, str]]:
    """Yield what captures should share to be compared; what one does not state is left out."""
    for captured in run.captures:
        machine, versions = captured.machine, captured.versions
        yield from ((_FACTS[key], str(machine[key])) for key in _FACTS if key in machine)
        if "gpus" in machine:
            names = [str(each.get("name", "a GPU without a name")) for each in machine["gpus"]]
            yield "The set of GPUs", ", ".join(names)
        yield from ((f"The version of {name}", str(each)) for name, each in versions.items())
    for name, state in (run.manifest.get("git") or {}).items():
        for each in state if isinstance(state, list) else [state]:
            if each:
                changes = (
                    f" with changes {str(each['diff_sha256'])[:8]}" if "diff_sha256" in each else ""
                )
                yield f"The commit of {name}", str(each.get("commit", ""))[:12] + changes


def _said(value: str, runs: Mapping[str, None]) -> str:
    """Return one value with the first runs that have it."""
    first = ", ".join(list(runs)[:_MAX_NAMED])
    more = f" and {len(runs) - _MAX_NAMED} more" if len(runs) > _MAX_NAMED else ""
    return f"{value or 'none'} ({first}{more})"


def machines(runs: Sequence[sources.Run]) -> tuple[view.Machine, ...]:
    """Return each machine that the runs were captured on, once."""
    found = (each for run in runs if (each := _machine(run)))
    return tuple(
        dict.fromkeys(view.Machine(title=_named(each), items=tuple(_items(each))) for each in found)
    )


def _named(machine: dict[str, Any]) -> str:
    gpus = [str(each.get("name", "GPU")) for each in machine.get("gpus") or []]
    parts = [machine.get("hostname"), machine.get("cpu"), *dict.fromkeys(gpus)]
    return ", ".join(str(part) for part in parts if part)


def _git(run: sources.Run) -> dict[str, Any]:
    """Return the states of the repositories, without the texts of changes."""
    return {
        name: {key: each for key, each in state.items() if key not in _TEXTS}
        if isinstance(state, dict)
        else [{"commit": each.get("commit")} for each in state]
        for name, state in (run.manifest.get("git") or {}).items()
    }


def _part(run: sources.Run, name: str, title: str) -> dict[str, Any]:
    found = run.manifest.get(name)
    return {title: found} if found else {}


def _machine(run: sources.Run) -> dict[str, Any]:
    return run.manifest.get("machine") or _of_captures(run, "machine")


def _of_captures(run: sources.Run, part: str) -> dict[str, Any]:
    """Return what the first capture says, for a run whose manifest is gone."""
    found = [getattr(each, part) for each in run.captures]
    return next((each for each in found if each), {})


def _items(value: dict[str, Any]) -> Iterator[view.Item]:
    flat = dict(_flat(value))
    for named, inner in zip(columns(list(flat)), flat.values(), strict=True):
        yield view.Item(label=named.label, value=plain(inner), unit=named.unit)


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what is known, with the path to it as its key; of several GPUs each is one."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _flat(inner, f"{prefix}{key}_")
        elif isinstance(inner, list) and any(isinstance(each, dict) for each in inner):
            numbered = {str(index): each for index, each in enumerate(inner)}
            yield from _flat(numbered, f"{prefix}{key.removesuffix('s')}_")
        elif inner not in (None, "", []):
            yield f"{prefix}{key}", ", ".join(map(str, inner)) if isinstance(inner, list) else inner
