"""Backward operators and the forward ones that they belong to."""

import gzip
import json
from decimal import Decimal

import numpy as np
import pytest

from profkit.convert.columns import on_disk
from profkit.convert.columns.on_disk import Columns
from profkit.convert.columns.spill import Scratch, Spill
from profkit.convert.linking import ordered
from profkit.convert.linking.autograd import forward_rows
from profkit.convert.torch_profiler import trace as kineto


@pytest.fixture(params=[2, 1 << 20], ids=["a few at once", "all at once"])
def linked(request, monkeypatch):
    """Return what links rows of thread, start, sequence and forward_tid."""
    monkeypatch.setattr(ordered, "_NUMBERS_AT_ONCE", request.param)
    monkeypatch.setattr(ordered, "_SAMPLED", 1)
    monkeypatch.setattr(on_disk, "_ROWS_AT_ONCE", request.param)
    scratch = Scratch()

    def link(*rows):
        names = ("tid", "start", "sequence", "forward_tid")
        columns = dict(zip(names, np.array(rows, dtype=np.int64).T, strict=True))
        kept = Spill(scratch)
        ops = Columns(kept, [kept.keep(columns | {"pid": np.zeros(len(rows), dtype=np.int64)})])
        return forward_rows(ops)().tolist()

    return link


def test_the_last_operator_with_the_number_before_the_backward_made_the_node(linked):
    rows = (
        (7, 0, 5, 0),  # aten::linear looks at the number
        (7, 1, 5, 0),  # aten::addmm makes the node
        (7, 2, 6, 0),
        (9, 10, 6, 1),
        (9, 11, 5, 1),
        (7, 20, 5, 0),  # later, in another pass over the file
        (9, 30, 5, 1),
        (9, 31, 4, 1),
    )
    assert linked(*rows) == [-1, -1, -1, 2, 1, -1, 5, -1]


def test_a_number_that_counts_anew_is_that_of_the_last_node_before(linked):
    passes = range(300)
    rows = [row for at in passes for row in ((7, 9 * at, 5, 0), (9, 9 * at + 4, 5, 1))]
    rows += [(9, 1, 5, 1), (9, 9 * len(passes), 5, 1)]
    forward = [row for at in passes for row in (-1, 2 * at)]
    assert linked(*rows) == [*forward, 0, 2 * passes[-1]]


def test_numbers_of_different_threads_are_kept_apart(linked):
    rows = (
        *((7, at, at, 0) for at in (1, 2, 3)),
        *((8, at, at, 0) for at in (3, 4, 5)),
        *((9, 10 + at, at, 1) for at in (1, 2, 3)),
        *((9, 20 + at, at, 2) for at in (3, 4, 5)),
    )
    assert linked(*rows)[6:] == [0, 1, 2, 3, 4, 5]


def test_without_forward_operators_nothing_is_linked(linked):
    assert linked((9, 0, 5, 1)) == [-1]


@pytest.mark.parametrize(
    ("name", "flows"),
    [
        ("ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", 905),
        ("nccl_parser_config/nccl_data.json.gz", 543),
        ("amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz", 4),
    ],
)
def test_links_are_the_flows_that_pytorch_drew(real_data, name, flows):
    path = real_data / "kineto/hta" / name
    # Times of 16 digits and a fraction are more than a float holds.
    trace = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    base = int(trace.get("baseTimeNanoseconds", 0))
    drawn = {"s": {}, "f": {}}
    for event in trace["traceEvents"]:
        if event.get("cat") == "fwdbwd":
            # A flow has the start of its operator, and no other name for it.
            drawn[event["ph"]][event["id"]] = (event["tid"], base + int(1000 * event["ts"]))
    ops = kineto.read(path).tables["cpu_ops"].to_pandas()
    by_start = dict(zip(zip(ops["tid"], ops["start_ns"], strict=True), ops["op"], strict=True))
    forward = ops["forward"].to_numpy()
    pairs = [(forward[by_start[at]], by_start[drawn["s"][flow]]) for flow, at in drawn["f"].items()]
    assert len(pairs) == flows
    assert [got for got, _ in pairs] == [wanted for _, wanted in pairs]
