"""Stacks of the program's thread, sampled inside its process."""

import gc
import json
import sys
import threading
import time

from profkit.capture._python_samples import PythonSamples


def busy_until(enough):
    while not enough():
        sum(range(2000))


def test_what_the_program_runs_and_its_garbage_collections_are_written(tmp_path):
    samples = PythonSamples()
    interval, threads = sys.getswitchinterval(), threading.active_count()
    began = time.time_ns()
    samples.begin()
    busy_until(lambda: len(samples._samples) > 5)
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
    assert all(start <= end for start, end in read["pauses"])
    assert read["pauses"]
    samples.write(tmp_path / "b.json")
    assert json.loads((tmp_path / "b.json").read_text())["samples"] == []


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
