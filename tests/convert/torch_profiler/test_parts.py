"""A trace read in parts is the trace read in one go."""

import errno
import gzip
import os
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import pairwise

import pyarrow.parquet as pq
import pytest

from profkit.convert.columns.spill import Scratch
from profkit.convert.linking.python_calls import PythonCalls
from profkit.convert.torch_profiler import parts as cutting
from profkit.convert.torch_profiler import trace as kineto
from profkit.convert.torch_profiler.parts import is_shared, parts_of, read_parts, workers
from profkit.convert.torch_profiler.text import last_event_end, skip_space
from tests.convert.torch_profiler import damage

# Collectives, Python stacks, copies, memory, and a bare list.
TRACES = (
    "dlrm_8rank_v100/worker3_step_12.1694128201557.pt.trace.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "tracelens/sglang_Qwen3-8B_decode.json.gz",
)


@pytest.fixture(params=TRACES)
def plain(request, real_data, tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(damage.unpacked((real_data / "kineto" / request.param).read_bytes()))
    return path


def tables(trace, folder=None):
    """Return the tables as text, in which NaN equals NaN; with a folder, those left in it too."""
    left = {name: folder / f"{name}.parquet" for name in trace.writers if folder}
    rows = {name: trace.writers[name](path) for name, path in left.items()}
    files = {name: pq.read_table(path, partitioning=None) for name, path in left.items()}
    assert rows == {name: len(table) for name, table in files.items()}
    return {name: str(table.to_pydict()) for name, table in (trace.tables | files).items()}


@pytest.fixture(params=[2, 3, 7])
def count(request, plain, monkeypatch):
    monkeypatch.setattr(cutting, "_PART_BYTES", -(-plain.stat().st_size // request.param))
    monkeypatch.setattr(cutting, "_SHARED_BYTES", 1)
    return request.param


def test_parts_are_the_whole(plain, count, tmp_path):
    cut = parts_of(plain)
    assert len(cut) == count
    text = plain.read_bytes()
    between = [text[one.end : other.begin].strip() for one, other in pairwise(cut)]
    assert (cut[0].begin, cut[-1].end, between) == (0, len(text), [b","] * (count - 1))
    whole, found = kineto.read(plain, rank=3), kineto.read(plain, rank=3, cores=2)
    assert tables(found, tmp_path) == tables(whole)
    assert (found.notes, found.header) == (whole.notes, whole.header)


@pytest.mark.parametrize("count", [7], indirect=True)
@pytest.mark.usefixtures("count")
def test_each_process_needs_one_file_however_many_parts(plain):
    with workers(1) as pool:
        _, gathered = read_parts(parts_of(plain), pool)
    blocks = [block for table in gathered.blocks.values() for block in table]
    assert len({block.path for block in blocks} - {""}) <= 2


@pytest.mark.usefixtures("count")
def test_events_larger_than_what_is_searched_first_are_no_hindrance(plain, count, monkeypatch):
    monkeypatch.setattr(cutting, "_SEARCHED_BYTES", (1, 1 << 20))
    assert len(parts_of(plain)) == count
    monkeypatch.setattr(cutting, "_SEARCHED_BYTES", (1, 1))
    assert parts_of(plain) == []


@pytest.mark.usefixtures("count")
def test_a_damaged_part_is_left_to_one_process_which_says_where(plain):
    text = plain.read_bytes()
    plain.write_bytes(text[: len(text) * 9 // 10])
    with workers(1) as pool:
        assert read_parts(parts_of(plain), pool) is None
    whole, found = kineto.read(plain, rank=3), kineto.read(plain, rank=3, cores=2)
    assert tables(found) == tables(whole)
    assert found.notes == whole.notes != ()


@pytest.mark.usefixtures("count")
def test_a_second_list_of_events_is_left_to_one_process_which_says_so(plain):
    text = plain.read_bytes()
    cut = last_event_end(text, len(text) // 2)
    plain.write_bytes(text[:cut] + b'], "traceEvents": [' + text[skip_space(text, cut) :])
    with workers(1) as pool:
        assert read_parts(parts_of(plain), pool) is None
    whole, found = kineto.read(plain, rank=3), kineto.read(plain, rank=3, cores=2)
    assert tables(found) == tables(whole)
    assert found.notes == whole.notes != ()


@pytest.mark.usefixtures("count")
@pytest.mark.parametrize("at", ["before", "reading", "linking"])
def test_a_killed_process_costs_time_only(plain, monkeypatch, at, tmp_path):
    def killed(cut, pool, scratch, others):
        if at == "reading":  # what it had taken is lost
            (scratch.path / "claims").mkdir()
            (scratch.path / "claims/1").touch()
        read = read_parts(cut, pool, scratch, others=others) if at == "linking" else None
        with suppress(BrokenProcessPool):
            pool.submit(os._exit, 1).result()
        return read or read_parts(cut, pool, scratch, others=others)

    monkeypatch.setattr(kineto, "read_parts", killed)
    whole, found = kineto.read(plain, rank=3), kineto.read(plain, rank=3, cores=2)
    assert tables(found, tmp_path) == tables(whole)


@pytest.mark.parametrize("count", [7], indirect=True)
@pytest.mark.usefixtures("count")
def test_a_process_killed_while_it_writes_a_table_costs_time_only(plain, monkeypatch, tmp_path):
    monkeypatch.setattr(PythonCalls, "__reduce__", lambda _: (os._exit, (1,)))
    whole, found = kineto.read(plain, rank=3), kineto.read(plain, rank=3, cores=2)
    assert tables(found, tmp_path) == tables(whole)


class Elsewhere(Executor):
    """A pool whose process has not begun yet when it is asked."""

    def __init__(self):
        self.asked = []

    def submit(self, *call):
        self.asked.append(call)
        return Future()


@pytest.mark.parametrize("count", [7], indirect=True)
@pytest.mark.usefixtures("count")
def test_a_full_disk_here_leaves_nothing_to_read_to_other_processes(plain, monkeypatch, tmp_path):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    pool, scratch = Elsewhere(), Scratch(tmp_path)
    monkeypatch.setattr(cutting, "_read", full)
    with pytest.raises(OSError, match="no space left"):
        read_parts(parts_of(plain), pool, scratch, others=2)
    assert [share(*arguments) for share, *arguments in pool.asked] == [{}, {}]


def test_gzip_and_small_files_are_not_shared(plain, monkeypatch):
    assert not is_shared(plain)
    monkeypatch.setattr(cutting, "_SHARED_BYTES", 1)
    assert is_shared(plain)
    packed = plain.with_suffix(".gz")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert not is_shared(packed)
