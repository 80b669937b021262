import psutil

from profkit.capture.harness.machine import memory_guard
from profkit.capture.harness.machine.memory_guard import (
    Limit,
    available,
    kernel_kills,
    left_over,
)

GB = 10**9


def test_what_is_available_is_that_of_the_machine():
    assert 0 < available() <= psutil.virtual_memory().total
    assert 0 < left_over() < psutil.virtual_memory().total


def test_a_capture_may_take_all_but_what_the_system_needs():
    limit = Limit(at_start=100 * GB)
    assert limit.exceeded(left_over() + 1) == ""
    assert limit.exceeded(10**6) == (
        "the machine's memory ran out: 100000 MB were available at first and 1 MB are left"
    )


def test_a_limit_is_held_against_what_has_gone_since_the_beginning():
    limit = Limit(limit_mb=2000, at_start=100 * GB)
    assert limit.exceeded(98 * GB) == ""
    reason = limit.exceeded(97 * GB)
    assert reason == "the capture took 3000 MB of memory, and memory_limit_mb=2000"
    assert Limit(limit_mb=2000, at_start=50 * GB).exceeded(60 * GB) == ""


def test_a_shortage_is_what_the_kernel_counted_or_the_readings_show(tmp_path, monkeypatch):
    counters = [tmp_path / "vmstat", tmp_path / "none"]
    counters[0].write_text("oom_kill_group 9\noom_kill 3\nnr_free 1\n")
    assert kernel_kills(counters) == 3
    assert kernel_kills([]) == 0
    monkeypatch.setattr(memory_guard, "kernel_kills", lambda: 4)
    assert Limit(at_start=100 * GB, kills_before=4).shortage() == ""
    assert "the kernel killed" in Limit(at_start=100 * GB, kills_before=3).shortage()
    limit = Limit(at_start=100 * GB, kills_before=4)
    limit.exceeded(left_over() + 10**6)
    limit.exceeded(90 * GB)
    assert (
        limit.shortage()
        == f"only {(left_over() + 10**6) // 10**6} MB of the machine's memory were left"
    )
