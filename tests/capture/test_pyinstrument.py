"""pyinstrument records the steps, or everything."""

import json
import time

import pytest

from profkit.capture.base import Rank
from profkit.capture.pyinstrument import Capture


def busy():
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        sum(range(100))


def setting_up():
    busy()


def stepping():
    busy()


@pytest.mark.parametrize(
    ("start_up", "seen"), [(False, {"stepping"}), (True, {"stepping", "setting_up"})]
)
def test_it_records_from_the_first_step_on_or_from_the_start(tmp_path, start_up, seen):
    with Capture(start_up=start_up).record(tmp_path, Rank()) as recorder:
        setting_up()
        recorder.begin()
        stepping()
        recorder.step()
    session = json.loads((tmp_path / "rank0_dp0_tp0_pp0.pyinstrument.json").read_text())
    names = {frame.split("\x00")[0] for frames, _ in session["frame_records"] for frame in frames}
    assert names & {"stepping", "setting_up"} == seen
    assert sum(seconds for _, seconds in session["frame_records"]) >= 0.04 * len(seen)


def test_what_was_recorded_is_kept_when_the_workload_fails(tmp_path):
    def fails():
        with Capture().record(tmp_path, Rank()) as recorder:
            recorder.begin()
            stepping()
            raise ValueError("the workload failed")

    with pytest.raises(ValueError, match="the workload failed"):
        fails()
    assert (tmp_path / "rank0_dp0_tp0_pp0.pyinstrument.json").is_file()
