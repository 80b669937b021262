"""What the kernel and the driver permit, as they say it in files made here."""

import pytest

from profkit.capture.harness.machine import permissions


@pytest.fixture
def proc(tmp_path):
    """Return a function from paths below /proc to such a folder."""

    def made(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return made


NOBODY = "Name:\tpython\nCapEff:\t0000000000000000\n"
DOCKER_ROOT = "CapEff:\t00000000a80425fb\n"
ROOT = "CapEff:\t000001ffffffffff\n"


@pytest.mark.parametrize(
    ("scope", "status", "is_forbidden"),
    [
        ("0\n", NOBODY, False),
        ("1\n", NOBODY, False),
        ("2\n", NOBODY, True),
        ("2\n", DOCKER_ROOT, True),
        ("2\n", ROOT, False),
        ("3\n", ROOT, True),
    ],
)
def test_ptrace_is_forbidden_by_yama_and_not_for_administrators(proc, scope, status, is_forbidden):
    folder = proc(sys__kernel__yama__ptrace_scope=scope, self__status=status)
    problems = list(permissions.tracing(folder))
    assert [problem.kind for problem in problems] == ["forbidden"] * is_forbidden


def test_without_yama_everything_is_traceable(proc):
    assert permissions.ptrace_scope(proc()) == -1
    assert list(permissions.tracing(proc())) == []


@pytest.mark.parametrize(
    ("params", "status", "is_forbidden"),
    [
        ("RmProfilingAdminOnly: 1\n", NOBODY, True),
        ("RmProfilingAdminOnly: 1\n", DOCKER_ROOT, True),
        ("RmProfilingAdminOnly: 1\n", ROOT, False),
        ("RmProfilingAdminOnly: 0\n", NOBODY, False),
    ],
)
def test_gpu_counters_are_for_those_whom_the_driver_lets(proc, params, status, is_forbidden):
    folder = proc(driver__nvidia__params=params, self__status=status)
    assert len(list(permissions.gpu_counters(proc=folder))) == is_forbidden


def test_counters_that_only_a_setting_needs_do_not_stop_a_tool(proc):
    folder = proc(driver__nvidia__params="RmProfilingAdminOnly: 1\n", self__status=NOBODY)
    (trouble,) = permissions.gpu_counters("profiler_metrics", folder)
    assert (trouble.stops, "which profiler_metrics needs" in trouble.what) == (False, True)


def test_the_level_of_perf_events_is_read(proc):
    assert permissions.perf_event_paranoid(proc()) is None
    assert permissions.perf_event_paranoid(proc(sys__kernel__perf_event_paranoid="-1\n")) == -1
