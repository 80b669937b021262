"""Where workers of a DataLoader are is written by themselves, and what they load stays the same."""

import json
import time

import pytest
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import worker

from profkit.capture import _worker_samples
from profkit.capture._worker_samples import workers_sampled

LABEL = "rank0_dp0_tp0_pp0"


class Slow(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        time.sleep(0.05)
        return index


def load(folder, method):
    loader = DataLoader(Slow(), num_workers=2, multiprocessing_context=method)
    with workers_sampled(folder, LABEL):
        return [int(batch) for batch in loader]


def test_workers_write_which_lines_they_were_in(tmp_path, monkeypatch):
    monkeypatch.setattr(_worker_samples, "_PERIOD_S", 0.01)
    assert load(tmp_path, "fork") == [*range(6)]
    written = sorted(tmp_path.iterdir())
    assert len(written) == 2
    for path in written:
        assert path.name.startswith(f"{LABEL}.")
        read = json.loads(path.read_text())
        seen = [frame for _, stack in read["samples"] for frame in read["stacks"][stack]]
        assert any(frame.endswith(": __getitem__") for frame in seen)


@pytest.mark.slow
def test_workers_that_are_spawned_load_the_same_and_write_nothing(tmp_path):
    assert load(tmp_path, "spawn") == [*range(6)]
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_is_gone_is_no_matter_of_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr(_worker_samples, "_PERIOD_S", 0.01)
    assert load(tmp_path / "gone", "fork") == [*range(6)]


def test_what_workers_run_is_as_before_afterwards(tmp_path):
    before = worker._worker_loop
    with workers_sampled(tmp_path, LABEL):
        assert worker._worker_loop is not before
    assert worker._worker_loop is before
