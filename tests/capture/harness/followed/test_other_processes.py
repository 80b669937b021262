"""When ranks that make no step are ended."""

import sys
import threading
from types import SimpleNamespace

import pytest

from profkit.capture.harness.followed import other_processes
from profkit.capture.harness.followed.process_record import ProcessRecord
from profkit.capture.harness.foreground import ENDED_EARLY
from tests.waiting import LIMIT_S


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    for name in ("_LOOKS_S", "_FIRST_STEP_S"):
        monkeypatch.setattr(other_processes, name, 0.01)


def joined(monkeypatch, is_initialized):
    job = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: is_initialized)
    monkeypatch.setitem(sys.modules, "torch.distributed", job)


@pytest.mark.parametrize(
    ("steps", "communicates", "is_ended"), [(0, True, True), (0, False, False), (1, True, False)]
)
def test_a_rank_is_ended_that_communicates_and_makes_no_step(
    tmp_path, monkeypatch, steps, communicates, is_ended
):
    joined(monkeypatch, communicates)
    record = ProcessRecord.of_this_process()
    record.steps = steps
    ended = threading.Event()
    other_processes.end_after_others(tmp_path, record, ended.set)
    (tmp_path / ENDED_EARLY).touch()
    for watching in [one for one in threading.enumerate() if one.name.startswith("profkit end")]:
        watching.join(LIMIT_S)
    assert ended.is_set() == is_ended


@pytest.mark.parametrize("communicates", [True, False])
def test_nothing_is_waited_for_beside_ranks_that_do_not_communicate(
    tmp_path, monkeypatch, communicates
):
    joined(monkeypatch, communicates)
    asked = []
    monkeypatch.setattr(other_processes, "_are_left", lambda _: asked.append(1) or len(asked) < 3)
    other_processes.wait_for_ranks(tmp_path)
    assert len(asked) == (3 if communicates else 0)


def test_a_rank_without_steps_is_waited_for_until_it_has_ended(tmp_path):
    learner, actor = ProcessRecord.of_this_process(), ProcessRecord.of_this_process()
    learner.world_size = actor.world_size = 2
    learner.steps, actor.rank, actor.process = 9, 1, 7
    for record in (learner, actor):
        record.write(tmp_path)
    assert other_processes._are_left(tmp_path)
    actor.ended_ns = 1
    actor.write(tmp_path)
    assert not other_processes._are_left(tmp_path)
