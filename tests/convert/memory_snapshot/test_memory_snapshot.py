"""Snapshots of PyTorch's allocator as tables and drawings, against PyTorch's own functions."""

import json
import os
import pickle
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch.cuda._memory_viz as torch_viz

from profkit.analyze.shared.allocation_origins import with_origins
from profkit.convert import __main__ as edge
from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import convert, snapshot, timeline
from profkit.convert.memory_snapshot.flame_graphs import weighted_blocks
from profkit.convert.memory_snapshot.history import allocated_bytes
from profkit.core.errors import InputError

# From the README of the real captures: the plain replay's peak, and the segments' total.
EXPECTED = {
    "mosaic_output": (2255398132, 262144000),
    "drisspg_mini_snapshot": (402752512, 421527552),
    "silmont_mem_snapshot": (3249143816, 3781165056),
    "silmont_forward_bf16_128": (256025600, 861929472),
    "magma27_memory_snapshot": (12877758464, 14180941824),
    "niu_forward_100": (412643888, 463470592),
    "niu_forward_backward_100": (682735240, 786432000),
}
FRAMES = [
    {"filename": "/lib/python3.11/site-packages/torch/nn.py", "line": 3, "name": "forward"},
    {"filename": "/home/me/train.py", "line": 7, "name": "step <b>"},
]


def entry(action, address, size, time_us, **more):
    where = {"frames": FRAMES if action == "alloc" else [], "stream": 0}
    return {"action": action, "addr": address, "size": size, "time_us": time_us} | where | more


def block(size, requested, state, frames=()):
    return {"size": size, "requested_size": requested, "state": state, "frames": list(frames)}


def segment(address, *blocks):
    total = sum(block["size"] for block in blocks)
    where = {"address": address, "total_size": total, "stream": 0, "device": 0}
    return {**where, "segment_type": "large", "blocks": list(blocks)}


def written(folder, content, *, protocol=4):
    path = folder / "rank0_dp0_tp0_pp0.memory.pickle"
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


def raw(path):
    return Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0)


@pytest.mark.parametrize("name", EXPECTED)
def test_peaks_and_totals_of_real_snapshots_are_exact(real_data, name):
    taken = snapshot.read(real_data / "memory" / f"{name}.pickle")
    (device,) = taken.devices
    count = len(device.events.action)
    replay = allocated_bytes(count, device.allocations, before=False)
    reserved = sum(segment.size_bytes for segment in taken.segments)
    assert (int(replay.max()), reserved) == EXPECTED[name]
    if name == "drisspg_mini_snapshot":
        return  # Its history was stopped before its blocks were freed and the snapshot taken.
    # Replayed from what was live before, it ends at what the segments say.
    held_at_end = sum(
        block.requested_bytes
        for part in taken.segments
        for block in part.blocks
        if block.state == "active_allocated"
    )
    assert allocated_bytes(count, device.allocations)[-1] == held_at_end


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("by_segment", [False, True])
def test_totals_by_state_are_those_of_pytorch(real_data, name, by_segment):
    path = real_data / "memory" / f"{name}.pickle"
    content = pickle.loads(path.read_bytes())  # noqa: S301 - a known file
    function = torch_viz.segments if by_segment else torch_viz.memory
    theirs, ours = Counter(), Counter()
    for line in function(content, format_flamegraph=str).splitlines():
        stack, _, size = line.rpartition(" ")
        theirs[stack.split(";")[1 + by_segment]] += int(size)
    for stack, size in weighted_blocks(snapshot.read(path), segments=by_segment):
        ours[stack[2 + by_segment]] += size
    assert ours == theirs


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("by_segment", [False, True])
def test_bytes_of_each_stack_are_those_of_pytorch(real_data, name, by_segment):
    path = real_data / "memory" / f"{name}.pickle"
    content = pickle.loads(path.read_bytes())  # noqa: S301 - a known file
    function = torch_viz.segments if by_segment else torch_viz.memory
    theirs, ours = Counter(), Counter()
    for line in function(content, format_flamegraph=str).splitlines():
        stack, _, size = line.rpartition(" ")
        theirs[stack] += int(size)
    taken = snapshot.read(path)
    for part in taken.segments:
        where = [f"stream_{part.stream}"] + [f"seg_{part.address}"] * by_segment
        for block in part.blocks:
            prefix = ";".join([*where, block.state])
            ours[f"{prefix};{written_by_pytorch(taken.stacks, block.stack)}"] += (
                block.requested_bytes
            )
            ours[f"{prefix};<gaps>"] += block.size_bytes - block.requested_bytes
    # PyTorch leaves out a rounding of nothing, but not a block of nothing.
    assert {stack: size for stack, size in ours.items() if size} == {
        stack: size for stack, size in theirs.items() if size
    }


# The history of drisspg_mini_snapshot was stopped before its blocks were freed.
@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - {"drisspg_mini_snapshot"}))
def test_what_the_history_leaves_is_by_stack_what_pytorch_says_is_held(real_data, name):
    path = real_data / "memory" / f"{name}.pickle"
    content = pickle.loads(path.read_bytes())  # noqa: S301 - a known file
    theirs, ours = Counter(), Counter()
    for line in torch_viz.memory(content, format_flamegraph=str).splitlines():
        prefix, _, size = line.rpartition(" ")
        _, state, stack = prefix.split(";", 2)
        if state == "active_allocated" and stack != "<gaps>":
            theirs[stack] += int(size)
    taken = snapshot.read(path)
    found = taken.devices[0].allocations
    left = found.end < 0
    for number, size in zip(found.stack[left], found.size_bytes[left], strict=True):
        ours[written_by_pytorch(taken.stacks, number)] += int(size)
    assert +ours == +theirs


def written_by_pytorch(stacks, number):
    """Return one of our stacks in the words of PyTorch's own function."""
    if number < 0:
        return "<non-python>"
    keys = ("filename", "line", "name")
    frames = [dict(zip(keys, frame, strict=True)) for frame in stacks.known[number]]
    return ";".join(torch_viz._frames_fmt(frames, reverse=True))


def test_allocations_carry_their_line_range_step_and_end(tmp_path):
    content = {
        "segments": [segment(4096, block(512, 500, "active_allocated"), block(512, 0, "inactive"))],
        "device_traces": [
            [
                entry("free_completed", 64, 30, 5),
                entry("alloc", 4096, 500, 10),
                entry("alloc", 8192, 100, 20, compile_context="0/0"),
                entry("free_requested", 8192, 100, 25),
                entry("free_completed", 8192, 100, 30),
            ]
        ],
        "external_annotations": [
            {"stage": "START", "name": "forward", "device": 0, "time_us": 8},
            {"stage": "END", "name": "forward", "device": 0, "time_us": 15},
        ],
    }
    path = written(tmp_path, content)
    path.with_name("rank0_dp0_tp0_pp0.steps.json").write_text(
        '{"rank": 0, "steps": [[0, 12000, 1, 1], [12000, 22000, 1, 1]]}'
    )
    converted = convert.run(raw(path), tmp_path)
    rows = converted.tables["allocations"].to_pylist()
    chosen = ("size_bytes", "start_ns", "end_ns", "line", "annotation", "context", "step")
    assert [tuple(row[key] for key in chosen) for row in rows] == [
        (30, -1, 5000, "", "", "", -1),
        (500, 10000, -1, "step <b> (/home/me/train.py:7)", "forward", "", 0),
        (100, 20000, 30000, "step <b> (/home/me/train.py:7)", "", "0/0", 1),
    ]
    events = converted.tables["memory_events"].to_pandas()
    assert events["allocated_bytes"].tolist() == [0, 500, 600, 600, 500]
    assert converted.tables["blocks"].to_pandas()["size_bytes"].tolist() == [512, 512]
    late = "1 block of cuda:0 (30 bytes) was live before the history begins"
    assert f"{late}; what allocated it was not recorded." in converted.notes
    names = sorted(path.name.partition(".")[2] for path in tmp_path.glob("*.rep0.*"))
    assert names == ["rep0.memory.svg", "rep0.peak.svg", "rep0.segments.svg", "rep0.timeline.html"]


def test_a_block_that_the_ring_forgot_has_the_stack_that_the_allocator_kept(tmp_path):
    kept, unknown = block(512, 500, "active_allocated", FRAMES), block(512, 10, "active_allocated")
    content = {
        "segments": [segment(4096, kept, unknown)],
        "device_traces": [[entry("free_completed", 64, 30, 5), entry("alloc", 8192, 7, 10)]],
    }
    found = convert.run(raw(written(tmp_path, content)), tmp_path)
    rows = with_origins(found.tables["allocations"].to_pandas())
    chosen = rows[["size_bytes", "start_event", "line", "origin"]].astype(object)
    line = "step <b> (/home/me/train.py:7)"
    assert chosen.to_numpy().tolist() == [
        [30, -1, "", "before the history"],
        [7, 1, line, "forward"],
        [500, -1, line, "forward"],
        [10, -1, "", "before the history"],
    ]
    assert "(540 bytes)" in found.notes[0]
    assert "what allocated 2 of them was not recorded" in found.notes[0]


def test_a_history_without_an_allocation_says_that_the_peak_is_unknown_and_no_more(tmp_path):
    kept = block(512, 500, "active_allocated", FRAMES)
    untimed = {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": []}
    content = {"segments": [segment(4096, kept)], "device_traces": [[untimed]]}
    found = convert.run(raw(written(tmp_path, content)), tmp_path)
    assert found.notes == ("The history of cuda:0 has no allocation: its peak is not known.",)


def test_an_old_snapshot_of_segments_alone_has_its_blocks(tmp_path):
    old = {"size": 512, "state": "active_allocated", "history": [{"real_size": 500, "addr": 1}]}
    found = convert.run(raw(written(tmp_path, [segment(4096, old)])), tmp_path)
    assert found.tables["blocks"].to_pandas()["requested_bytes"].tolist() == [500]
    assert found.tables["allocations"].to_pandas()["size_bytes"].tolist() == [500]
    assert "No history of cuda:0" in found.notes[0]


def nested(depth):
    """Return a pickle in which a name is a list in a list in a list."""
    name = b"]" * depth + b"a" * (depth - 1)
    opened = b"}(X\x08\x00\x00\x00segments](}(X\x07\x00\x00\x00addressK\x00"
    opened += b"X\x0a\x00\x00\x00total_sizeK\x00X\x0c\x00\x00\x00segment_type"
    return b"\x80\x02" + opened + name + b"ueu."


class _Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_a_command_is_refused_and_nothing_runs(tmp_path, protocol):
    content = {"segments": [], "device_traces": [[_Malicious(tmp_path / "ran")]]}
    path = written(tmp_path, content, protocol=protocol)
    with pytest.raises(InputError, match=r"refused: it would load (posix|nt)\.system"):
        convert.run(raw(path), tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "opcodes",
    [
        b"cos\nsystem\n(S'touch {ran}'\ntR.",
        b"(S'touch {ran}'\nios\nsystem\n.",
        b"(cos\nsystem\nS'touch {ran}'\no.",
        b"\x80\x02c__builtin__\neval\n(X\x01\x00\x00\x001tR.",
        b"Pelsewhere\n.",
        b"\x80\x02\x82\x01.",
    ],
    ids=["reduce", "inst", "obj", "eval", "persistent", "extension"],
)
def test_no_opcode_loads_anything(tmp_path, opcodes):
    path = tmp_path / "rank0_dp0_tp0_pp0.memory.pickle"
    path.write_bytes(opcodes.replace(b"{ran}", str(tmp_path / "ran").encode()))
    with pytest.raises(InputError):
        convert.run(raw(path), tmp_path)
    assert not (tmp_path / "ran").exists()


def test_what_is_refused_costs_only_its_own_rank(real_data, tmp_path):
    capture, tables = tmp_path / "rep0", tmp_path / "tables"
    capture.mkdir()
    good = (real_data / "memory" / "drisspg_mini_snapshot.pickle").read_bytes()
    evil = pickle.dumps({"segments": [_Malicious(tmp_path / "ran")]})
    contents = (good, evil, good[:-1000], pickle.dumps({"model": 1}), b"\x1f\x8bzipped")
    labels = [f"rank{rank}_dp{rank}_tp0_pp0" for rank in range(len(contents))]
    for label, content in zip(labels, contents, strict=True):
        (capture / f"{label}.memory.pickle").write_bytes(content)
    record = {"status": "ok", "reason": "", "repeat": 0, "ranks": labels}
    (capture / "capture.json").write_text(json.dumps(record))
    edge.convert("memory_snapshot", [capture], tables, tmp_path / "files")
    assert not (tmp_path / "ran").exists()
    rows = pq.read_table(tables / "allocations.parquet").to_pandas()
    assert set(rows["rank"]) == {0}
    notes = {
        note["file"]: note["text"]
        for note in json.loads((tables / "convert.json").read_text())["notes"]
        if note["text"].startswith("Not read: ")
    }
    reasons = ["refused: it would load posix.system", "cut off after", "keys model", "a gzip file"]
    for label, reason in zip(labels[1:], reasons, strict=True):
        assert reason in notes[f"rep0/{label}.memory.pickle"]
    assert sorted(path.name[:5] for path in (tmp_path / "files").glob("*.html")) == ["rank0"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file"),
        (b'{"traceEvents": []}', "JSON, not the pickle"),
        (b"PK\x03\x04rest", "a zip file, as torch.save writes them"),
        (b"\x1f\x8brest", "a gzip file"),
        (pickle.dumps({"segments": [1] * 99})[:-20], "cut off after"),
        (b"\x80\x04nonsense", "not a pickle, or a damaged one"),
        (pickle.dumps({"model": 1}), "a pickled dict with the keys model, not a memory snapshot"),
        (pickle.dumps(3), "a pickled int, not a memory snapshot"),
        (pickle.dumps([1, 2]), "a pickled list, not a memory snapshot"),
        (pickle.dumps({"segments": [{"address": "x"}]}), "not a memory snapshot: TypeError"),
        (nested(100_000), "not a memory snapshot: TypeError: list instead of a text"),
        (
            pickle.dumps({"segments": [segment(0, block(2**70, 0, "inactive"))]}),
            "is no size, address or index",
        ),
    ],
)
def test_what_is_no_snapshot_is_named(tmp_path, content, message):
    path = tmp_path / "rank0_dp0_tp0_pp0.memory.pickle"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        convert.run(raw(path), tmp_path)


def test_a_real_snapshot_cut_anywhere_is_refused(real_data, tmp_path):
    content = (real_data / "memory" / "drisspg_mini_snapshot.pickle").read_bytes()
    path = tmp_path / "rank0_dp0_tp0_pp0.memory.pickle"
    for share in (0.01, 0.1, 0.5, 0.9, 0.999):
        path.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(InputError):
            convert.run(raw(path), tmp_path)


def test_the_timeline_stays_small_and_adds_up_to_the_whole(monkeypatch, tmp_path):
    count = 40_000
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 10_000, count).tolist()
    trace = [
        entry("alloc", 1 + index, size, index, frames=[{**FRAMES[0], "line": index}])
        for index, size in enumerate(sizes)
    ]
    taken = snapshot.from_content(tmp_path, {"segments": [], "device_traces": [trace]})
    (device,) = taken.devices
    content = timeline.content(device, taken, (), 500)
    assert content["hidden"] == count - 500
    assert len(content["rest"]) == len(content["whole"]) <= 2000
    assert content["whole"][-1] == sum(sizes) == content["rest"][-1] + sum(content["size"])
    monkeypatch.setattr(timeline, "LIMIT_BYTES", 100_000)
    assert len(timeline.page(device, taken, (), "t")) < 130_000


def test_names_of_strangers_stay_text(tmp_path):
    hostile = "</script><img src=x onerror=alert(1)>\ud800"
    frames = [{"filename": "a.py", "line": 1, "name": hostile}]
    content = {"segments": [], "device_traces": [[entry("alloc", 1, 5, 1, frames=frames)]]}
    convert.run(raw(written(tmp_path, content)), tmp_path)
    for file in tmp_path.glob("*.rep0.*"):
        text = file.read_text()
        assert "<img" not in text
