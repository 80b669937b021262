"""How many cores this process may use: fewer than the machine has, in most containers and jobs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
"""Where control groups are mounted; those of version 1 have a folder for each controller."""

_MEMBERSHIP = Path("/proc/self/cgroup")
_CONTROLLER = "cpu"


def usable_cores() -> int:
    """Return the CPUs that this process may use by its affinity, and by the time that it may have.

    Most containers are limited in time, as by ``docker --cpus`` or Kubernetes: they see all CPUs,
    and threads for which there is no time are all held up at once. Part of a CPU does not count, as
    the threads of an operator wait for the slowest.
    """
    known = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(int(min([known or 1, *_limits()])), 1)


def _limits() -> Iterator[float]:
    """Yield how many CPUs' time each control group around this process allows, if it is limited."""
    # Other systems have none, and what a kernel says in another way limits nothing.
    with suppress(OSError, ValueError):
        for line in _MEMBERSHIP.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _limits_of(_GROUPS, path, "cpu.max")
            elif _CONTROLLER in controllers.split(","):
                files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                yield from _limits_of(_GROUPS / _CONTROLLER, path, *files)


def _limits_of(mounted: Path, path: str, *files: str) -> Iterator[float]:
    """Yield the limits of a group and of those around it, as far as they are visible.

    Within a container a group may be at the root of what is mounted, whatever its path.
    """
    group = mounted / path.lstrip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(mounted):
            break
        with suppress(OSError):
            words = " ".join((folder / file).read_text(encoding="ascii") for file in files)
            quota, period = words.split()
            if quota not in {"max", "-1"}:
                yield int(quota) / int(period)
