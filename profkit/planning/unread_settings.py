"""Settings that a run is given and its program never reads: names of runs must not claim them."""

import re
from collections.abc import Iterator

from profkit.planning.compose import Composed
from profkit.workloads.base import BaseWorkload

# What a program can be told by its command; the ranks and their layout are the launcher's.
_TOLD = {
    *("model", "zero", "batch", "precision", "compile", "grad_accumulation"),
    *("steps", "seed", "device"),
}
_KNOWN = _TOLD | {"workload", "launcher", "world_size"}
_EXAMPLES = {"model": "${model.name}", "zero": "${zero.stage}"}


def notes(composed: Composed, workload: BaseWorkload) -> Iterator[str]:
    """Yield a note on each setting of `composed` that does not reach `workload`."""
    # What stands in keys of the user's own is not known.
    if workload.reads_configuration or composed.passed_on - _KNOWN:
        return
    for override in composed.overrides:
        key, _, value = override.lstrip("+~").partition("=")
        name = re.split(r"[.@/]", key)[0]
        if name in _TOLD - composed.passed_on and value not in ("", "none"):
            yield (
                f"{name} has no effect: the script gets its command and its environment alone;"
                f" write {_EXAMPLES.get(name, f'${{{name}}}')} into workload.command, or leave"
                f" {name} out"
            )
