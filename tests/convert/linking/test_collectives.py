"""Communication calls of every vintage, on devices and on hosts."""

import json
import subprocess

import pytest

from profkit.convert.linking.messages import (
    Message,
    dtype_of,
    elements,
    operation_of,
    ranks_of,
    size_bytes,
)
from profkit.convert.torch_profiler import trace
from tests.waiting import LIMIT_S
from tests.warm_ranks import warm_rank_python


@pytest.fixture
def read(tmp_path):
    """Return a function that reads events as a trace and gives its collectives."""

    def convert(*events, **header):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": list(events)}))
        return rows(path)

    return convert


def rows(path):
    return trace.read(path, rank=3, repeat=1).tables["collectives"].to_pylist()


def event(cat, name, ts, dur, **args):
    stream = {"device": 0, "stream": 7} if cat == "kernel" else {}
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur} | {
        "args": stream | args
    }


def picked(row, *names):
    return {name: row[name] for name in names}


MESSAGE = {
    "Collective name": "_allgather_base",
    "In msg nelems": 100,
    "Out msg nelems": 400,
    "Group size": 4,
    "dtype": "BFloat16",
    "Process Group Name": "5",
    "Process Group Description": "mesh_tp",
    "Process Group Ranks": "[0, 1, 2, 3]",
}


def test_a_kernel_says_itself_what_it_moves(read):
    (row,) = read(
        event("user_annotation", "ProfilerStep#2", 0, 90),
        event("cpu_op", "c10d::_allgather_base_", 1, 20),
        event("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=9),
        event("kernel", "ncclDevKernel_AllGather_RING_LL", 30, 40, correlation=9, **MESSAGE),
        event("kernel", "gemm", 75, 5, correlation=10),
    )
    assert row == {
        "rank": 3, "repeat": 1, "collective": 0, "kind": "device", "operation": "allgather",
        "name": "ncclDevKernel_AllGather_RING_LL", "group": "5", "group_description": "mesh_tp",
        "group_ranks": "[0,1,2,3]", "group_size": 4, "in_elements": 100, "out_elements": 400,
        "dtype": "bfloat16", "size_bytes": 800, "sequence": -1,
        "start_ns": 30_000, "end_ns": 70_000,
        "call_ns": 5_000, "correlation": 9, "op": 1, "step": 2,
    }  # fmt: skip


def test_what_the_kernel_leaves_out_its_operator_tells(read):
    (row,) = read(
        event("cpu_op", "record_param_comms", 1, 20, **MESSAGE),
        event("user_annotation", "nccl:_all_gather_base", 2, 10),
        event("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=9),
        event("kernel", "ncclDevKernel_AllGather_RING_LL", 30, 40, correlation=9),
    )
    assert picked(row, "operation", "group", "size_bytes", "op") == {
        "operation": "allgather", "group": "5", "size_bytes": 800, "op": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("of_kernel", "of_operator", "sequence"),
    [
        ({"Seq": 41}, {"Seq": 41}, 41),
        ({"Seq": 41}, {}, 41),
        ({}, {"Seq": 41}, 41),
        ({"Seq": -7}, {}, -1),
        ({"Seq": "41"}, {}, 41),
        ({}, {}, -1),
    ],
)
def test_the_number_of_a_call_is_that_of_its_kernel_or_its_operator(
    read, of_kernel, of_operator, sequence
):
    (row,) = read(
        event("cpu_op", "record_param_comms", 1, 20, **MESSAGE, **of_operator),
        event("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=9),
        event("kernel", "ncclDevKernel_AllGather", 30, 40, correlation=9, **MESSAGE, **of_kernel),
    )
    assert row["sequence"] == sequence


def test_before_messages_were_recorded_the_shapes_of_the_range_tell(read):
    shapes = {"Input Dims": [[6, 10], [40]], "Input type": ["float", "float"]}
    (row,) = read(
        event("cpu_op", "record_param_comms", 1, 20, **{"Input Dims": [[], []]}),
        event("user_annotation", "nccl:all_to_all", 2, 10, **shapes),
        event("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=9),
        event("kernel", "ncclKernel_SendRecv_RING", 30, 40, correlation=9),
    )
    known = ("operation", "group", "group_size", "in_elements", "out_elements", "size_bytes")
    assert picked(row, *known) == {
        "operation": "alltoall", "group": "", "group_size": -1,
        "in_elements": 100, "out_elements": -1, "size_bytes": 400,
    }  # fmt: skip


def test_a_kernel_alone_tells_the_operation_by_its_name(read):
    (row,) = read(event("kernel", "ncclKernel_AllReduce_RING_LL_Sum_float", 30, 40))
    known = ("operation", "size_bytes", "dtype", "call_ns", "op")
    assert picked(row, *known) == {
        "operation": "allreduce", "size_bytes": -1, "dtype": "", "call_ns": -1, "op": -1,
    }  # fmt: skip


def test_in_a_range_that_names_no_operation_the_kernel_tells_it(read):
    (row,) = read(
        event("user_annotation", "nccl:coalesced", 2, 10),
        event("cuda_runtime", "cudaLaunchKernelExC", 5, 2, correlation=9),
        event("kernel", "ncclDevKernel_SendRecv(ncclDevKernelArgs)", 30, 40, correlation=9),
    )
    assert (row["operation"], row["op"], row["size_bytes"]) == ("sendrecv", 0, -1)


def test_the_only_group_is_that_of_every_call(read):
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}
    kernel = event("kernel", "ncclKernel_AllReduce", 30, 40)
    (row,) = read(kernel, distributedInfo={"rank": 0, "pg_config": [group]})
    names = ("group", "group_description", "group_ranks", "group_size")
    assert list(picked(row, *names).values()) == ["0", "default_pg", "[0,1]", 2]
    (row,) = read(kernel, distributedInfo={"rank": 0, "pg_config": [group, group]})
    assert list(picked(row, *names).values()) == ["", "", "", -1]


def test_the_size_of_a_named_group_is_that_of_the_metadata(read):
    groups = [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 128},
        {"pg_name": "5", "ranks": [0, 8, 16]},
    ]
    of = {key: value for key, value in MESSAGE.items() if key != "Group size"}
    del of["Process Group Ranks"]
    (row,) = read(
        event("kernel", "ncclDevKernel_AllGather", 30, 40, **of),
        distributedInfo={"rank": 0, "world_size": 128, "pg_config": groups},
    )
    known = ("group", "group_description", "group_ranks", "group_size")
    assert list(picked(row, *known).values()) == ["5", "mesh_tp", "[0,8,16]", 3]


@pytest.mark.parametrize(
    ("ranks", "size"), [("[0, 1, 2, 3]", 4), ("[0, 1, ..., 127]", -1), ("", -1), ("[]", -1)]
)
def test_the_size_of_a_group_is_the_number_of_its_ranks_if_they_are_all_listed(read, ranks, size):
    of = {key: value for key, value in MESSAGE.items() if key != "Group size"}
    (row,) = read(event("kernel", "ncclKernel", 3, 4, **of | {"Process Group Ranks": ranks}))
    assert row["group_size"] == size


OF_ENGINE = {"Input Dims": [[], [64, 4096], [64, 4096], [], []]}
OF_ENGINE["Input type"] = ["Scalar", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"]


@pytest.mark.parametrize(
    ("op", "kernel", "args", "expected"),
    [
        (
            "_C_custom_ar::all_reduce",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)",
            OF_ENGINE,
            ("allreduce", "bfloat16", 2 * 64 * 4096),
        ),
        (
            "symm_mem::multimem_one_shot_all_reduce",
            "void (anonymous namespace)::multimem_one_shot_reduce_kernel<float, 16>(float*)",
            {"Input Dims": [[1024], [], []], "Input type": ["float", "", ""]},
            ("allreduce", "float32", 4096),
        ),
        (
            "aten::linear",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)",
            OF_ENGINE,
            ("allreduce", "", -1),
        ),
        (
            "_c10d_functional::all_gather_into_tensor",
            "multimem_all_gather_kernel",
            {"Input Dims": [["a"], []], "Input type": ["float", ""]},
            ("allgather", "", -1),
        ),
        ("x", "void deep_ep::intranode::dispatch<8, 768>(int4*)", {}, ("dispatch", "", -1)),
        ("x", "void dpsk::ep::internode::combine_ll<7168>(int4*)", {}, ("combine", "", -1)),
    ],
)
def test_kernels_without_a_message_are_as_large_as_their_operators_inputs(
    read, op, kernel, args, expected
):
    (row,) = read(
        event("cpu_op", op, 1, 20, **args),
        event("cuda_runtime", "cudaLaunchKernel", 5, 2, correlation=9),
        event("kernel", kernel, 30, 40, correlation=9),
    )
    assert tuple(picked(row, "operation", "dtype", "size_bytes").values()) == expected


def test_calls_of_gloo_belong_to_the_operators_in_their_order(read):
    shapes = {"Input Dims": [[8]], "Input type": ["long int"]}
    found = read(
        event("cpu_op", "c10d::allreduce_", 1, 1),
        event("cpu_op", "c10d::allreduce_", 3, 1),
        event("cpu_op", "c10d::broadcast_", 9, 1),
        event("user_annotation", "gloo:all_reduce", 2, 5, **shapes),
        event("user_annotation", "gloo:all_reduce", 7, 5, **shapes),
        event("user_annotation", "gloo:broadcast", 8, 5),
    )
    known = ("kind", "operation", "start_ns", "call_ns", "size_bytes")
    assert [tuple(picked(row, *known).values()) for row in found] == [
        ("host", "allreduce", 2_000, 1_000, 64),
        ("host", "allreduce", 7_000, 3_000, 64),
        ("host", "broadcast", 8_000, -1, -1),
    ]


OF_VLLM = {"Input Dims": [[], [4096, 2560]], "Input type": ["Scalar", "c10::BFloat16"]}


def test_collectives_of_other_libraries_on_the_cpu_are_calls_of_the_cpu(read):
    (row,) = read(event("cpu_op", "_C::shm_allreduce", 2, 5, **OF_VLLM))
    known = ("kind", "operation", "start_ns", "end_ns", "dtype", "size_bytes")
    expected = ("host", "allreduce", 2_000, 7_000, "bfloat16", 4096 * 2560 * 2)
    assert tuple(picked(row, *known).values()) == expected


@pytest.mark.parametrize(
    ("inside", "names"),
    [
        ((event("cpu_op", "_C::shm_allreduce", 3, 3),), ["_C::shm_allreduce"]),
        ((event("user_annotation", "gloo:all_reduce", 3, 9),), ["gloo:all_reduce"]),
        ((event("user_annotation", "nccl:all_reduce", 3, 3),), []),
        (
            (
                event("cuda_runtime", "cudaLaunchKernel", 3, 1, correlation=9),
                event("kernel", "ncclDevKernel_AllReduce", 8, 9, correlation=9),
            ),
            ["ncclDevKernel_AllReduce"],
        ),
        ((event("cuda_runtime", "cudaLaunchKernel", 3, 1, correlation=9),), []),
        ((event("cpu_op", "aten::empty", 3, 1),), ["vllm::all_reduce"]),
    ],
    ids=["another collective", "a range", "a range of GPUs", "a kernel", "a launch", "no call"],
)
def test_a_collective_counts_once_with_what_it_calls(read, inside, names):
    found = read(event("cpu_op", "vllm::all_reduce", 1, 6, **OF_VLLM), *inside)
    assert [row["name"] for row in found] == names


@pytest.mark.parametrize("with_range", [True, False])
def test_collectives_of_pytorch_count_where_the_back_end_has_no_ranges(read, with_range):
    ranges = [event("cpu_op", "gloo:all_reduce", 4, 5)] if with_range else []
    found = read(event("cpu_op", "c10d::allreduce_", 1, 2), *ranges)
    name = "gloo:all_reduce" if with_range else "c10d::allreduce_"
    assert [row["name"] for row in found] == [name]


def test_counts_beyond_reason_are_unknown(read):
    damage = dict.fromkeys(("In msg nelems", "Out msg nelems", "Group size"), 2**62)
    (row,) = read(event("kernel", "ncclKernel", 3, 4, **(MESSAGE | damage)))
    known = ("in_elements", "out_elements", "group_size", "size_bytes")
    assert list(picked(row, *known).values()) == [-1, -1, 4, -1], "its ranks are listed"


def test_waiting_is_no_message(read):
    wait = {"Collective name": "wait", "Group size": 1}
    assert read(event("cpu_op", "record_param_comms", 1, 20, **wait)) == []


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("_allgather_base", "allgather"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "reduce_scatter"),
        ("nccl:all_to_all", "alltoall"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "sendrecv"),
        ("allreduce_coalesced", "allreduce"),
        ("reduce", "reduce"),
        ("gloo:gather", "gather"),
        ("hcom_allReduce__428_0_1", "allreduce"),
        ("HcomReduceScatter", "reduce_scatter"),
        ("void aiter::reduce_scatter_cross_device_store<__half, 8>", "reduce_scatter"),
        ("init", ""),
    ],
)
def test_operations_have_many_names(name, operation):
    assert operation_of(name) == operation


def test_types_have_many_names():
    words = ("Float", "float", "c10::Half", "long int", "Byte", "quint8")
    assert list(map(dtype_of, words)) == [
        "float32", "float32", "float16", "int64", "uint8", "quint8",
    ]  # fmt: skip


def test_ranks_are_a_list_or_its_text():
    assert ranks_of(b'"[0, 1]"') == ranks_of(b"[0, 1]") == "[0,1]"
    assert ranks_of(b'"[0, 1, 2, ...]"') == "[0,1,2,...]"
    assert ranks_of(b"") == ""


@pytest.mark.parametrize(
    ("shapes", "types", "count"),
    [
        ("[[2,3],[4]]", '["float","float"]', (10, "float32")),
        ("[[2],[4]]", '["float","int"]', (6, "")),
        ("[[],[]]", '["TensorList","Scalar"]', (-1, "")),
        ("", "", (-1, "")),
        ('[["a"]]', '["float"]', (-1, "")),
        ("[[2.5]]", '["float"]', (-1, "float32")),
        ("[[1000000000,1000000000]]", '["float"]', (-1, "float32")),
        ("[[2]]", "[3]", (-1, "")),
    ],
)
def test_elements_are_counted_where_the_shapes_say(shapes, types, count):
    assert elements(shapes, types) == count


def test_sizes_are_the_larger_of_both_sides():
    packed = Message(operation="allreduce", given=10, dtype=dtype_of("Float8_e4m3fnuz"))
    assert size_bytes(packed) == 10
    given = Message(operation="allgather", given=10, dtype="float32")
    assert size_bytes(given) == -1
    assert size_bytes(given._replace(size=4)) == 160
    assert size_bytes(given._replace(got=30)) == 120
    assert size_bytes(given._replace(operation="reduce_scatter")) == 40
    assert size_bytes(given._replace(operation="allreduce", dtype="quint8")) == -1


def test_the_first_allreduce_of_a_real_trace_is_what_hta_says(real_data):
    found = rows(real_data / "kineto/hta/nccl_parser_config/nccl_data.json.gz")
    assert len(found) == 21
    first = next(row for row in found if row["operation"] == "allreduce")
    known = ("in_elements", "group", "group_description", "group_ranks", "group_size", "dtype")
    assert list(picked(first, *known).values()) == [
        2049000, "0", "default_pg", "[0,1]", 2, "float32",
    ]  # fmt: skip
    assert first["size_bytes"] == 2049000 * 4


def test_every_rank_of_a_real_job_has_the_same_calls(real_data):
    paths = sorted((real_data / "kineto/dlrm_8rank_v100").glob("*.json.gz"))
    calls = [[(row["operation"], row["dtype"]) for row in rows(path)] for path in paths]
    assert calls == [calls[0]] * 8
    assert calls[0] == [
        ("alltoall", "float32"), ("alltoall", "int64"), ("alltoall", "int32"),
        ("alltoall", "int32"), ("allreduce", "float32"), ("alltoall", "float32"),
        ("allreduce", "float32"), ("allreduce", "float32"),
    ]  # fmt: skip


PROGRAM = """
import sys
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("gloo")
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    value = torch.ones(1000)
    dist.all_reduce(value)
    dist.all_gather([torch.empty(1000), torch.empty(1000)], value)
    dist.broadcast(value.half(), 0)
profiler.export_chrome_trace(f"{sys.argv[1]}/rank{dist.get_rank()}.pt.trace.json")
dist.destroy_process_group()
"""


@pytest.mark.slow  # makes a capture
def test_a_capture_over_gloo_tells_each_call(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    launcher = [warm_rank_python(), "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, "--nproc-per-node=2", str(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    known = ("kind", "operation", "group_description", "group_size", "size_bytes")
    for rank in range(2):
        found = rows(tmp_path / f"rank{rank}.pt.trace.json")
        assert [tuple(picked(row, *known).values()) for row in found] == [
            ("host", "allreduce", "default_pg", 2, 4000),
            ("host", "allgather", "default_pg", 2, 8000),
            ("host", "broadcast", "default_pg", 2, 2000),
        ]
        assert all(0 < row["call_ns"] <= row["start_ns"] < row["end_ns"] for row in found)
