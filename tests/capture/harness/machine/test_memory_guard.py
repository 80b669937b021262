import psutil

from profkit.capture.harness.machine.memory_guard import Limit, available, left_over

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
