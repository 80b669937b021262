"""Cores that a process may use: by affinity, and by the limits of control groups around it."""

import os

import pytest

from profkit.core import usable_cores as module
from profkit.core.usable_cores import usable_cores


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Return a function that leaves control groups, and what a process of 8 CPUs is a member of."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(module, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(module, "_MEMBERSHIP", tmp_path / "membership")

    def leave(membership, **files):
        (tmp_path / "membership").write_text(membership)
        for name, text in files.items():
            path = tmp_path / "cgroup" / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return leave


V1 = "9:pids:/\n3:cpu,cpuacct:/docker/4f\n0::/\n"


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/pod/own\n", {"pod__cpu.max": "250000 100000", "pod__own__cpu.max": "max 1"}, 2),
        ("0::/\n", {"cpu.max": "50000 100000"}, 1),
        ("0::/gone/with/the/namespace\n", {"cpu.max": "300000 100000"}, 3),
        (V1, {"cpu__cpu.cfs_quota_us": "-1", "cpu__cpu.cfs_period_us": "100000"}, 8),
        (V1, {"cpu__cpu.cfs_quota_us": "200000", "cpu__cpu.cfs_period_us": "100000"}, 2),
        ("0::/\n", {"cpu.max": "1600000 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "plenty"}, 8),
        ("of another kind", {}, 8),
        ("0::/\n", {}, 8),
    ],
)
def test_the_least_limit_counts(groups, membership, files, cores):
    groups(membership, **files)
    assert usable_cores() == cores


@pytest.mark.usefixtures("groups")
def test_a_system_without_control_groups_has_its_cores():
    assert usable_cores() == 8
