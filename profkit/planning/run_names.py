"""Names of runs: readable, and unique by what changes the behaviour of the workload."""

import hashlib
import itertools
import json
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from profkit.workloads.base import BaseWorkload

_RUNS = Path("results/runs")


def run_name(
    behaviour: Mapping[str, Any], workload: BaseWorkload, unread: Container[str] = ()
) -> str:
    """Return a readable name of a run of `workload`, unique by the content of `behaviour`.

    It says nothing of keys that are `unread`, unless there are captures under the longer name.
    """
    digest = hashlib.sha256(json.dumps(behaviour, sort_keys=True).encode()).hexdigest()[:8]
    whole, short = ("-".join([*_words(behaviour, workload, keys), digest]) for keys in ((), unread))
    return whole if (_RUNS / whole).is_dir() else short


def _words(
    behaviour: Mapping[str, Any], workload: BaseWorkload, unread: Container[str]
) -> list[str]:
    """Return the words that tell a run from others, without what is `unread`."""
    model = "none" if "model" in unread else behaviour["model"]["name"]
    compiled = behaviour["compile"]
    words = {
        "workload": [behaviour["workload"]["name"]],
        "batch": [f"b{behaviour['batch']}"],
        "world_size": [f"w{behaviour['world_size']}"],
        "zero": _sharding_words(behaviour["zero"]),
        "precision": [behaviour["precision"]],
        "compile": [] if compiled == "none" else ["compile", compiled],
    }
    kept = (words[key] for key in words if key not in unread)
    return [workload.name_for_run(model), *itertools.chain.from_iterable(kept)]


def _sharding_words(zero: Mapping[str, Any]) -> list[str]:
    """Return what tells one way of sharding from another, for example ``zero2 deepspeed``."""
    if zero["stage"] == 0:
        return [zero["name"]]
    offloaded = [] if zero["offload"] == "none" else ["offload", zero["offload"]]
    return [zero["name"], zero["backend"], *offloaded]
