"""What surrounds operators and kernels: modules, phases, stacks, graphs, collectives."""

import json

import pytest

from profkit.convert.torch_profiler import trace

MAIN, ENGINE, STREAM = 1, 2, 7


def span(category, name, thread, start, duration, **args):
    where = {"ph": "X", "cat": category, "name": name, "pid": 10, "tid": thread}
    return where | {"ts": start, "dur": duration, "args": args}


def op(name, thread, start, duration, node=()):
    """Return an operator; `node` is its sequence number and the number of the forward thread."""
    args = dict(zip(("Sequence number", "Fwd thread id"), node, strict=False))
    return span("cpu_op", name, thread, start, duration, **args)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return the tables of one step of Net > Block_0, Block_1, each with one linear."""
    python, kernel = "python_function", {"device": 0, "stream": STREAM}
    events = [
        span(python, "train.py(30): <module>", MAIN, 0, 1000),
        span(python, "nn.Module: Net_0", MAIN, 10, 200),
        span(python, "nn.Module: Block_0", MAIN, 20, 50),
        span(python, "<built-in method linear of type object at 0x7f1>", MAIN, 25, 40),
        op("aten::linear", MAIN, 30, 30, (4, 0)),
        op("aten::addmm", MAIN, 35, 20, (4, 0)),
        span("cuda_runtime", "cudaLaunchKernel", MAIN, 40, 5, correlation=1),
        span(python, "nn.Module: Block_1", MAIN, 80, 50),
        op("aten::linear", MAIN, 90, 30, (5, 0)),
        span("cuda_runtime", "cudaGraphLaunch", MAIN, 150, 5, correlation=2),
        op("aten::sum", MAIN, 220, 10),
        op("autograd::engine::evaluate_function: AddmmBackward0", ENGINE, 300, 100, (4, 1)),
        op("AddmmBackward0", ENGINE, 310, 80, (4, 1)),
        op("aten::mm", ENGINE, 320, 60),
        span("cuda_runtime", "cudaLaunchKernel", ENGINE, 330, 5, correlation=3),
        op("autograd::engine::evaluate_function: torch::AccumulateGrad", ENGINE, 410, 10),
        span("user_annotation", "Optimizer.step#AdamW.step", MAIN, 500, 100),
        op("aten::_fused_adamw_", MAIN, 510, 50),
        span("kernel", "gemm", STREAM, 60, 30, correlation=1, **kernel),
        span("kernel", "a", STREAM, 170, 10, correlation=2, **kernel)
        | {"args": {**kernel, "correlation": 2, "graph id": 11, "graph node id": 5}},
        span("kernel", "ncclDevKernel_AllReduce", STREAM, 180, 10, correlation=2, **kernel),
        span("kernel", "gemm_t", STREAM, 350, 10, correlation=3, **kernel),
    ]
    path = tmp_path_factory.mktemp("trace") / "rank0.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return {name: table.to_pandas() for name, table in trace.read(path).tables.items()}


def test_operators_know_module_phase_and_forward_operator(tables):
    ops = tables["cpu_ops"]
    names = ops["name"].astype(object)
    forward = [names[row] if row >= 0 else "" for row in ops["forward"]]
    assert list(zip(names, ops["module"], ops["phase"], forward, strict=True)) == [
        ("aten::linear", "Net_0;Block_0", "forward", ""),
        ("aten::addmm", "Net_0;Block_0", "forward", ""),
        ("aten::linear", "Net_0;Block_1", "forward", ""),
        ("aten::sum", "", "", ""),
        ("Optimizer.step#AdamW.step", "", "optimizer", ""),
        ("aten::_fused_adamw_", "", "optimizer", ""),
        (
            "autograd::engine::evaluate_function: AddmmBackward0",
            *("Net_0;Block_0", "backward", "aten::addmm"),
        ),
        ("AddmmBackward0", "Net_0;Block_0", "backward", "aten::addmm"),
        ("aten::mm", "Net_0;Block_0", "backward", "aten::addmm"),
        ("autograd::engine::evaluate_function: torch::AccumulateGrad", "", "backward", ""),
    ]


def test_kernels_have_the_module_and_phase_of_their_launch(tables):
    columns = ["name", "module", "phase", "graph", "graph_node", "collective"]
    assert tables["kernels"][columns].astype(object).to_numpy().tolist() == [
        ["gemm", "Net_0;Block_0", "forward", -1, -1, -1],
        ["a", "Net_0", "forward", 11, 5, -1],  # of a CUDA graph, launched without an operator
        ["ncclDevKernel_AllReduce", "Net_0", "forward", -1, -1, 0],
        ["gemm_t", "Net_0;Block_0", "backward", -1, -1, -1],
    ]
    assert tables["collectives"]["correlation"].tolist() == [2]


def test_python_calls_are_a_tree_with_modules(tables):
    calls = tables["python_calls"]
    columns = ["call", "caller", "name", "kind", "module"]
    assert calls[columns].astype(object).to_numpy().tolist() == [
        [0, -1, "train.py(30): <module>", "function", ""],
        [1, 0, "Net_0", "module", "Net_0"],
        [2, 1, "Block_0", "module", "Net_0;Block_0"],
        [3, 2, "<built-in method linear of type object>", "function", "Net_0;Block_0"],
        [4, 1, "Block_1", "module", "Net_0;Block_1"],
    ]


def test_operators_know_their_python_stack(tables):
    stacks = tables["cpu_ops"]["stack"].astype(object).tolist()
    block = "train.py(30): <module>;Net_0;Block_0;<built-in method linear of type object>"
    assert stacks[:4] == [
        block,
        block,
        "train.py(30): <module>;Net_0;Block_1",
        "train.py(30): <module>",
    ]
    assert stacks[6] == ""  # the engine's thread runs no Python


def test_recorded_call_stacks_come_from_the_root(real_data):
    folder = real_data / "kineto/tensorboard/resnet50_num_workers_0"
    ops = trace.read(folder / "worker0.1623143089861.pt.trace.json.gz").tables["cpu_ops"]
    stacks = ops["stack"].to_pandas()
    assert (stacks != "").sum() == 14994
    assert stacks[stacks != ""].iloc[0].startswith("resnet50_profiler_api.py(54): <module>;")


def test_every_kernel_of_a_graph_belongs_to_its_launch(real_data):
    path = real_data / "kineto/tracelens/sglang_Qwen3-8B_decode.json.gz"
    tables = {name: table.to_pandas() for name, table in trace.read(path).tables.items()}
    calls = tables["runtime_calls"]
    launch = calls[(calls["name"] == "hipGraphLaunch").to_numpy()]
    assert (tables["kernels"]["correlation"] == launch["correlation"].item()).sum() == 544
