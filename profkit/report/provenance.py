"""Provenance of the runs: machines, versions, sources, commands, and how runs differ in them."""

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any

from profkit.core import result
from profkit.core.formatting import milliseconds
from profkit.core.saved_results import BEFORE
from profkit.report import result_tree, view
from profkit.report.column_labels import columns
from profkit.report.labelled_values import Item
from profkit.report.shown_run import ShownRun, cell_value

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


def manifest(run: result_tree.Run) -> tuple[tuple[str, tuple[Item, ...]], ...]:
    """Return machine, versions, environment and git state, each as labelled values."""
    versions = run.manifest.get("versions") or _of_captures(run, "versions")
    parts = {
        "Machine": tuple(_items(_machine(run))),
        "Hosts of the ranks": tuple(_places(run)),
        "Versions": tuple(
            Item(label=key, value=cell_value(version)) for key, version in versions.items()
        ),
        "Environment": tuple(
            Item(label=key, value=cell_value(value))
            for key, value in (run.manifest.get("environment") or {}).items()
        ),
        "Sources": tuple(_items({**_git(run), **_part(run, "script", "script")})),
    }
    return tuple((title, items) for title, items in parts.items() if items)


def _places(run: result_tree.Run) -> Iterator[Item]:
    """Yield where each rank ran, if it was not all on one host."""
    places = next((capture.places for capture in run.captures if capture.places), ())
    # Containers and cloned machines may have one name.
    if len({(place.get("hostname"), place.get("node")) for place in places}) > 1:
        for place in places:
            text = str(place.get("hostname"))
            if place.get("node") is not None:
                text += f" (node {place['node']}, local rank {place.get('local_rank')})"
            yield Item(label=str(place.get("label")), value=text)


def listings(run: result_tree.Run) -> tuple[view.Listing, ...]:
    """Return the longer texts of the run's provenance: commands, changes, packages."""
    packages = run.manifest.get("packages") or {}
    texts = {
        "Commands": "\n".join(_commands(run)),
        **{
            f"Changes of {name} that were not committed": state["diff"][:_MAX_DIFF]
            for name, state in (run.manifest.get("git") or {}).items()
            if isinstance(state, dict) and "diff" in state
        },
        "All packages": "\n".join(f"{name} {cell_value(of)}" for name, of in packages.items()),
    }
    return tuple(view.Listing(title=title, text=text) for title, text in texts.items() if text)


def _commands(run: result_tree.Run) -> Iterator[str]:
    """Yield how to make the run again, and the command lines of its captures, each once."""
    yield shlex.join(["profkit", "reproduce", run.selected.run])
    seen = {(capture.tool, capture.command): capture for capture in run.captures if capture.command}
    yield from (f"{tool}: {shlex.join(command)}" for tool, command in seen)


def differences(shown_runs: Sequence[ShownRun]) -> tuple[str, ...]:
    """Return a note for each fact that is not the same in all captures of the selection."""
    found: dict[str, dict[str, dict[str, None]]] = defaultdict(lambda: defaultdict(dict))
    for shown_run in shown_runs:
        for name, value in _comparable(shown_run.run):
            found[name][value][shown_run.anchor_link.text] = None
    facts = tuple(
        f"{name} is not the same everywhere: {'; '.join(starmap(_with_runs, by_value.items()))}"
        for name, by_value in found.items()
        if len(by_value) > 1
    )
    edited = _edited([shown_run.run for shown_run in shown_runs])
    return (*facts, *([f"Captures ran different versions of {', '.join(edited)}."] * bool(edited)))


def _edited(runs: Sequence[result_tree.Run]) -> list[str]:
    """Return the files of which captures ran different versions."""
    hashes: dict[str, set[str]] = defaultdict(set)
    for source in (source for run in runs for one in run.captures for source in one.sources):
        hashes[source.path].add(source.sha256)
    return sorted(path for path in hashes if len(hashes[path]) > 1)


def _comparable(run: result_tree.Run) -> Iterator[tuple[str, str]]:
    """Yield the facts that captures should share to be compared; those not stated are left out."""
    for captured in run.captures:
        machine, versions = captured.machine, captured.versions
        yield from ((_FACTS[key], str(machine[key])) for key in _FACTS if key in machine)
        if "gpus" in machine:
            names = [str(gpu.get("name", "a GPU without a name")) for gpu in machine["gpus"]]
            yield "The set of GPUs", ", ".join(names)
        yield from ((f"The version of {name}", str(version)) for name, version in versions.items())
    for name, state in (run.manifest.get("git") or {}).items():
        for repository in state if isinstance(state, list) else [state]:
            if repository:
                changes = (
                    f" with changes {str(repository['diff_sha256'])[:8]}"
                    if "diff_sha256" in repository
                    else ""
                )
                yield f"The commit of {name}", str(repository.get("commit", ""))[:12] + changes


def _with_runs(value: str, runs: Mapping[str, None]) -> str:
    """Return one value with the first runs that have it."""
    first = ", ".join(list(runs)[:_MAX_NAMED])
    more = f" and {len(runs) - _MAX_NAMED} more" if len(runs) > _MAX_NAMED else ""
    return f"{value or 'none'} ({first}{more})"


def machines(runs: Sequence[result_tree.Run]) -> tuple[view.Machine, ...]:
    """Return each machine that the runs were captured on, once."""
    found = (machine for run in runs if (machine := _machine(run)))
    return tuple(
        dict.fromkeys(
            view.Machine(title=_named(machine), items=tuple(_items(machine))) for machine in found
        )
    )


def _named(machine: dict[str, Any]) -> str:
    gpus = [str(gpu.get("name", "GPU")) for gpu in machine.get("gpus") or []]
    parts = [machine.get("hostname"), machine.get("cpu"), *dict.fromkeys(gpus)]
    return ", ".join(str(part) for part in parts if part)


def ran(run: result_tree.Run) -> Iterator[str]:
    """Yield what ran where: the program or the model, its size, its ranks, machine and torch."""
    behaviour = run.selected.behaviour
    workload = behaviour.get("workload") or {}
    kind = behaviour.get("imported")
    yield from [f"imported {kind}"] * bool(kind)
    if command := workload.get("command"):
        yield command if isinstance(command, str) else shlex.join(map(str, command))
    else:
        yield from filter(None, [(behaviour.get("model") or {}).get("name")])
        yield from (f"batch {batch}" for batch in [behaviour.get("batch")] if batch)
    yield from filter(None, [_zero(behaviour)])
    recorded = {label for capture in run.captures for label in capture.ranks}
    # An imported file may hold any number of ranks, and be that of any one.
    ranks = len(recorded) if kind else behaviour.get("world_size", 1)
    if ranks > 1 or not kind:
        yield f"{ranks} {'rank' if ranks == 1 else 'ranks'}"
    yield from filter(None, [_named(_machine(run))])
    versions = run.manifest.get("versions") or _of_captures(run, "versions")
    yield from (f"torch {versions[name]}" for name in ("torch",) if versions.get(name))


def before(run: result_tree.Run, history: result.Document | None) -> Iterator[str]:
    """Yield what a step took before the program changed, or it was recorded anew, and now."""
    points = history.result.tables.get("points") if history else None
    name = run.selected.run
    times = {
        row["result"]: milliseconds(float(row["step_time_ns"]) / 1e6)
        for row in (points.records() if points else ())
        if row["series"] == name and row["step_time_ns"] is not None
    }
    if earlier := times.pop(f"{BEFORE}{name}", ""):
        yield from (f"a step {earlier} ms before, {now} ms now" for now in [*times.values()][-1:])


def _zero(behaviour: Mapping[str, Any]) -> str:
    name = str((behaviour.get("zero") or {}).get("name", "none"))
    return "" if name == "none" else f"ZeRO {name.removeprefix('zero')}"


def _git(run: result_tree.Run) -> dict[str, Any]:
    """Return the states of the repositories, without the texts of changes."""
    return {
        name: {key: value for key, value in state.items() if key not in _TEXTS}
        if isinstance(state, dict)
        else [{"commit": repository.get("commit")} for repository in state]
        for name, state in (run.manifest.get("git") or {}).items()
    }


def _part(run: result_tree.Run, name: str, title: str) -> dict[str, Any]:
    found = run.manifest.get(name)
    return {title: found} if found else {}


def _machine(run: result_tree.Run) -> dict[str, Any]:
    """Return what is known of the machine: of an import, the GPUs that its files describe."""
    names = dict.fromkeys(name for conversion in run.conversions for name in conversion.gpus)
    described = {"gpus": [{"name": name} for name in names]} if names else {}
    return run.manifest.get("machine") or _of_captures(run, "machine") or described


def _of_captures(run: result_tree.Run, part: str) -> dict[str, Any]:
    """Return `part` of the first capture that has it, for a run whose manifest is gone."""
    found = [getattr(capture, part) for capture in run.captures]
    return next((value for value in found if value), {})


def _items(value: dict[str, Any]) -> Iterator[Item]:
    flat = dict(_flat(value))
    for named, inner in zip(columns(list(flat)), flat.values(), strict=True):
        yield Item(label=named.label, value=cell_value(inner), unit=named.unit)


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the known values with their paths as keys; GPUs are numbered."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _flat(inner, f"{prefix}{key}_")
        elif isinstance(inner, list) and any(isinstance(item, dict) for item in inner):
            numbered = {str(index): item for index, item in enumerate(inner)}
            yield from _flat(numbered, f"{prefix}{key.removesuffix('s')}_")
        elif inner not in (None, "", []):
            yield f"{prefix}{key}", ", ".join(map(str, inner)) if isinstance(inner, list) else inner
