"""Traces of real profilers: counts, times, links and damage."""

import collections
import csv
import functools
import gc
import gzip
import itertools
import json
import random

import pytest

from profkit.convert.columns.values import nanoseconds
from profkit.convert.torch_profiler import trace as kineto
from profkit.convert.torch_profiler.reader import Reader
from profkit.core.errors import InputError

# Kernels (category kernel) and ProfilerSteps, from the table beside the files.
COUNTS = {
    "hta/nccl_parser_config/nccl_data.json.gz": (2700, 3),
    "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": (4350, 5),
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": (14, 2),
    "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz": (79, 0),
    "hta/triton_example/triton_example.json.gz": (1, 1),
    "hta/call_stack/backward_thread.json": (1, 1),
    "hta/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz": (0, 0),
    "hta/trace_diff/control/control.json.gz": (8568, 6),
    "hta/trace_diff/test/test.json.gz": (9876, 6),
    "dlrm_8rank_v100/worker3_step_12.1694128201557.pt.trace.json.gz": (315, 1),
    "tracelens/mi210_gpu_only_trace.json.gz": (562, 0),
    "tracelens/sglang_Qwen3-8B_decode.json.gz": (555, 0),
    "tracelens/h100/google_owlv2-large-patch14-ensemble__1016001.json.gz": (4330, 1),
    "tensorboard/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz": (8772, 6),
    "tensorboard/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz": (8868, 6),
    "llama_2rank_rtx4090/rank1.json.gz": (156, 0),
}

# Busy and total time in ms inside the device-side ProfilerStep, sets included.
BUSY = {
    "h100/Falconsai_nsfw_image_detection__1016002": (1.2253, 7.5598),
    "h100/Qwen_Qwen1.5-0.5B-Chat__1016005": (31.9055, 34.8924),
    "h100/gaunernst_bert-small-uncased__1016001": (0.3094, 3.9078),
    "h100/google_owlv2-large-patch14-ensemble__1016001": (566.7595, 1078.2884),
    "mi300/Falconsai_nsfw_image_detection__1016002": (1.7163, 6.8688),
    "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005": (29.7439, 33.1313),
    "mi300/gaunernst_bert-small-uncased__1016001": (0.3907, 3.4960),
}

DAMAGED = (
    "hta/trace_diff/test/test.json.gz",
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "tracelens/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    "hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta/call_stack/backward_thread.json",
)


def text_of(path):
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def traces(real_data):
    return sorted((real_data / "kineto").rglob("*.json*"))


@pytest.fixture(scope="module")
def read(real_data):
    """Return a function from the name of a trace to what was read of it, which is read once."""
    return functools.cache(lambda name: kineto.read(real_data / "kineto" / name))


def frames(trace):
    return {name: table.to_pandas() for name, table in trace.tables.items()}


@pytest.mark.parametrize("name", COUNTS)
def test_kernels_and_steps_are_all_there(read, name):
    found = frames(read(name))
    kernels = found["kernels"]["kind"].isin(["compute", "communication"]).sum()
    assert (kernels, len(found["steps"])) == COUNTS[name]


def totals(pairs):
    """Return count and total duration in ns by category."""
    durations = collections.defaultdict(list)
    for category, duration in pairs:
        durations[category].append(duration or 0)
    return {name: (len(found), nanoseconds(found).sum()) for name, found in durations.items()}


@pytest.fixture
def without_garbage_collection():
    """Millions of small objects, none of them in cycles: collecting takes half of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_garbage_collection")
def test_blocks_hold_what_json_holds(real_data):
    """Same events and the same total duration per category as Python's own decoder."""
    for path in traces(real_data):
        events = json.loads(text_of(path))["traceEvents"]
        reader = Reader(path, block_bytes=1 << 18)
        events_read = itertools.chain.from_iterable(reader)
        found = totals((e.cat, getattr(e, "dur", None)) for e in events_read)
        assert found == totals((e.get("cat", ""), e.get("dur")) for e in events), path.name
        assert reader.notes == [], path.name


@pytest.mark.parametrize("name", BUSY)
def test_device_work_fills_the_step_as_tracelens_says(read, name):
    found = frames(read(f"tracelens/{name}.json.gz"))
    spans = found["annotations"].query("kind == 'device'")
    step = spans[spans["name"].astype(str).str.startswith("ProfilerStep")].iloc[0]
    busy, until = 0, step.start_ns
    for start, end in found["kernels"][["start_ns", "end_ns"]].sort_values("start_ns").to_numpy():
        start, end = max(start, until), min(end, step.end_ns)  # noqa: PLW2901
        if end > start:
            busy += end - start
            until = end
    ms = (busy / 1e6, (step.end_ns - step.start_ns) / 1e6)
    assert ms == pytest.approx(BUSY[name], abs=1.01e-4)


def test_kernels_have_the_operators_that_tracelens_found(read, real_data):
    for path in sorted((real_data / "kineto/tracelens").rglob("*.kernel_summary.csv")):
        name = path.relative_to(real_data / "kineto").as_posix()
        found = frames(read(name.replace("kernel_summary.csv", "json.gz")))
        ops = found["cpu_ops"].set_index("op")["name"].astype(str)
        kernels = found["kernels"]
        kernels = kernels[kernels["kind"].isin(["compute", "communication"])]
        ours = collections.Counter(
            zip(kernels["op"].map(ops).fillna(""), kernels["name"], kernels["stream"], strict=True)
        )
        theirs = collections.Counter()
        with path.open() as file:
            for row in csv.DictReader(file):
                key = (row["Parent cpu_op"], row["Kernel name"], int(row["Kernel stream"]))
                theirs[key] += int(row["Kernel duration (µs)_count"])
        assert ours == theirs, path.name


def test_nccl_kernels_are_communication(read):
    found = frames(read("hta/nccl_parser_config/nccl_data.json.gz"))
    assert (found["kernels"]["kind"] == "communication").sum() == 21


def test_kernels_of_the_optimizer_are_found_through_its_annotation(read):
    """HTA counts 4876 in all steps but the last, and 27, which is three steps of nine."""
    found = frames(read("hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"))
    ops = found["cpu_ops"].set_index("op")
    parents, names = ops["parent"].to_dict(), ops["name"].astype(str).to_dict()

    def below_optimizer(op):
        while op >= 0 and names[op] != "Optimizer.step#SGD.step":
            op = parents[op]
        return op >= 0

    kernels = found["kernels"]
    assert (kernels["step"] < 105).sum() == 4876
    below = kernels[kernels["op"].map(below_optimizer)]
    assert below["step"].value_counts().to_dict() == dict.fromkeys(range(101, 106), 9)


def test_self_times_add_up_to_the_roots(read):
    """Every ns of a root belongs to one operator or call below it."""
    found = frames(read("hta/trace_diff/control/control.json.gz"))
    ops = found["cpu_ops"]
    assert (ops["self_ns"] >= 0).all()
    roots = ops[ops["parent"] < 0]
    calls = found["runtime_calls"].query("op >= 0")
    total = (roots["end_ns"] - roots["start_ns"]).sum()
    assert ops["self_ns"].sum() + (calls["end_ns"] - calls["start_ns"]).sum() == total


@pytest.mark.parametrize("percent", [10, 50, 99])
@pytest.mark.parametrize("name", DAMAGED)
def test_truncated_traces_give_a_part_and_say_so(read, real_data, tmp_path, name, percent):
    text = text_of(real_data / "kineto" / name)
    path = tmp_path / "cut.json"
    path.write_bytes(text[: len(text) * percent // 100])
    whole = read(name)
    if path.stat().st_size < 1000:  # not even one event
        with pytest.raises(InputError, match="cut off before the first"):
            kineto.read(path)
        return
    part = kineto.read(path)
    assert all(len(part.tables[name]) <= len(table) for name, table in whole.tables.items())
    assert part.notes[0].startswith("The trace is cut off at byte ") or percent == 99


@pytest.mark.parametrize("percent", [10, 50, 99])
def test_truncated_gzip_gives_a_part_and_says_so(real_data, tmp_path, percent):
    content = (real_data / "kineto" / DAMAGED[0]).read_bytes()
    path = tmp_path / "cut.json.gz"
    path.write_bytes(content[: len(content) * percent // 100])
    part = kineto.read(path)
    assert 0 < len(part.tables["cpu_ops"]) <= 31524
    assert len(part.tables["runtime_calls"]) < 21167
    assert part.notes[0].startswith("The gzip data ends early, after byte ")


@pytest.mark.parametrize("name", ["hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz"])
def test_random_damage_never_costs_more_than_it_touches(real_data, tmp_path, name):
    text = text_of(real_data / "kineto" / name)
    path = tmp_path / "damaged.json"
    chance = random.Random(0)  # noqa: S311
    kept = 0
    for _ in range(30):
        damaged = bytearray(text)
        for at in chance.sample(range(2000, len(text)), 3):
            damaged[at] = chance.choice(b'"{}[],:\\0a\xff\n')
        path.write_bytes(damaged)
        found = kineto.read(path)
        kept += len(found.tables["cpu_ops"]) >= 60
    assert kept >= 27
