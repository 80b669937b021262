"""What users of a script should know: settings that it never reads, and how often it runs."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping

from profkit.planning.compose import Composed
from profkit.planning.model import Run, ToolPlan
from profkit.workloads import workload_settings
from profkit.workloads.base import BaseWorkload

# What a command can pass on to a program; the ranks and their layout are the launcher's.
_PASSED_ON = {
    *("model", "zero", "batch", "precision", "compile", "grad_accumulation"),
    *("steps", "seed", "device"),
}
_SEVERAL = re.compile(r"[^\[{(\"']*,.*|(?:range|choice|glob)\(.*")
_EXAMPLES = {"model": "${model.name}", "zero": "${zero.stage}"}


def placeholder(key: str) -> str:
    """Return what stands in a command for the value of `key`."""
    return _EXAMPLES.get(key, f"${{{key}}}")


def unread(composed: Composed, workload: BaseWorkload) -> frozenset[str]:
    """Return the keys of the configuration that do not reach `workload`."""
    if workload.reads_configuration:
        return frozenset()
    return frozenset(_PASSED_ON - composed.passed_on)


def swept_in_vain(given: Iterable[str], words: Iterable[str]) -> str:
    """Return the override of those `given` with several values that no word of a command reads.

    All of its runs would be the same; "" if there is none.
    """
    for override in unread_by(given, words):
        if _SEVERAL.fullmatch(override.partition("=")[2]):
            return override
    return ""


def unread_by(given: Iterable[str], words: Iterable[str]) -> list[str]:
    """Return the overrides of those `given` that only a command could pass on, and these do not."""
    command = " ".join(words)
    keys = {override: override.lstrip("+~").partition("=")[0] for override in given}
    return [
        override
        for override, key in keys.items()
        if key in _PASSED_ON and not re.search(rf"\$\{{{re.escape(key)}\b", command)
    ]


def without_effect(composed: Composed, keys: Container[str]) -> Iterator[str]:
    """Yield a note on each override of `composed` that sets one of `keys`, which are not read."""
    for override in composed.overrides:
        key, _, value = override.lstrip("+~").partition("=")
        name = re.split(r"[.@/]", key)[0]
        if name in keys and value not in ("", "none"):
            yield (
                f"{name} has no effect: the script gets its command and its environment alone;"
                f" write {placeholder(name)} into the command, or leave {name} out"
            )


def repeated(runs: Iterable[Run], tools: Mapping[str, ToolPlan]) -> Iterator[str]:
    """Yield a note on what scripts do again in each capture."""
    names = [name for run in runs if _runs_script(run) for name in run.tools]
    captures = sum(tools[name].repeats for name in names)
    if captures > 1:
        yield (
            f"the script runs once for each of the {captures} captures: it writes its files,"
            " such as checkpoints, and asks for input each time"
        )


def _runs_script(run: Run) -> bool:
    workload = run.behaviour.get("workload")
    return (
        isinstance(workload, Mapping) and not workload_settings(run.behaviour).reads_configuration
    )
