"""What a capture asks of a cluster: hosts, GPUs, time and memory, from the plan."""

import math
from collections.abc import Mapping

from profkit.core.run_settings import RunSettings
from profkit.planning.model import Run

_MB = 10**6
_MIB = 1 << 20
_MARGIN_MIN = 10
"""Minutes beyond the timeout of a capture, in which it starts and writes its record."""


def of_capture(run: Run, settings: RunSettings, *, is_alone: bool) -> Mapping[str, int | str]:
    """Return the resources of one capture of `run`, by the names of Snakemake's Slurm plugin.

    `mem_mb` is in MiB, as Slurm has it, and 0 where the cluster decides; `runtime` is in minutes.
    """
    nodes = _host_count(run.behaviour.get("launcher", {}))
    ranks = math.ceil(run.behaviour.get("world_size", 1) / nodes)
    limit = settings.memory_limit_mb
    return {
        "nodes": nodes,
        "tasks": nodes,
        # Also where it is empty, it keeps the plugin from wrapping the capture in a step of its
        # own: that has one host, and not all of the processors.
        "mpi": "srun" if nodes > 1 else "",
        "cpus_per_task": ranks,
        "gres": f"gpu:{ranks}" if run.behaviour.get("device") == "cuda" else "",
        "mem_mb": 0 if is_alone else math.ceil(limit * _MB / _MIB),
        "runtime": math.ceil(settings.timeout_s / 60) + _MARGIN_MIN,
        "slurm_extra": "--exclusive" if is_alone else "",
    }


def _host_count(launcher: Mapping[str, object]) -> int:
    hosts, count = launcher.get("hosts", ()), launcher.get("nnodes", 1)
    return len(hosts) if isinstance(hosts, list | tuple) and hosts else int(str(count))
