"""Stacks of the program's thread, sampled inside its process."""

import dis
import gc
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from profkit.capture._python_samples import PythonSamples, _callees


def busy_until(enough):
    while not enough():
        sum(range(2000))


def test_what_the_program_runs_and_its_garbage_collections_are_written(tmp_path):
    samples = PythonSamples()
    interval, threads = sys.getswitchinterval(), threading.active_count()
    began = time.time_ns()
    samples.begin()
    busy_until(lambda: samples._looks > 5)
    gc.collect()
    samples.end()
    assert (sys.getswitchinterval(), threading.active_count()) == (interval, threads)
    assert not any("PythonSamples" in repr(callback) for callback in gc.callbacks)
    samples.write(tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["tid"] == threading.get_native_id()
    frames = [frame for stack in read["stacks"] for frame in stack]
    assert any(frame.endswith(": busy_until") for frame in frames)
    assert all(began < when < time.time_ns() for when, _ in read["samples"])
    assert sorted(read["cpu_ns"]) == read["cpu_ns"]
    assert sorted(read["queued_ns"]) == read["queued_ns"]
    assert read["queued_ns"][0] >= 0
    assert len(read["cpu_ns"]) == len(read["queued_ns"]) == len(read["samples"])
    assert all(start <= end for start, end in read["pauses"])
    assert read["pauses"]
    samples.write(tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text())["samples"] == []


def test_what_holds_the_interpreter_is_seen_and_not_only_what_lets_go_of_it(tmp_path):
    def holds():
        for _ in range(100):
            sum(range(300))

    def lets_go():
        time.sleep(0.00005)

    samples = PythonSamples()
    samples.begin()
    while samples._looks < 400:
        holds()
        lets_go()
    samples.end()
    samples.write(tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    held = [": holds" in str(read["stacks"][stack]) for _, stack in read["samples"]]
    # Most, where each thread has a core.
    assert any(held)


def test_nothing_is_looked_at_while_what_is_recorded_is_written_and_all_is_written_again(tmp_path):
    samples = PythonSamples()
    samples.begin()
    busy_until(lambda: samples._looks > 5)
    with samples.paused():
        # A look that had begun may end.
        time.sleep(0.05)
        before = samples._looks
        time.sleep(0.1)
        assert samples._looks == before
    counts = []
    for more in (3, 6):
        busy_until(lambda more=more: samples._looks > before + more)
        samples.write_all(tmp_path / "all.json")
        counts.append(len(json.loads((tmp_path / "all.json").read_text())["samples"]))
    samples.end()
    assert before < counts[0] < counts[1]


def test_a_script_started_from_another_folder_has_its_own_name(tmp_path, monkeypatch):
    dots = f"{tmp_path}/runs/.."
    monkeypatch.syspath_prepend(dots)
    samples = PythonSamples()
    code = compile("def train(): return sys._getframe()", f"{dots}/train.py", "exec")
    given = {"sys": sys}
    exec(code, given)  # noqa: S102 - the line above
    frame = given["train"]()
    assert samples._labels(samples._positions(frame)[:1])[-1] == "train.py(1): train"


def test_who_collects_garbage_by_hand_is_seen_when_that_begins_and_ends(tmp_path):
    samples = PythonSamples()
    samples.begin()
    gc.collect()
    samples.end()
    samples.write(tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    own = f": {test_who_collects_garbage_by_hand_is_seen_when_that_begins_and_ends.__name__}"
    by_hand = [
        stack[0] == "<built-in function collect>" and stack[1].endswith(own)
        for stack in read["stacks"]
    ]
    assert sum(by_hand[stack] for _, stack in read["samples"]) >= 2


def test_stacks_that_two_threads_find_at_once_have_numbers_of_their_own():
    samples = PythonSamples()

    class Interrupted(dict):
        def setdefault(self, stack, number):
            if stack:
                samples._number(None)  # the other thread looks, before this one has added
            return super().setdefault(stack, number)

    samples._stacks = Interrupted()
    samples._number(sys._getframe())
    assert len(samples._stacks) == len(set(samples._stacks.values())) == 2


def test_what_is_sampled_after_a_trace_goes_with_it_until_another_one_is_written(tmp_path):
    def count(name):
        return len(json.loads((tmp_path / name).read_text())["samples"])

    samples = PythonSamples()
    samples.begin()
    busy_until(lambda: samples._looks > 1)
    samples.write(tmp_path / "a.json")
    first, looks = count("a.json"), samples._looks
    busy_until(lambda: samples._looks > looks + 1)
    samples.write(tmp_path / "b.json")
    assert count("a.json") == first
    second, looks = count("b.json"), samples._looks
    busy_until(lambda: samples._looks > looks + 1)
    samples.end()
    assert first + count("b.json") == samples._looks
    assert count("b.json") > second


def test_one_dear_look_does_not_keep_the_next_ones_from_coming(monkeypatch):
    def look(frames):
        if samples._looks == 5:
            until = time.thread_time() + 0.1
            busy_until(lambda: time.thread_time() > until)
        plain(frames)

    slept, sleep = [], time.sleep
    monkeypatch.setattr(time, "sleep", lambda period_s: (slept.append(period_s), sleep(0.001)))
    samples = PythonSamples()
    plain, samples._look = samples._look, look
    samples.begin()
    busy_until(lambda: samples._looks > 10)
    samples.end()
    assert max(slept) < 1


def test_threads_that_end_steps_are_known_and_each_look_is_at_the_thread_it_names(tmp_path):
    def answer():
        looks = samples._looks
        busy_until(lambda: samples._looks > looks + 2)
        samples.step()
        answered.append(threading.get_native_id())

    def first():
        samples.begin()
        answer()

    answered = []
    samples = PythonSamples()
    # A thread has the `ident` of one that has ended.
    for target in (first, answer, answer):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    samples.end()
    samples.write(tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["tid"] == answered[0]
    assert [tid for _, tid in read["ends"]] == answered[1:]
    seen = {tid: when for tid, when, *_ in read["threads"]}
    assert {*answered[1:]} <= {*seen}
    assert max(when for when, _ in read["samples"]) < min(when for when, _ in read["ends"])


def test_what_other_threads_do_and_what_is_called_in_c_is_written(tmp_path):
    def work():
        with lock:
            time.sleep(0.03)
            held.set()
            # The other thread may be late to wait for the lock.
            until = samples._looks + 20
            while samples._looks < until:
                time.sleep(0.01)

    lock, held = threading.Lock(), threading.Event()
    samples = PythonSamples()
    samples.begin()
    thread = threading.Thread(target=work)
    thread.start()
    held.wait()
    with lock:
        samples.end()
    samples.write(tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    own = {read["stacks"][number][0] for _, number in read["samples"]}
    assert own >= {"<built-in function acquire>", "<built-in function __enter__>"}
    others = [read["stacks"][number] for *_, number in read["threads"]]
    assert any(
        inner == "<built-in function sleep>" and line.endswith(": work")
        for inner, line, *_ in others
    )
    assert len(read["threads_queued_ns"]) == len(read["threads"])
    # It sleeps, so it uses no core.
    assert all(0 <= cpu_ns < 30e6 for _, _, cpu_ns, _ in read["threads"])


FORKED = """
import json, os, sys, threading, time
from pathlib import Path
from profkit.capture._python_samples import PythonSamples

if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
samples, lock, held = PythonSamples(), threading.Lock(), threading.Event()

def work():
    with lock:
        held.set()
        until = samples._looks + 50
        while samples._looks < until:
            time.sleep(0.01)

samples.begin()
thread = threading.Thread(target=work)
thread.start()
held.wait()
with lock:
    samples.end()
samples.write(Path("a.json"))
"""


def test_in_a_fork_the_main_thread_is_the_one_that_is_followed(tmp_path):
    """In a process of its own, as nothing else may run while it forks."""
    subprocess.run([sys.executable, "-c", FORKED], cwd=tmp_path, check=True, timeout=300)
    read = json.loads((tmp_path / "a.json").read_text())
    waited = [read["stacks"][number][0] for _, number in read["samples"]]
    assert waited.count("<built-in function __enter__>") > 1
    assert len({tid for tid, *_ in read["threads"]}) == 1


def test_what_the_process_had_of_the_cores_is_written(tmp_path):
    samples = PythonSamples(ranks_on_host=3)
    samples.begin()
    busy_until(lambda: samples._looks > 2)
    samples.end()
    samples.write(tmp_path / "a.json")
    usage = json.loads((tmp_path / "a.json").read_text())["usage"]
    assert usage["ranks_on_host"] == 3
    assert usage["cores"] == len(os.sched_getaffinity(0))
    assert usage["cpu_ns"] > 0
    assert usage["start_ns"] < usage["end_ns"]


def called(source, instruction):
    """Return what `_callees` says of the instructions of a name in compiled source."""
    code = compile(source, "a.py", "exec")
    found = _callees(code)
    return [found[one.offset] for one in dis.get_instructions(code) if one.opname == instruction]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("self.lock.acquire(timeout=f(1))", ["f", "acquire"]),
        ("sleep(1)", ["sleep"]),
        ("a[0](1)", ["a"]),
        ("x.y(\n  1\n).z()", ["y", "z"]),
    ],
)
def test_a_call_is_named_by_what_is_loaded_for_it(source, names):
    assert called(source, "CALL") == names


def test_a_with_enters():
    assert called("with a.lock:\n  pass", "BEFORE_WITH") == ["__enter__"]


def test_a_look_may_find_a_new_stack_while_those_before_are_written(tmp_path):
    class Growing(dict):
        def items(self):
            for pair in super().items():
                self[()] = -1
                yield pair

    samples = PythonSamples()
    samples._stacks = Growing({((0, 0),): 0})
    samples.write(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["stacks"] == []


def test_what_was_never_begun_ends_quietly(tmp_path):
    samples = PythonSamples()
    samples.end()
    samples.write(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["stacks"] == []


WALKED = """
import gc, threading, time
from profkit.capture._python_samples import PythonSamples, _current_frames

def deep(left):
    return left and deep(left - 1)

def work():
    while not ended:
        deep(400)

ended, samples = False, PythonSamples()
thread = threading.Thread(target=work)
thread.start()
gc.callbacks.append(lambda *_: time.sleep(1e-4))
gc.set_threshold(7)
for _ in range(20_000):
    samples._positions(_current_frames()[thread.ident])
print(gc.isenabled())
ended = True
thread.join()
"""


def test_frames_that_end_while_a_collection_lets_their_thread_go_on_are_no_crash():
    """In a process of its own, which Python 3.11 ended with signal 11."""
    command = [sys.executable, "-c", WALKED]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (result.returncode, result.stdout) == (0, "True\n")
