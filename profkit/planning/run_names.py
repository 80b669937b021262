"""Names of runs: readable, and unique by what changes the behaviour of the workload."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def run_name(behaviour: Mapping[str, Any], subject: str) -> str:
    """Return a readable name of a run of `subject`, unique by the content of `behaviour`."""
    digest = hashlib.sha256(json.dumps(behaviour, sort_keys=True).encode()).hexdigest()[:8]
    words = (
        subject,
        behaviour["workload"]["name"],
        f"b{behaviour['batch']}",
        f"w{behaviour['world_size']}",
        *_sharding_words(behaviour["zero"]),
        behaviour["precision"],
        *([] if behaviour["compile"] == "none" else ["compile", behaviour["compile"]]),
    )
    return "-".join([*map(str, words), digest])


def _sharding_words(zero: Mapping[str, Any]) -> list[str]:
    """Return what tells one way of sharding from another, for example ``zero2 deepspeed``."""
    if zero["stage"] == 0:
        return [zero["name"]]
    offloaded = [] if zero["offload"] == "none" else ["offload", zero["offload"]]
    return [zero["name"], zero["backend"], *offloaded]
