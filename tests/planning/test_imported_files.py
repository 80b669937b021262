"""What lies in folders of users: links, pipes, odd names, and traces that are not of one run."""

import json
import os
import pickle
import socket
from dataclasses import replace

import pytest

from profkit.convert import converter
from profkit.core.errors import InputError
from profkit.planning.imported_files import refuse_empty
from profkit.planning.imported_runs import add_run, find, import_kinds

TOOL, KIND = import_kinds()["trace"]
HOUR_US = 3_600_000_000


def trace(path, *, device="NVIDIA H100", at_us=10**15, tail_base=False, **stated):
    rank, pid = stated.get("rank"), stated.get("pid", 1102)
    info = {} if rank is None else {"distributedInfo": {"backend": "nccl", "rank": rank}}
    event = {"ph": "X", "cat": "cpu_op", "name": "op", "tid": 1, "ts": at_us, "dur": 2}
    events = [event | {"pid": pid}, event | {"cat": "kernel", "pid": 0}]
    base = {"baseTimeNanoseconds": 7 * 10**17} if tail_base else {}
    properties = {"deviceProperties": [{"id": 0, "name": device}]} if device else {}
    host = {"host_name": stated["host"]} if "host" in stated else {}
    path.write_text(json.dumps(properties | info | host | {"traceEvents": events} | base))
    return path


def names(paths):
    return {file.path.name: file.rank for file in find(paths, KIND)}


def left_out(paths):
    return [sentence for file in find(paths, KIND) for sentence in file.left_out]


def test_links_to_a_file_do_not_become_another_rank(tmp_path):
    trace(tmp_path / "a.json")
    (tmp_path / "b.json").symlink_to("a.json")
    os.link(tmp_path / "a.json", tmp_path / "c.json")
    assert names([tmp_path]) == {"a.json": 0}
    assert left_out([tmp_path]) == [
        "b.json: left out, as it is a link to a.json",
        "c.json: left out, as it is a link to a.json",
    ]


def test_what_is_no_file_is_left_out_and_named(tmp_path):
    trace(tmp_path / "a.json")
    (tmp_path / "dead.json").symlink_to("nowhere")
    (tmp_path / "circle.json").symlink_to("circle.json")
    (tmp_path / "device.json").symlink_to("/dev/zero")
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket.json"))
        assert names([tmp_path]) == {"a.json": 0}
        said = left_out([tmp_path])
    assert [sentence.partition(": left out, as it is ")[::2] for sentence in sorted(said)] == [
        ("circle.json", "not a file that can be opened (Too many levels of symbolic links)"),
        ("dead.json", "a link to a file that is not there"),
        ("device.json", "a device"),
        ("folder.json", "a folder"),
        ("pipe.json", "a pipe"),
        ("socket.json", "a socket"),
    ]
    for name in ("dead", "circle", "device", "pipe", "socket"):
        with pytest.raises(InputError, match=rf"{name}.json: "):
            find([tmp_path / f"{name}.json"], KIND)


def test_equal_files_of_other_names_are_ranks_and_said_to_be_equal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [trace(tmp_path / name) for name in ("a.json", "b.json")]
    run = add_run(find(files, KIND), TOOL, KIND, name="x", command="c")
    [record] = (tmp_path / "results/runs" / run).rglob("capture.json")
    assert (
        "b.json: has the same content as a.json, and counts as a rank of its own"
        in (json.loads(record.read_bytes())["warnings"])
    )


@pytest.mark.parametrize(
    "name",
    [
        *(
            b"br{ace}s",
            b"{input}",
            b"new\nline",
            b"sp ace",
            b"quo\"te'",
            b"$(x)`y`",
            b"back\\slash",
        ),
        *(
            b"st*r?[a]",
            b"-dash",
            b"per%20cent",
            b"semi;colon&",
            b"com,ma=1",
            b"by\xffte",
            b"a" * 240,
        ),
    ],
)
def test_any_name_is_put_into_the_run_as_a_plain_one(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    file = trace(tmp_path / os.fsdecode(name + b".json"))
    command = f"profkit import trace {file}"
    run = add_run(find([file], KIND), TOOL, KIND, name=file.stem, command=command)
    [placed] = (tmp_path / "results/runs" / run).rglob("rank0*")
    safe = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
    assert set(placed.name) | set(run) <= safe
    assert placed.read_bytes() == file.read_bytes()
    json.loads((placed.parent / "capture.json").read_bytes().decode())


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({}, {"device": "AMD MI300X"}, r"different devices \(NVIDIA H100 and AMD MI300X\)"),
        ({}, {"at_us": 10**15 + HOUR_US}, "not recorded at the same time"),
        ({"rank": 0}, {"rank": 1, "at_us": 10**15 + HOUR_US}, "not recorded at the same time"),
        ({}, {"at_us": 10**15, "tail_base": True}, "not recorded at the same time"),
        ({}, {"at_us": 10**15 + 1_000_000}, "one after the other in process 1102"),
        ({}, {"at_us": 10**15 + 1_000_000, "pid": 2207}, ""),
        ({}, {"device": ""}, ""),
        ({"rank": 0}, {"rank": 1, "device": "AMD MI300X"}, ""),
        ({"rank": 0}, {"rank": 0, "at_us": 10**15 + HOUR_US}, ""),
        ({"rank": 0}, {"rank": 0, "pid": 2207}, r"of different processes \(1102 and 2207\)"),
        ({"rank": 0}, {"rank": 1, "pid": 2207}, ""),
        ({"rank": 0, "host": "a"}, {"rank": 1, "at_us": 10**15 + 6_000_000, "host": "b"}, ""),
        (
            {"rank": 0, "host": "a"},
            {"rank": 1, "at_us": 10**15 + 6_000_000, "host": "a"},
            "not recorded at the same time",
        ),
        ({"rank": 0, "pid": 12}, {"rank": 0, "pid": 13}, ""),
    ],
    ids=[
        *(
            "models of GPU",
            "an hour apart",
            "ranks an hour apart",
            "clocks apart",
            "one process",
            "a second apart",
        ),
        *("no model", "ranks of a mixed cluster", "parts of one rank"),
        *("two programs", "two ranks", "hosts apart", "one host, one after the other"),
        "too small for the id of a process",
    ],
)
def test_traces_that_are_not_of_one_run_do_not_become_ranks(tmp_path, first, second, says):
    files = [trace(tmp_path / "a.json", **first), trace(tmp_path / "b.json", **second)]
    if not says:
        assert len(find(files, KIND)) == 2
        return
    with pytest.raises(
        InputError, match=f"a.json and .*b.json .*{says}, so they are not of one run"
    ):
        find(files, KIND)


def test_real_ranks_belong_together_and_models_of_one_folder_do_not(real_data):
    for folder, ranks in (("dlrm_8rank_v100", 8), ("llama_2rank_rtx4090", 2)):
        assert len(find([real_data / "kineto" / folder], KIND)) == ranks
    spans = find([real_data / "kineto/tensorboard/resnet50_num_workers_0"], KIND)
    assert [file.rank for file in spans] == [0, 0]
    for folder in ("tracelens", "tracelens/h100", "tracelens/mi300", "hta/trace_diff", "hta", ""):
        with pytest.raises(InputError, match="are not of one run"):
            find([real_data / "kineto" / folder], KIND)


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("torch_profiler", b'{"traceEvents": []}', "a trace without any event of torch.profiler"),
        (
            "torch_profiler",
            b'{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": []}',
            "empty: nothing was recorded in it\n  hint: record again",
        ),
        (
            "torch_profiler",
            (
                b'{"schemaVersion": 1, "traceEvents": [{"name": "Line 7", "cat": "Line 7", '
                b'"ph": "X", "ts": 5, "dur": 1, "pid": 0, "tid": 0}]}'
            ),
            "a trace without any event of torch.profiler (its categories: Line 7)",
        ),
        ("memory_snapshot", pickle.dumps({}), "not a memory snapshot"),
    ],
)
def test_files_without_an_event_are_refused_before_anything_is_made(tmp_path, kind, content, said):
    empty, other = tmp_path / "empty", trace(tmp_path / "b.json")
    empty.write_bytes(content)
    with pytest.raises(InputError) as caught:
        refuse_empty([empty, empty], converter(kind))
    assert said in str(caught.value)
    if kind == TOOL:
        refuse_empty([empty, other], converter(kind))


def test_a_file_that_is_large_or_breaks_its_reader_is_left_to_the_conversion(tmp_path):
    large = tmp_path / "large.json"
    large.write_text('{"traceEvents": []}' + " " * (64 << 10))
    refuse_empty([large], converter(TOOL))

    def fail(*_):
        raise ZeroDivisionError

    refuse_empty([trace(tmp_path / "a.json")], replace(converter(TOOL), run=fail))
