"""Each pattern on its own examples, of which it has a module: what it finds, and what it passes."""

import importlib

import numpy as np
import pytest

from profkit.core.verdict import Confidence
from profkit.patterns import patterns
from profkit.patterns._rows import place
from profkit.patterns.base import Step
from profkit.patterns.work_beside_the_model import _mostly_in
from profkit.testing import found, frame, span
from tests.patterns.examples import (
    experts_on_all_rows,
    loading_in_main_process,
    python_in_the_model,
    recomputed_forward,
    scalars_in_a_loop,
    short_kernels,
    unchanged_input,
    unfused_attention,
    unfused_gelu,
    unused_gradients,
    weights_made_in_calls,
    work_beside_the_model,
    workers_restarted,
)
from tests.patterns.recorded import call, causes, collective, kernel, op, python, sent


def examples(name):
    return importlib.import_module(f"tests.patterns.examples.{name}")


@pytest.mark.parametrize("name", patterns())
def test_a_pattern_finds_its_example(name):
    example = examples(name)
    (made,) = found(patterns()[name], **example.FOUND)
    cause, gain_ns, words = example.EXPECTED
    assert (made.cause, made.gain_ns) == (cause, pytest.approx(gain_ns))
    assert words in made.advice


@pytest.mark.parametrize(
    ("name", "why"),
    [(name, why) for name in patterns() for why in examples(name).PASSED],
)
def test_and_not_where_it_does_not_apply(name, why):
    assert found(patterns()[name], **examples(name).PASSED[why]) == ()


@pytest.mark.parametrize("trains", [False, True])
def test_a_product_that_is_added_to_a_weight_is_not_needed_in_training_either(trains):
    example = weights_made_in_calls
    ops = [*example.ADDED, *([example.BACKWARD] if trains else [])]
    (match,) = found(patterns()["weights_made_in_calls"], cpu_ops=ops)
    assert match.gain_ns == 30_000
    assert match.advice.startswith("Multiply the input by the small factors")


def test_a_model_that_is_called_twice_in_a_row_gives_the_same_twice():
    example = examples("forward_repeated")
    given = {"cpu_ops": example.passes(is_trained=True), "repeated_inputs": example.IN_A_ROW}
    (match,) = found(patterns()["forward_repeated"], **given)
    assert match.gain_ns == 60_000
    assert match.advice.startswith("The model is called 2 times in a row with the same tensors")


def test_scores_that_training_does_not_read_have_gradients_as_well():
    example = examples("unread_logits")
    backward = [
        op(20, "aten::mm", 64_000, phase="backward", input_shapes="[[256, 32000], [32000, 256]]"),
        op(21, "aten::zero_", 64_000, phase="backward", input_shapes=example.SCORES),
        op(22, "aten::mm", 64_000, phase="backward", input_shapes="[[256, 256], [256, 256]]"),
        op(23, "aten::log_softmax", 64_000, input_shapes="[[4, 32000], [], []]"),
        op(30, "Optimizer.step#SGD.step", kind="annotation"),
    ]
    ops = [*example.FOUND["cpu_ops"], *backward]
    (match,) = found(patterns()["unread_logits"], cpu_ops=ops)
    assert match.gain_ns == pytest.approx((2 * 69_000 + 2 * 64_000) * 63 / 64)


def test_a_last_layer_of_its_own_leaves_the_table_its_sparse_gradient():
    example = examples("dense_table_gradient")
    tied = example.PASSED["the last layer has the same weights"]["cpu_ops"]
    (match,) = found(patterns()["dense_table_gradient"], cpu_ops=[*tied, tied[-1] | {"op": 8}])
    assert "sparse=True" in match.advice


@pytest.mark.parametrize("trains", [False, True])
def test_a_norm_of_weights_is_of_no_use_once_they_are_trained(trains):
    example = weights_made_in_calls
    ops = [
        op(1, "aten::_weight_norm", 10_000),
        op(2, "aten::_weight_norm_interface", 90_000, parent=1),
        *([example.BACKWARD] if trains else []),
    ]
    matches = found(patterns()["weights_made_in_calls"], cpu_ops=ops)
    assert [match.gain_ns for match in matches] == [100_000] * (not trains)
    assert all("remove_parametrizations" in match.advice for match in matches)


def test_recompilation_is_seen_in_the_calls_of_the_compiler_where_its_ranges_were_not_recorded():
    calls = examples("recompilation").CALLED
    (match,) = found(patterns()["recompilation"], python_calls=calls)
    assert (match.gain_ns, match.place) == (45_000, "train.py(9): main")
    for name in ("compile_fx.py(3): codegen_and_compile", "codegen/triton.py(3): codegen_kernel"):
        compiling = [calls[0], calls[1] | {"name": f"torch/_inductor/{name}"}]
        assert found(patterns()["recompilation"], python_calls=compiling)
    for name in (
        "torch/_inductor/runtime/x.py(3): launch",
        "torch/_inductor/output_code.py(763): __call__",
        "torch/_inductor/utils.py(3): run",
        "torch/_inductor/utils.py(3): clone_preserve_strides",
        "torch/_inductor/compile_fx.py(3): run",
        "torch/_inductor/compile_worker/subproc_pool.py(228): _read_thread",
        "torch/_dynamo/eval_frame.py(3): fn",
    ):
        usual = [calls[0], calls[1] | {"name": name}]
        assert not found(patterns()["recompilation"], python_calls=usual)


def test_a_tokenizer_of_the_programs_own_is_one():
    given = examples("tokenizer_in_the_loop").FOUND
    own = [python(0, 90_000, "bpe.py(30): encode")]
    (match,) = found(patterns()["tokenizer_in_the_loop"], **given | {"python_calls": own})
    assert match.place == "bpe.py(30): encode"


@pytest.mark.parametrize(
    ("collates_ns", "encodes_ns", "confidence"),
    [(60_000, 20_000, Confidence.MEDIUM), (20_000, 60_000, Confidence.LOW)],
)
def test_what_a_collate_function_calls_may_be_another_pattern(collates_ns, encodes_ns, confidence):
    calls = [
        python(0, 90_000, "data.py(3): collate") | {"call": 0, "charged_ns": collates_ns},
        python(10_000, 80_000, "data.py(9): encode") | {"call": 1, "charged_ns": encodes_ns},
    ]
    (match,) = found(patterns()["slow_collate"], python_calls=calls)
    assert (match.gain_ns, match.confidence) == (80_000, confidence)


@pytest.mark.parametrize(
    ("kernels", "advice"),
    [
        (unfused_attention.KERNELS, "Call `nn.MultiheadAttention` with `need_weights=False` in "),
        ((), "Call `torch.backends.mha.set_fastpath_enabled(False)`, and `nn.MultiheadAttention`"),
    ],
    ids=["GPU", "CPU"],
)
@pytest.mark.parametrize("length", [256, 512])
def test_the_attention_of_pytorchs_own_module_is_called_without_weights(kernels, advice, length):
    whole = op(-1, "aten::_native_multi_head_attention") | {"end_ns": 4_000}
    ops = [whole, *[row | {"parent": -1, "charged_ns": 50_000} for row in unfused_attention.OPS]]
    for row in ops:
        row["input_shapes"] = row.get("input_shapes", "").replace("128", str(length))
    matches = found(patterns()["unfused_attention"], cpu_ops=ops, kernels=kernels)
    # On a CPU the fast path is the faster one for short texts.
    assert len(matches) == (bool(kernels) or length == 512)
    assert all(match.advice.startswith(advice) for match in matches)


@pytest.mark.parametrize("longest", [10, 7])
def test_batches_that_are_padded_to_a_fixed_length_need_not_be(longest):
    example = examples("padded_batches")
    batches = [example.batch(), *[example.batch(longest=longest)] * 2]
    (match,) = found(patterns()["padded_batches"], **example.FOUND | {"padded_inputs": batches})
    assert ("instead of a fixed length" in match.advice) == (longest < example.LENGTH)


def test_a_gelu_by_erf_is_known_as_well():
    cpu_ops = unfused_gelu.ops(unfused_gelu.BY_ERF)
    (match,) = found(patterns()["unfused_gelu"], cpu_ops=cpu_ops)
    assert match.advice.startswith("Call `torch.nn.functional.gelu(x)`")
    assert match.gain_ns == 25_000


def test_of_an_unfused_optimizer_a_gpu_gains_nearly_all_of_what_it_waits():
    ops = examples("unfused_optimizer").FOUND["cpu_ops"]
    waits_ns = sum(row["charged_ns"] for row in ops)
    computing = [kernel(row["op"], "elementwise", 1_000) for row in ops[1:]]
    (match,) = found(patterns()["unfused_optimizer"], cpu_ops=ops, kernels=computing)
    assert match.gain_ns == pytest.approx(0.9 * waits_ns + 2 / 3 * 1_000 * len(computing))


def test_logits_of_which_no_loss_is_computed_are_to_be_gathered_in_part():
    (match,) = found(patterns()["one_large_gather"], **examples("one_large_gather").ANSWERED)
    assert "loss" not in match.advice
    assert "the last token alone" in match.advice


def test_a_missing_cache_is_the_matter_of_the_line_that_calls_the_model():
    example = examples("prefix_computed_again")
    inner = "torch/nn/modules/module.py(1776): _call_impl;gpt.py(19): forward"
    stacks = {"stack": f"gpt.py(50): main;gpt.py(44): generate;{inner}"}
    ops = [row | stacks for row in example.lookups(99, 100, 101)]
    (match,) = found(patterns()["prefix_computed_again"], cpu_ops=ops, kernels=example.KERNELS)
    assert match.place == "gpt.py(44): generate"
    assert match.advice.startswith("Keep the state of each layer")
    for number, (sizes, attends) in enumerate((("[1, 4000]", False), ("[1, 8, 99, 99]", True))):
        ops.append(op(9 + number, "aten::_softmax", input_shapes=f"[{sizes}]") | stacks)
        (match,) = found(patterns()["prefix_computed_again"], cpu_ops=ops, kernels=example.KERNELS)
        assert ("attention appends its keys and values" in match.advice) == attends


def test_fewer_threads_gain_less_where_there_are_more_processes_than_cores():
    process = examples("oversubscribed_cores").process
    (match,) = found(patterns()["oversubscribed_cores"], processes=[process(ranks_on_host=8)])
    assert (match.gain_ns, match.confidence) == (150_000, "low")
    assert match.advice.endswith("start no more processes than there are cores.")


def test_the_forward_of_a_model_is_not_to_be_done_less_often():
    example = python_in_the_model.FOUND | python_in_the_model.WHOLE
    (match,) = found(patterns()["python_in_the_model"], **example)
    assert match.advice.endswith("calls few operators: use operators on whole tensors.")


@pytest.mark.parametrize(
    ("called", "known_as", "advice"),
    [
        (
            ["json/__init__.py(231): dumps"] * 2,
            "json.dumps",
            "Pass arrays as bytes, or through a faster library",
        ),
        (
            ["csv.py(9): writerow"] * 2,
            "csv.writerow",
            "Make this cheaper, or do it once for all requests",
        ),
        (
            ["numpy/_core/shape_base.py(9): stack"] * 2,
            "numpy._core.shape_base.stack",
            "Keep the data in one array that is made once",
        ),
        (["<built-in function randperm>"] * 2, "randperm", "Draw as many indices as are needed"),
        # Several functions of one package.
        (["sklearn/a.py(1): f", "sklearn/b.py(1): g"], "sklearn", "Make this cheaper"),
    ],
)
def test_work_beside_the_model_names_what_has_most_of_its_time(called, known_as, advice):
    calls = [dict(row) for row in work_beside_the_model.CALLS]
    for number, name in zip((2, 3), called, strict=True):
        own = calls[number]
        own["charged_ns"] = 9_000
        inside = {"name": name, "caller": number, "charged_ns": 40_000}
        calls.append(own | inside)
    numbered = [{"caller": -1, **row, "call": number} for number, row in enumerate(calls)]
    example = {**work_beside_the_model.FOUND, "python_calls": numbered}
    (match,) = found(patterns()["work_beside_the_model"], **example)
    assert match.advice.startswith(advice)
    assert match.advice.endswith(f", mostly in `{known_as}`.")
    assert match.gain_ns == (98_000 if advice.startswith("Make this cheaper") else 80_000)


def test_what_is_work_of_training_is_not_named_as_beside_it():
    rows = [python(0, 9, "train.py(9): main"), python(1, 8, "torch/optim/sgd.py(9): step")]
    rows = [{"call": at, "caller": at - 1, **row} for at, row in enumerate(rows)]
    calls = frame("python_calls", rows).assign(charged_ns=[1, 7])
    assert _mostly_in(calls, np.array([True, False])) == ""


def test_a_part_of_a_line_that_has_no_name_is_no_package_beside_the_model():
    name = "/home/user/ipykernel_7/36.py(8)"
    rows = [python(0, 9, f"{name}: batches"), python(1, 8, f"{name}: <genexpr>")]
    rows = [{"call": at, "caller": at - 1, **row} for at, row in enumerate(rows)]
    calls = frame("python_calls", rows).assign(charged_ns=[1, 7])
    assert _mostly_in(calls, np.array([True, False])) == ""


def test_the_first_batch_of_an_epoch_waits_for_workers_that_start():
    (match,) = found(patterns()["workers_restarted"], python_calls=workers_restarted.EPOCH)
    assert (match.cause, match.gain_ns) == ("loading_data", 50_000)


def test_random_numbers_are_drawn_on_the_cpu_whether_or_not_the_gpu_was_recorded():
    ops = examples("host_random_numbers").OPS
    calls = [call(2, "cudaLaunchKernel")]
    (match,) = found(patterns()["host_random_numbers"], cpu_ops=ops, runtime_calls=calls)
    assert (match.cause, match.gain_ns) == ("cpu_operators", 90_000)


def test_all_large_tables_count():
    example = examples("dense_table_gradient")
    second = op(9, "aten::embedding", input_shapes="[[60000, 16], [64]]")
    update = op(10, "aten::mul_", 25_000, parent=2, input_shapes="[[60000, 16], []]")
    (match,) = found(patterns()["dense_table_gradient"], cpu_ops=[*example.OPS, second, update])
    assert "the tables of 100,000 and 60,000 rows" in match.advice
    assert match.gain_ns == example.EXPECTED[1] + 25_000


def test_a_table_of_bags_is_one_of_embeddings():
    example = examples("dense_table_gradient")
    names = {"aten::embedding": "aten::_embedding_bag",
             "aten::embedding_dense_backward": "aten::_embedding_bag_dense_backward"}  # fmt: skip
    ops = [row | {"name": names.get(row["name"], row["name"])} for row in example.OPS]
    (match,) = found(patterns()["dense_table_gradient"], cpu_ops=ops)
    assert "torch.nn.EmbeddingBag(..., sparse=True)" in match.advice
    assert match.gain_ns == example.EXPECTED[1]


@pytest.mark.parametrize(
    ("shapes", "is_unused"),
    [
        ("[[[16, 16], [16]], []]", True),
        ("[[[16, 16], [100000, 16]], []]", False),
        ("[[], [], []]", False),
        ("", False),
    ],
)
def test_a_table_that_no_optimizer_updates_needs_no_gradient(shapes, is_unused):
    ops = examples("dense_table_gradient").OPS[:3]
    ops = [*ops, op(3, "aten::_fused_adam_", parent=2, input_shapes=shapes)]
    (match,) = found(patterns()["dense_table_gradient"], cpu_ops=ops)
    assert ("requires_grad_(False)" in match.advice) == is_unused
    assert ("SparseAdam" in match.advice) != is_unused


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        ("Adam", "updated by `torch.optim.SparseAdam`"),
        ("SGD", "whose gradients `torch.optim.SGD` takes"),
    ],
)
def test_a_sparse_table_keeps_an_optimizer_that_takes_its_gradients(optimizer, words):
    step, *rest = examples("dense_table_gradient").OPS[2:]
    ops = [*examples("dense_table_gradient").OPS[:2], *rest]
    ops.insert(2, step | {"name": f"Optimizer.step#{optimizer}.step"})
    (match,) = found(patterns()["dense_table_gradient"], cpu_ops=ops)
    assert words in match.advice


def test_a_kernel_of_pytorch_with_few_threads_needs_more_to_do():
    (match,) = found(patterns()["nearly_empty_gpu"], **examples("nearly_empty_gpu").OF_PYTORCH)
    # Of 80 multiprocessors, where their number is not known.
    assert match.gain_ns == pytest.approx(1_000_000 * (1 - 1024 / (80 * 128)))
    assert match.cause == "gpu_computing.aten::cumsum"
    assert "2 blocks of 512 threads" in match.advice
    assert "a larger batch" in match.advice


def test_a_model_that_is_made_in_each_request_is_to_be_kept():
    (match,) = found(patterns()["deep_copies"], **examples("deep_copies").MADE)
    assert match.advice.startswith("Make, load or copy the model once")
    assert match.gain_ns == 80_000


def test_the_line_that_makes_a_model_is_the_programs():
    example = examples("deep_copies")
    (match,) = found(patterns()["deep_copies"], **example.IN_LIBRARY)
    assert match.place == example.PROGRAM


@pytest.mark.parametrize(
    ("name", "of_server", "of_training"),
    [
        ("deep_copies", "before the first request", "AveragedModel"),
        ("checkpoints_in_steps", "many in one file", "async_save"),
        ("tokenizer_in_the_loop", "not written in Python", "dataset.map"),
        ("images_in_the_main_process", "a pool of processes", "num_workers"),
        ("work_beside_the_model", "once for all requests", "less often if not each step"),
        ("padded_batches", "texts of similar length into one batch", "of `Trainer`"),
    ],
)
def test_a_server_is_advised_as_one(name, of_server, of_training):
    given = examples(name).FOUND
    served = [*given.get("cpu_ops", ()), op(900, "aten::linear")]
    trained = [*served, op(901, "autograd::engine::evaluate_function: AddmmBackward0")]
    for ops, words in ((served, of_server), (trained, of_training)):
        (match,) = found(patterns()[name], **given | {"cpu_ops": ops})
        assert words in match.advice


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("aten::lift_fresh", "aten::to", "aten::cos"), "make one tensor of it."),
        (("aten::cos", "aten::to", "aten::add"), "`torch.vmap`."),
    ],
)
def test_tensors_made_of_lists_one_by_one_are_made_of_one_array(names, words):
    given = examples("work_beside_the_model").FOUND
    ops = [op(n, names[n % 3]) | span(20_000 + 9 * n, 20_005 + 9 * n) for n in range(600)]
    (match,) = found(patterns()["work_beside_the_model"], **given | {"cpu_ops": ops})
    assert match.advice.endswith(words)


@pytest.mark.parametrize(
    ("inside", "is_hook"),
    [
        ((), True),
        (("net.py(9): forward",), False),  # what wraps a forward is the model
        ((work_beside_the_model.MODEL,), False),
    ],
)
@pytest.mark.parametrize("made_by", [1, 8])
def test_a_hook_that_computes_is_named_as_one(made_by, inside, is_hook):
    given = examples("python_in_the_model").PASSED["it computes"]
    calls = [
        row | {"caller": made_by if row["name"] == python_in_the_model.HOOK else -1}
        for row in given["python_calls"]
    ]
    between = {"call": 8, "caller": 1, "charged_ns": 0}
    calls.append(python(1_000, 90_000, "torch/nn/modules/module.py(1845): inner") | between)
    under = {"call": 9, "caller": 2, "charged_ns": 0}
    calls += [python(2_000, 31_000, name) | under for name in inside]
    matches = found(patterns()["python_in_the_model"], **given | {"python_calls": calls})
    assert [match.gain_ns for match in matches] == [90_000] * is_hook
    assert all("train.py(9): record is in a hook of modules" in one.advice for one in matches)


@pytest.mark.parametrize("is_next", [True, False])
def test_workers_that_ended_with_an_epoch_were_started_anew_for_the_next(is_next):
    loader = workers_restarted.LOADER
    calls = [
        python(0, 30_000, f"{loader}_next_data") | {"call": 1, "charged_ns": 10_000},
        python(5_000, 25_000, f"{loader}_shutdown_workers")
        | {"call": 2, "caller": 1, "charged_ns": 20_000},
        python(30_000, 80_000, f"{loader}_next_data") | {"call": 3, "charged_ns": 50_000},
        python(80_000, 90_000, f"{loader}_next_data") | {"call": 4, "charged_ns": 10_000},
    ]
    matches = found(patterns()["workers_restarted"], python_calls=calls if is_next else calls[:2])
    assert [match.gain_ns for match in matches] == [70_000] * is_next


def test_products_and_communication_of_an_optimizer_are_not_gained_by_fusing_it():
    ops = examples("unfused_optimizer").FOUND["cpu_ops"]
    step = [*ops, op(101, "aten::mm", parent=0), op(102, "nccl:_all_gather_base", parent=0)]
    kernels = [
        kernel(1, "elementwise", 30_000),
        kernel(101, "gemm", 90_000),
        kernel(102, "ncclDevKernel_AllGather", 90_000, kind="communication"),
    ]
    (alone,) = found(patterns()["unfused_optimizer"], cpu_ops=ops, kernels=kernels[:1])
    (match,) = found(patterns()["unfused_optimizer"], cpu_ops=step, kernels=kernels)
    assert (match.cause, match.gain_ns) == (alone.cause, alone.gain_ns)


def called_on(rows, begin, **columns):
    """Return a pass of a model with a linear layer on so many `rows`."""
    of = f"[[8], [{rows}, 16], [16, 8]]"
    made = op(begin, "forward", kind="annotation")
    made |= {"end_ns": made["start_ns"] + 9_000}
    layer = {"input_shapes": of, "phase": "forward"} | columns
    return [made, op(begin + 1, "aten::addmm", 40_000, **layer)]


@pytest.mark.parametrize(
    ("rows", "is_trained", "is_found"),
    [(256, False, True), (64, False, False), (256, True, False)],
)
def test_passes_of_many_rows_without_gradients_are_an_evaluation(rows, is_trained, is_found):
    backward = [op(50, "AddmmBackward0", forward=1, phase="backward")]
    backward += [op(51, "AddmmBackward0", forward=11, phase="backward")] * is_trained
    ops = [*called_on(32, 0), *called_on(rows, 10), *backward]
    matches = found(patterns()["evaluation_in_steps"], cpu_ops=ops)
    assert [(match.cause, match.gain_ns) for match in matches] == [
        ("cpu_operators.aten::addmm", 40_000)
    ] * is_found
    assert all("on 8 times as many rows" in match.advice for match in matches)
    other = [*called_on(32, 0), *called_on(rows, 10, input_shapes=f"[[9], [{rows}, 7], [7, 9]]")]
    assert not found(patterns()["evaluation_in_steps"], cpu_ops=[*other, *backward])


@pytest.mark.parametrize("name", ["sparse_adam", "adam"])
def test_what_python_does_for_sparse_gradients_is_no_part_of_another_optimizer(name):
    ops = examples("unfused_optimizer").FOUND["cpu_ops"]
    calls = [python(0, 500_000, f"torch/optim/{name}.py(60): step") | {"charged_ns": 300_000}]
    (alone,) = found(patterns()["unfused_optimizer"], cpu_ops=ops)
    (match,) = found(patterns()["unfused_optimizer"], cpu_ops=ops, python_calls=calls)
    assert (match.gain_ns > alone.gain_ns) == (name == "adam")


@pytest.mark.parametrize(
    ("name", "count", "is_said"),
    [
        ("bn_fw_inf_1C11", "", False),
        ("bn_fw_tr_1C11", "", True),
        ("", "aten::add_", True),
        ("", "aten::add", True),
        ("", "aten::bernoulli_", True),
        ("", "", False),
    ],
)
@pytest.mark.parametrize("integer", ["long int", "long long", "__int64"])
def test_a_model_in_evaluation_is_not_to_be_put_into_it(name, count, is_said, integer):
    ops = examples("unfolded_batch_norm").FOUND["cpu_ops"]
    norms = [row["op"] for row in ops if row["name"] == "aten::batch_norm"]
    ops = [row | {"charged_ns": 90_000} for row in ops]
    if count == "aten::bernoulli_":
        ops += [op(900, "aten::dropout"), op(901, count, parent=900)]
    elif count:
        ops += [op(900 + n, count, input_types=f'["{integer}","Scalar"]') for n in norms]
    given = {"kernels": [kernel(2, name, 90_000)]} if name else {}
    (match,) = found(patterns()["unfolded_batch_norm"], cpu_ops=ops, **given)
    assert ("model.eval()" in match.advice) == is_said
    assert "old them into the convolutions" in match.advice


@pytest.mark.parametrize(("slowdown", "is_found"), [(1.0, False), (2.0, True)])
def test_operators_that_the_profiler_makes_long_are_short(slowdown, is_found):
    given = examples("short_operators").PASSED["long operators"]
    step = Step(count=1, ms=1.0, slowdown=slowdown)
    assert bool(found(patterns()["short_operators"], **given, step=step)) == is_found


@pytest.mark.parametrize(
    ("operator", "is_full"), [("aten::empty_strided", True), ("aten::relu", False)]
)
def test_memory_is_full_where_the_allocator_frees_in_order_to_allocate(operator, is_full):
    ops = [op(7, operator)]
    calls = [call(7, "cudaMalloc", 40_000), call(7, "cudaFree", 50_000)]
    pattern = patterns()["allocations_in_steps"]
    (match,) = found(pattern, cpu_ops=ops, runtime_calls=calls)
    assert ("smaller batch" in match.advice) == is_full
    assert ("empty_cache()" in match.advice) != is_full


def test_half_of_the_bytes_shorten_no_waiting_for_a_late_rank():
    given = examples("fp32_reductions").FOUND
    times = causes(
        ("exposed_communication", 0.09, ""),
        ("exposed_communication.waiting", 0.01, ""),
        ("exposed_communication.transfer", 0.08, ""),
    )
    (match,) = found(patterns()["fp32_reductions"], **given, causes=times)
    assert match.gain_ns == pytest.approx(40_000)


@pytest.mark.parametrize(
    ("lasts_ns", "ops", "words"),
    [
        (80_000, [], "less often in train.py(7): share"),
        (80_000, ["DistributedDataParallel.forward"], "leave `all_reduce` in train.py(7): share"),
        (9_000, [], "bf16_compress_hook"),
    ],
    ids=["the program waits in its call", "and DDP has done so", "most are those of the model"],
)
def test_all_reduces_of_the_program_itself_have_its_line(lasts_ns, ops, words):
    frames = ["train.py(7): share", "torch/distributed/distributed_c10d.py(3): all_reduce"]
    calls = [
        python(number, number + lasts_ns, name) | {"call": number, "caller": number - 1}
        for number, name in enumerate(frames)
    ]
    given = examples("fp32_reductions").FOUND
    given = given | {"cpu_ops": [op(0, name) for name in ops], "python_calls": calls}
    (match,) = found(patterns()["fp32_reductions"], **given)
    assert words in match.advice


@pytest.mark.parametrize(("has_gpu", "gain_ns"), [(True, 90_000), (False, 90_000 + 400)])
def test_what_a_cpu_copies_for_small_gathers_goes_with_them(has_gpu, gain_ns):
    given = examples("small_gathers").FOUND
    given = given if has_gpu else {"collectives": given["collectives"]}
    ops = [
        op(0, "FSDP::pre_forward (up)", 0, kind="annotation"),
        op(1, "fsdp::all_gather_copy_in", 400, parent=0),
        op(2, "aten::mm", 3_000),
    ]
    times = causes(("exposed_communication", 0.09, ""))
    (match,) = found(patterns()["small_gathers"], **given, cpu_ops=ops, causes=times)
    assert match.gain_ns == pytest.approx(gain_ns)


@pytest.mark.parametrize("name", ["FSDP::post_backward_reduce", "epoch"])
def test_small_all_reduces_of_shards_go_with_their_gathers(name):
    given = examples("small_gathers").FOUND
    reduced = [collective(100 + n, "allreduce", size_bytes=4096) for n in range(30)]
    given = {
        "collectives": [*given["collectives"], *reduced],
        "kernels": [*given["kernels"], *(sent(100 + n, 3_000) for n in range(30))],
        "cpu_ops": [op(0, name, kind="annotation"), op(1, "aten::mm", 10)],
    }
    is_of_shards = name.startswith("FSDP")
    assert bool(found(patterns()["many_small_reductions"], **given)) != is_of_shards
    (match,) = found(patterns()["small_gathers"], **given)
    assert match.gain_ns == pytest.approx(90_000 * (1 + is_of_shards))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("DistributedDataParallel.forward", "register_comm_hook"),
        ("FSDP::post_backward", "reduce_dtype=torch.bfloat16"),
        ("epoch", "autocast"),
    ],
)
def test_all_reduces_of_no_ddp_have_no_hook(name, words):
    given = examples("fp32_reductions").FOUND
    ops = [op(0, name, kind="annotation"), op(1, "aten::mm", 10)]
    (match,) = found(patterns()["fp32_reductions"], **given, cpu_ops=ops)
    assert words in match.advice


def test_gradients_that_a_hook_compresses_are_not_to_be_compressed():
    given = examples("fp32_reductions").FOUND
    frame = "torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py(9): bf16_compress_hook"
    assert not found(patterns()["fp32_reductions"], **given, python_calls=[python(0, 9, frame)])


def test_a_step_that_has_its_middle_in_a_range_is_not_inside_of_it():
    step = op(0, "ProfilerStep#3", 900_000, kind="annotation") | {"end_ns": 9_000_000}
    marked = op(1, "Optimizer.zero_grad#SGD.zero_grad", parent=0, kind="annotation")
    marked |= {"start_ns": 4_000_000, "end_ns": 5_000_000}
    fill = op(2, "aten::zero_", 80_000, parent=1) | {"start_ns": 4_400_000, "end_ns": 4_600_000}
    conv = op(3, "aten::conv2d", 500_000, parent=0)
    (match,) = found(patterns()["zeroed_gradients"], cpu_ops=[step, marked, fill, conv])
    assert match.gain_ns == 80_000


def test_phases_show_where_the_model_is_that_no_sample_saw():
    example = examples("work_beside_the_model")
    marks = op(0, "forward", kind="annotation") | {"start_ns": 500, "end_ns": 900}
    given = {**example.FOUND, "python_calls": example.FOUND["python_calls"][2:]}
    given["cpu_ops"] = [marks, *example.FOUND["cpu_ops"]]
    (match,) = found(patterns()["work_beside_the_model"], **given)
    assert match.place == "train.py(9): penalty"


def test_a_function_that_calls_many_short_operators_is_to_call_few():
    example = examples("work_beside_the_model")
    short = [op(n, "aten::mul") | span(30_000 + n, 30_001 + n) for n in range(400)]
    (match,) = found(patterns()["work_beside_the_model"], **{**example.FOUND, "cpu_ops": short})
    assert match.advice.startswith("train.py(9): penalty calls 400 operators per step")
    calls = [row | {"charged_ns": 200 * row["charged_ns"]} for row in example.FOUND["python_calls"]]
    given = {**example.FOUND, "python_calls": calls, "cpu_ops": short}
    # A loop of NumPy that has what runs behind it for its own calls it little.
    (match,) = found(patterns()["work_beside_the_model"], **given)
    assert match.advice.startswith("Make this cheaper")


def test_a_function_that_loops_over_parameters_is_to_call_operators_on_lists():
    example = examples("work_beside_the_model")
    given = {"input_shapes": "[[96],[]]"}
    short = [op(n, "aten::mul_", 300, **given) | span(30_000 + n, 30_001 + n) for n in range(400)]
    gradient = op(19, "torch::autograd::AccumulateGrad", phase="backward", input_shapes="[[96]]")
    # What few long ones take is the same loop.
    for ops, count in (
        (short, "400 operators per step, short ones"),
        (short[:30], "30 operators per step,"),
    ):
        given = {**example.FOUND, "cpu_ops": [gradient, *ops]}
        (match,) = found(patterns()["work_beside_the_model"], **given)
        assert match.advice.startswith(
            f"train.py(9): penalty calls {count} in a loop over parameters: "
            "call `torch._foreach_mul_`"
        )
    quick = [row | {"charged_ns": 0} for row in short[:30]]
    given = {**example.FOUND, "cpu_ops": [gradient, *quick]}
    # As where it sorts what each parameter holds, in Python.
    (match,) = found(patterns()["work_beside_the_model"], **given)
    assert match.advice.startswith("Make this cheaper")


def test_operators_beside_the_model_are_counted_where_the_named_function_calls_them():
    example = examples("work_beside_the_model")
    called, penalty = example.called, example.PENALTY
    # The line of the loop holds a function with operators, and a slower one without.
    line = called(20_000, 500_000, "train.py(31): main", 1_000)
    calls = [
        *example.FOUND["python_calls"][:2],
        line | {"call": 2},
        called(21_000, 300_000, "train.py(20): rollout", 1_000) | {"call": 3},
        called(301_000, 499_000, penalty, 190_000) | {"call": 4},
        called(510_000, 600_000, "train.py(31): main", 1_000) | {"call": 5},
    ]
    short = [op(22, "aten::mul", 10) | span(22_000 + n, 22_001 + n) for n in range(250)]
    given = {**example.FOUND, "cpu_ops": short}
    matches = found(patterns()["work_beside_the_model"], **{**given, "python_calls": calls})
    assert [match.place for match in matches] == [penalty]
    assert "operators per step" not in matches[0].advice


@pytest.mark.parametrize(
    ("lasts_ns", "gain_ns", "where"),
    [(210_000, 210_000, "main.py(5): read"), (9_000_000, 90_000, "in the step")],
    ids=["little else", "mostly other work"],
)
def test_the_line_of_a_loop_is_that_of_its_reads_alone(lasts_ns, gain_ns, where):
    calls = [python(0, lasts_ns, "main.py(5): read") | {"call": 0, "charged_ns": lasts_ns}]
    tables = scalars_in_a_loop.reads(200) | {"python_calls": calls}
    (match,) = found(patterns()["scalars_in_a_loop"], **tables)
    assert match.gain_ns == gain_ns
    assert where in match.advice


@pytest.mark.parametrize(
    ("between", "where"),
    [(200, "main.py(5): read"), (20, "in the step")],
    ids=["one, when others had the core", "again and again, by the program"],
)
def test_pauses_end_a_run_of_reads_where_they_are_many(between, where):
    tables = scalars_in_a_loop.reads(400)
    for read in tables["cpu_ops"]:
        pauses_ns = read["op"] // between * 5_000_000
        read |= {"start_ns": read["start_ns"] + pauses_ns, "end_ns": read["end_ns"] + pauses_ns}
    lasts_ns = tables["cpu_ops"][-1]["end_ns"] - tables["cpu_ops"][0]["start_ns"]
    call = python(0, lasts_ns, "main.py(5): read") | {"call": 0, "charged_ns": lasts_ns}
    (match,) = found(patterns()["scalars_in_a_loop"], **tables, python_calls=[call])
    assert where in match.advice


SLOW_BATCH = [row | {"charged_ns": 2 * row["charged_ns"]} for row in loading_in_main_process.OPS]


@pytest.mark.parametrize(("step_ms", "workers"), [(6, 2), (1.6, 4), (1.2, 16)])
def test_workers_are_as_many_as_keep_up_with_the_rest_of_the_step(step_ms, workers):
    step = Step(count=1, ms=step_ms)
    (match,) = found(patterns()["loading_in_main_process"], step=step, cpu_ops=SLOW_BATCH)
    assert f"`num_workers={workers}`" in match.advice
    assert "pin_memory" not in match.advice


@pytest.mark.parametrize(
    ("cores", "words"),
    [
        (4, "`num_workers=1` (about a CPU core each) and `persistent_workers=True`, and leave"),
        (8, "`num_workers=3` (about a CPU core each) and `persistent_workers=True`, and leave"),
        (-1, "`num_workers=16` (about a CPU core each) and `persistent_workers=True`."),
    ],
)
def test_workers_are_no_more_than_the_cores_of_a_rank(cores, words):
    process = {"cores": cores, "ranks_on_host": 2, "start_ns": 0, "end_ns": 1}
    process |= {"operator_threads": 2}
    tables = {"cpu_ops": loading_in_main_process.OPS, "processes": [process]}
    step = Step(count=1, ms=0.6)
    (match,) = found(patterns()["loading_in_main_process"], step=step, **tables)
    assert words in match.advice
    assert ("make what loads a batch cheaper" in match.advice) == (cores > 0)
    assert (" them the cores: `torch.set_num_threads(1)`. That" in match.advice) == (cores > 0)


@pytest.mark.parametrize(
    ("names", "lasts_ms", "is_on_cpu"),
    [
        (["aten::addmm", "aten::addmm"], 9, True),
        (["aten::addmm", "aten::addmm"], 1, False),  # a GPU may be asked for it
        (["aten::addmm", "aten::relu"], 9, False),  # each may load its code
        (["aten::copy_", "aten::copy_"], 9, False),  # it may wait
        (["aten::addmm"] * 1_000, 9, False),  # the queue may be full
    ],
)
def test_operators_that_last_are_none_of_a_gpu(names, lasts_ms, is_on_cpu):
    rows = [op(number, name, 300_000) for number, name in enumerate(names)]
    rows = [row | {"end_ns": row["start_ns"] + lasts_ms * 1_000_000} for row in rows]
    gpu = examples("unused_gpu").GPU
    assert bool(found(patterns()["unused_gpu"], cpu_ops=rows, devices=[gpu])) == is_on_cpu


@pytest.mark.parametrize(
    ("around", "is_found"), [((0, 200_000), True), ((19_000, 190_000), False), (None, True)]
)
def test_hooks_that_a_trainer_calls_within_the_optimizer_are_beside_the_model(around, is_found):
    given = examples("work_beside_the_model")
    calls, phases = [*given.CALLS], []
    if around:  # the one that calls the model too holds all that a trainer does
        calls.insert(1, given.called(*around, "torch/optim/optimizer.py(485): wrapper"))
        phases = [op(1, "Optimizer.step#SGD.step", kind="annotation") | span(*around)]
    numbered = [row | {"call": number} for number, row in enumerate(calls)]
    tables = given.FOUND | {"python_calls": numbered}
    tables["cpu_ops"] = [*given.FOUND["cpu_ops"], *phases]
    assert bool(found(patterns()["work_beside_the_model"], **tables)) == is_found


def test_operators_of_the_model_are_none_of_a_function_that_samples_place_around_them():
    given = examples("work_beside_the_model")
    step = op(500, "Optimizer.step#Adam.step", kind="annotation") | span(10_000, 60_000)
    short = [
        op(501 + number, "aten::mul_", 100) | span(at := 30_000 + 50 * number, at + 40)
        for number in range(600)
    ]
    tables = given.FOUND | {"cpu_ops": [*given.FOUND["cpu_ops"], *short]}
    (match,) = found(patterns()["work_beside_the_model"], **tables)
    assert "calls 601 operators per step" in match.advice
    (match,) = found(
        patterns()["work_beside_the_model"], **tables | {"cpu_ops": [*tables["cpu_ops"], step]}
    )
    assert "operators per step" not in match.advice


@pytest.mark.parametrize(
    ("others", "begun_us", "words"),
    [
        (["backward"], 0, "several environments by"),
        (["backward"] * 8, 0, "called 8 times a step, each with a backward pass of its own"),
        (["backward", "Optimizer.step#SGD.step"] * 8, 0, "Train the 8 models together"),
        (["backward"], 2_000, "Put what a loop goes through"),
    ],
    ids=["one pass", "as many", "models of their own", "by another line than the loop's"],
)
def test_a_model_that_is_called_often_has_one_backward_pass_or_as_many(others, begun_us, words):
    given = examples("short_operators").FOUND
    names = ["forward"] * 8 + others
    ranges = [
        op(begun_us + n, name, kind="annotation") | {"op": 3_000 + n}
        for n, name in enumerate(names)
    ]
    (match,) = found(
        patterns()["short_operators"], **given | {"cpu_ops": [*given["cpu_ops"], *ranges]}
    )
    assert words in match.advice


@pytest.mark.parametrize(
    ("shapes", "gain_ns"),
    [("[[8, 128, 128], []]", 50_000), ("[[128, 128], []]", 30_000), ("", 50_000)],
)
def test_a_mask_that_is_made_between_two_products_is_no_part_of_attention(shapes, gain_ns):
    given = examples("unfused_attention").FOUND
    ops = [row | {"input_shapes": shapes} if row["op"] == 1 else row for row in given["cpu_ops"]]
    (match,) = found(patterns()["unfused_attention"], **given | {"cpu_ops": ops})
    assert match.gain_ns == gain_ns


@pytest.mark.parametrize(
    ("name", "is_logging"),
    [
        ("lightning/pytorch/core/module.py(393): log", True),
        ("pytorch_lightning/core/module.py(400): log_dict", True),
        ("lightning/pytorch/core/module.py(900): training_step", False),
    ],
)
def test_lightning_logs_in_each_step(name, is_logging):
    calls = [python(0, 90_000, name)]
    example = examples("logging_in_steps").FOUND | {"python_calls": calls}
    assert bool(found(patterns()["logging_in_steps"], **example)) == is_logging


@pytest.mark.parametrize(
    ("cores", "words"),
    [
        (4, "its 4 CPU cores at most"),
        (1, "1 CPU core"),
        (-1, "one for each CPU core of the rank at"),
    ],
)
def test_workers_that_are_too_slow_may_be_as_many_as_cores(cores, words):
    example = examples("too_few_workers")
    process = {"cores": cores, "ranks_on_host": 1, "start_ns": 0, "end_ns": 1}
    (match,) = found(patterns()["too_few_workers"], **example.FOUND, processes=[process])
    assert words in match.advice


def test_what_workers_do_most_is_named_and_not_where_they_wait_or_were_started():
    loop = "train.py(9): <module>;multiprocessing/process.py(314): _bootstrap;x.py(3): _worker_loop"
    fetch = f"{loop};torch/utils/data/_utils/fetch.py(57): fetch"
    looks = {
        f"{fetch};data.py(7): collate": 30,
        f"{fetch};data.py(8): collate": 25,
        f"{fetch};data.py(3): __getitem__;PIL/Image.py(9): open": 35,
        f"{loop};multiprocessing/queues.py(113): get;selectors.py(4): select": 900,
        loop: 10,
        loop.removesuffix(";x.py(3): _worker_loop"): 60,
    }
    rows = [{"pid": 5, "looks": count, "stack": stack} for stack, count in looks.items()]
    example = examples("too_few_workers")
    (match,) = found(patterns()["too_few_workers"], **example.FOUND, worker_samples=rows)
    assert match.place == "data.py(7): collate"
    assert match.advice.startswith("Make what they do, 34% of it in data.py(7): collate, cheaper")


READ_BY = [
    (
        "pandas/core/series.py(9): __getitem__",
        "pandas takes 80% of it, so take the columns out once",
    ),
    ("pandas/io/parsers/readers.py(9): read_csv", "reading tables with pandas takes 80% of it"),
    ("numpy/lib/_npyio_impl.py(9): load", "numpy.load takes 80% of it, so keep all samples"),
    ("torch/serialization.py(9): load", "torch.load takes 80% of it"),
    ("h5py/_hl/dataset.py(9): __getitem__", "HDF5 takes 80% of it, so open the file once"),
    ("json/__init__.py(9): loads", "parsing JSON takes 80% of it, so parse the texts once"),
    ("PIL/ImageFile.py(9): load", "decoding images takes 80% of it, so store them smaller"),
    ("torchvision/transforms/functional.py(9): blur", "transforming images takes 80% of it, so"),
    ("torchaudio/functional/x.py(9): spectrogram", "computing spectrograms takes 80%"),
    ("data.py(9): json", "with arrays instead of loops, or done ahead of training"),
]


@pytest.mark.parametrize(("frame", "words"), READ_BY)
def test_workers_that_wait_for_a_library_are_told_of_a_quicker_way(frame, words):
    loop = "x.py(3): _worker_loop;data.py(7): __getitem__"
    looks = {f"{loop};{frame};numpy/lib/x.py(1): y": 80, loop: 20}
    looks["x.py(3): _worker_loop;multiprocessing/queues.py(113): get"] = 500
    rows = [{"pid": 5, "looks": count, "stack": stack} for stack, count in looks.items()]
    given = examples("too_few_workers").FOUND | {"worker_samples": rows}
    (match,) = found(patterns()["too_few_workers"], **given)
    assert f", cheaper: {words}" in match.advice


@pytest.mark.parametrize(("frame", "words"), READ_BY)
def test_loading_by_a_library_that_has_a_quicker_way_is_told_of_it(frame, words):
    calls = [python(0, 900, "data.py(9): __getitem__"), python(0, 720, frame)]
    calls = [row | {"call": number, "caller": number - 1} for number, row in enumerate(calls)]
    tables = {"cpu_ops": loading_in_main_process.OPS, "python_calls": calls}
    (match,) = found(patterns()["loading_in_main_process"], **tables)
    assert (f"Or make what loads a batch cheaper: {words}" in match.advice) == ("80%" in words)


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        (1, "Or use more workers"),
        (2, "More workers than 2 CPU cores gain nothing."),
        (4, "Try fewer than 4 workers: they share 2 CPU cores. Make"),
    ],
)
def test_more_workers_than_cores_are_no_advice(workers, words):
    process = {"cores": 2, "ranks_on_host": 1, "start_ns": 0, "end_ns": 1}
    rows = [{"pid": pid, "looks": 9, "stack": "a.py(1): _worker_loop"} for pid in range(workers)]
    given = examples("too_few_workers").FOUND | {"worker_samples": rows, "processes": [process]}
    (match,) = found(patterns()["too_few_workers"], **given)
    assert words in match.advice


@pytest.mark.parametrize(
    ("has_gpu", "cpu_ns", "gain_ns", "advice"),
    [
        (False, 1_200, 478_333, "Create the DataLoader"),
        (False, 1_400, 700_000, "Workers alone gain up to 11%: Create"),
        (False, 2_000, 700_000, "done ahead of training. Workers gain nothing"),
        (False, 200, 700_000, "Create the DataLoader"),
        (False, -1, 700_000, "Create the DataLoader"),
        (True, 1_400, 1_200_000, "Create the DataLoader"),
    ],
)
def test_workers_gain_no_more_than_the_cores_that_the_program_leaves(
    has_gpu, cpu_ns, gain_ns, advice
):
    process = {"cores": 2, "ranks_on_host": 1, "start_ns": 0, "end_ns": 1_000, "cpu_ns": cpu_ns}
    tables = {"cpu_ops": SLOW_BATCH, "processes": [process]}
    tables |= {"kernels": [kernel(9, "gemm", 1_000)]} if has_gpu else {}
    pattern = patterns()["loading_in_main_process"]
    (match,) = found(pattern, step=Step(count=1, ms=1.9), **tables)
    assert match.gain_ns == pytest.approx(gain_ns)
    assert advice in match.advice
    assert match.advice.startswith("Make what loads a batch cheaper") == (" gain " in advice)


def test_one_worker_makes_a_batch_no_faster_than_the_program_does():
    """Loading takes 0.7 of 1 ms: with one worker, a step takes 0.7 ms."""
    process = {"cores": 2, "ranks_on_host": 1, "start_ns": 0, "end_ns": 1, "operator_threads": 1}
    tables = {"cpu_ops": SLOW_BATCH, "processes": [process]}
    pattern = patterns()["loading_in_main_process"]
    (match,) = found(pattern, step=Step(count=1, ms=1), **tables)
    assert match.gain_ns == pytest.approx(700_000)
    assert "done ahead of training. Workers alone gain up to 30%: Create" in match.advice
    (match,) = found(pattern, step=Step(count=1, ms=1), **tables, kernels=[kernel(9, "k", 1_000)])
    assert match.gain_ns == pytest.approx(650_000)
    assert "`num_workers=2`" in match.advice


@pytest.mark.parametrize(
    ("cpu_ns", "advice"),
    [
        (1_000, "Create the DataLoader"),
        (1_600, "Workers alone gain up to 5%: Create"),
        (1_900, "Workers gain nothing"),
    ],
)
def test_workers_gain_little_where_operators_leave_no_core_meanwhile(cpu_ns, advice):
    process = {"cores": 2, "ranks_on_host": 1, "start_ns": 0, "end_ns": 1_000, "cpu_ns": cpu_ns}
    process |= {"operator_threads": 2}
    tables = {"cpu_ops": SLOW_BATCH, "processes": [process]}
    (match,) = found(patterns()["loading_in_main_process"], step=Step(count=1, ms=4), **tables)
    assert match.gain_ns == pytest.approx(700_000)
    assert advice in match.advice
    assert "set_num_threads" not in match.advice


@pytest.mark.parametrize(
    ("frames", "waits", "shares"),
    [
        (["data.py(9): __iter__", "data.py(3): ask", "<built-in function sleep>"], True, True),
        (["data.py(9): __getitem__", "socket.py(6): readinto"], True, False),
        (["data.py(9): __getitem__", "<built-in method recv_into of _socket>"], True, False),
        (["data.py(9): __getitem__", "data.py(3): decode"], False, False),
        (["accelerate/data_loader.py(5): __iter__", "data.py(3): decode"], False, False),
        (["data.py(9): __iter__", "<built-in method read of _io.BufferedReader>"], False, True),
    ],
)
def test_workers_that_wait_are_not_bound_by_cores(frames, waits, shares):
    process = {"cores": 2, "ranks_on_host": 1, "start_ns": 0, "end_ns": 1}
    tables = {"cpu_ops": loading_in_main_process.OPS, "processes": [process]}
    calls = [
        python(0, 800, name) | {"call": call, "caller": call - 1}
        for call, name in enumerate(frames)
    ]
    given = {"step": Step(count=1, ms=0.7), "python_calls": calls, **tables}
    (match,) = found(patterns()["loading_in_main_process"], **given)
    assert ("`num_workers=8`" in match.advice) == waits
    assert ("loading mostly waits, so that more workers than cores" in match.advice) == waits
    assert ("about a CPU core each" in match.advice) == (not waits)
    assert ("get_worker_info" in match.advice) == shares


def test_waits_outside_of_loading_or_short_ones_say_nothing_of_it():
    for start, end in ((0, 300), (2_000, 3_000)):
        calls = [python(start, end, "<built-in function sleep>")]
        tables = {"cpu_ops": loading_in_main_process.OPS, "python_calls": calls}
        (match,) = found(patterns()["loading_in_main_process"], **tables)
        assert "mostly waits" not in match.advice


@pytest.mark.parametrize(("reads", "says"), [(10, "Use `torch.compile(mod"), (11, "Take out `.i")])
@pytest.mark.parametrize("name", ["aten::_local_scalar_dense", "aten::nonzero"])
def test_graphs_are_not_advised_where_the_program_reads_values_all_the_time(name, reads, says):
    ops = [op(number, name) for number in range(reads)]
    calls = [call(number, "cudaStreamSynchronize") for number in range(reads)]
    tables = short_kernels.FOUND | {"cpu_ops": ops, "runtime_calls": calls}
    (match,) = found(patterns()["short_kernels"], **tables)
    assert match.advice.startswith(says)


def test_values_that_are_on_the_cpu_are_read_without_waiting():
    ops = [op(number, "aten::_local_scalar_dense") for number in range(60)]
    tables = short_kernels.FOUND | {"cpu_ops": ops, "runtime_calls": [call(70, "cudaMemcpyAsync")]}
    (match,) = found(patterns()["short_kernels"], **tables)
    assert match.advice.startswith("Use `torch.compile(mod")


def _updating(names, columns=(), apart=200):
    """Return a step whose short operators are those of a loop over parameters, and `apart` more."""
    shapes = {"input_shapes": "[[96,96],[]]"}
    ops = [op(n, names[n % len(names)], 500, **shapes | dict(columns)) for n in range(600)]
    ops += [
        op(n, "aten::add", 500, input_shapes="[[64,96],[64,96]]") for n in range(600, 600 + apart)
    ]
    gradient = op(2_000, "torch::autograd::AccumulateGrad", input_shapes="[[96,96]]")
    return [*ops, gradient | {"phase": "backward"}]


OPTIMIZER = op(3_000, "Optimizer.step#SGD.step", kind="annotation")
AVERAGE = ["aten::mul", "aten::add"]
BOTH = "`torch._foreach_mul_` and `torch._foreach_add_`, or the like"


BACKWARD = [op(n, "aten::mm", 100, phase="backward") for n in range(4_000, 5_000)]


@pytest.mark.parametrize(
    ("ops", "called", "averages"),
    [
        ([*_updating(AVERAGE), OPTIMIZER], BOTH, True),
        ([*_updating(["aten::lerp_"]), OPTIMIZER], "`torch._foreach_lerp_`, or the like", True),
        ([*_updating(["aten::mul_"]), OPTIMIZER], "`torch._foreach_mul_`, or the like", False),
        ([*_updating(["aten::norm"]), OPTIMIZER], "`torch._foreach_norm`, or the like", False),
        ([*_updating(["aten::fmod"]), OPTIMIZER], "`torch._foreach_mul_`, or the like", False),
        (_updating(AVERAGE), BOTH, False),
        ([*_updating(AVERAGE), *BACKWARD], BOTH, False),
    ],
    ids=[
        "average",
        "in place",
        "clipping",
        "norms",
        "others",
        "update by hand",
        "more in backward",
    ],
)
def test_short_operators_of_a_loop_over_parameters_are_for_foreach(ops, called, averages):
    lines = [python(0, 1_500_000, "main.py(9): main") | {"call": 0}]
    lines += [python(0, 600_000, "main.py(3): update") | {"call": 1, "caller": 0}]
    (match,) = found(patterns()["short_operators"], cpu_ops=ops, python_calls=lines)
    assert match.advice.startswith("600 operators per step take 900 ns each")
    assert f"call {called}" in match.advice
    assert "LSTM" not in match.advice
    assert ("get_ema_multi_avg_fn" in match.advice) == averages
    assert (match.place, match.gain_ns) == ("main.py(3): update", 300_000)


@pytest.mark.parametrize(
    "ops",
    [
        _updating(AVERAGE, apart=700),
        _updating(AVERAGE)[:-1],
        _updating(AVERAGE, {"phase": "backward"}),
        _updating(AVERAGE, {"input_shapes": ""}),
        [*_updating(AVERAGE), *[op(4_000 + n, "MulBackward0", forward=n) for n in range(600)]],
    ],
    ids=["fewer", "no gradients", "in backward", "shapes unknown", "differentiated"],
)
def test_other_short_operators_are_none_of_parameters(ops):
    (match,) = found(patterns()["short_operators"], cpu_ops=ops)
    assert "into one tensor" in match.advice
    assert "_foreach" not in match.advice


def test_layers_given_inputs_as_large_as_their_weights_are_no_loop_over_parameters():
    layers = []
    for at in range(1, 1_400, 2):
        layers += [
            op(at, "aten::linear", 0, input_shapes="[[64,64],[64,64],[64]]"),
            op(at + 1, "aten::addmm", 500, parent=at, input_shapes="[[64],[64,64],[64,64]]"),
            op(10_000 + at, "AddmmBackward0", forward=at + 1, phase="backward"),
            op(20_000 + at, "torch::autograd::AccumulateGrad", input_shapes="[[64,64]]"),
        ]
    (match,) = found(patterns()["short_operators"], cpu_ops=layers)
    assert match.advice.startswith("Its layers compute little each: give them larger batches")
    loop = [row for row in layers if "Accumulate" not in row["name"]] + layers[3:80:4]
    (match,) = found(patterns()["short_operators"], cpu_ops=loop)
    assert match.advice.startswith("Put what a loop goes through")


@pytest.mark.parametrize(
    ("gates", "is_recurrent"),
    [
        (["aten::sigmoid", "aten::tanh"], True),
        (["aten::_thnn_fused_lstm_cell"], True),
        (["aten::lstm", "aten::sigmoid", "aten::tanh"], False),
        (["aten::tanh"], False),
        (["aten::softmax"], False),
    ],
)
def test_a_recurrent_layer_is_advised_where_one_is_written_out(gates, is_recurrent):
    ops = [*examples("short_operators").FOUND["cpu_ops"], *(op(9_000, gate) for gate in gates)]
    (match,) = found(patterns()["short_operators"], cpu_ops=ops)
    assert ("LSTM" in match.advice) == is_recurrent


def test_the_line_of_operators_is_that_of_the_forward_pass():
    marked = [("train.py(9): main", "backward")] * 3 + [("net.py(3): forward", "forward")]
    ops = frame(
        "cpu_ops",
        [
            span(n, n + 1, op=n, name="aten::mm", stack=line, phase=phase)
            for n, (line, phase) in enumerate(marked)
        ],
    )
    assert place(ops, np.ones(4, dtype=bool)) == "net.py(3): forward"
    assert place(ops[:3], np.ones(3, dtype=bool)) == "train.py(9): main"


@pytest.mark.parametrize(
    ("outermost", "where"),
    [("train.py(9): main", "train.py(9): main"), ("torch/nn/x.py(3): f", "optimizer AdamW")],
)
def test_the_line_that_calls_an_optimizer_is_the_place_of_it(outermost, where):
    calls = [
        python(0, 900_000, outermost) | {"call": 0},
        python(0, 900_000, "torch/optim/adamw.py(60): step") | {"call": 1, "caller": 0},
        python(100, 800_000, "<built-in function func>")
        | {"call": 2, "caller": 1, "charged_ns": 150_000},
    ]
    example = examples("unfused_optimizer")
    (match,) = found(patterns()["unfused_optimizer"], **example.FOUND, python_calls=calls)
    assert match.place == where


@pytest.mark.parametrize(("seen_ns", "is_whole"), [(150_000, True), (2_000, False)])
def test_an_optimizer_of_which_samples_saw_a_part_takes_what_its_operators_do(seen_ns, is_whole):
    calls = [
        python(0, 900_000, "torch/optim/adamw.py(60): step") | {"call": 0, "charged_ns": seen_ns}
    ]
    example = examples("unfused_optimizer")
    (match,) = found(patterns()["unfused_optimizer"], **example.FOUND, python_calls=calls)
    assert (match.gain_ns > example.EXPECTED[1]) == is_whole
    assert match.gain_ns >= example.EXPECTED[1]


def test_of_two_models_of_the_same_shapes_the_one_that_is_not_trained_is_counted():
    trained = unused_gradients.update(100, "aten::_fused_adamw_", [*unused_gradients.SHAPES])
    rows = [*unused_gradients.ALL, *trained]
    (match,) = found(patterns()["unused_gradients"], cpu_ops=rows)
    assert (match.evidence["unused_gradients"], match.evidence["share_of_parameters"]) == (4, 0.5)
    assert match.evidence["largest"] == "[512, 512]"


@pytest.mark.parametrize("form", ["{}", "_foreach_{}"])
@pytest.mark.parametrize("has_momentum", [True, False])
def test_sgd_adds_to_a_parameter_and_first_to_its_momentum(form, has_momentum):
    first = unused_gradients.SHAPES
    given = [[*first]] if "foreach" in form else [*first]
    names = ["mul_", "add_", "add_"] if has_momentum else ["add_"]
    rows = [*unused_gradients.ALL]
    for at, name in enumerate(names):
        operator = f"aten::{form.format(name)}"
        step = unused_gradients.update(100 + 20 * at, operator, *given, optimizer="SGD")
        rows += step if not at else [row | {"parent": 100} for row in step[1:]]
    (match,) = found(patterns()["unused_gradients"], cpu_ops=rows)
    assert (match.evidence["unused_gradients"], match.evidence["share_of_parameters"]) == (4, 0.5)


def test_products_may_be_in_a_costly_order_from_the_right_as_well():
    example = examples("product_order")
    # A sum over neighbours of what is many times as wide as the features that it is made of.
    wide = example.product(0, "[1,1024,32]", "[1,32,4096]")
    summed = example.product(10, "[1,1024,1024]", "[1,1024,4096]")
    (match,) = found(patterns()["product_order"], cpu_ops=[wide, summed])
    assert "`(a @ b) @ c` in place of `a @ (b @ c)`: that takes 4% of" in match.advice


def test_the_line_that_checkpoints_is_the_place_even_of_a_single_layer():
    tables = {"cpu_ops": recomputed_forward.OPS[:5], "python_calls": recomputed_forward.CALLS}
    (match,) = found(patterns()["recomputed_forward"], **tables)
    assert (match.place, match.gain_ns) == ("net.py(14): forward", 50_000)


@pytest.mark.parametrize(
    ("phase", "operation", "words"),
    [
        ("forward", "allreduce", "fewer ranks"),
        ("backward", "allreduce", "async_op=True"),
        ("forward", "broadcast", "async_op=True"),
    ],
)
def test_a_layer_split_over_ranks_cannot_go_on_before_its_sum(phase, operation, words):
    tables = {
        "cpu_ops": [op(0, "aten::mm", phase=phase)],
        "collectives": [collective(1, operation)],
        "kernels": examples("collective_on_compute_stream").FOUND["kernels"],
    }
    (match,) = found(patterns()["collective_on_compute_stream"], **tables)
    assert words in match.advice


@pytest.mark.parametrize(("others", "expected"), [(1, "cache.py(9): update"), (9, "aten::cat")])
def test_short_operators_at_lines_that_differ_have_none(others, expected):
    (join,) = examples("growing_cache").FOUND["cpu_ops"]
    seen = [f"gelu.py({number}): forward" for number in range(others)]
    lines = ["cache.py(9): update", "cache.py(9): update", *seen]
    spent = {"charged_ns": 90_000}
    ops = [join | spent | {"op": number, "stack": line} for number, line in enumerate(lines)]
    (match,) = found(patterns()["growing_cache"], cpu_ops=ops)
    assert match.place == expected


@pytest.mark.parametrize(
    ("many", "batch", "step", "words"),
    [
        (7, 1, "aten::linear", "one tensor"),
        (20, 1, "aten::linear", "each of its 20 calls per step"),
        (20, 64, "aten::linear", "less often than 20 times a step"),
        (20, 64, "aten::gru_cell", "use a fused layer such as `torch.nn.LSTM`"),
    ],
)
def test_a_model_that_is_called_for_one_state_at_a_time_is_to_get_several(many, batch, step, words):
    calls = [op(5_000 + n, "forward", kind="annotation") for n in range(many)]
    layer = op(4_998, "aten::addmm", input_shapes=f"[[8], [{batch}, 4], [4, 8]]")
    ops = [*examples("short_operators").FOUND["cpu_ops"], layer, op(4_999, step), *calls]
    (match,) = found(patterns()["short_operators"], cpu_ops=ops)
    assert words in match.advice


@pytest.mark.parametrize(("function", "is_said"), [("select_action", True), ("log", False)])
def test_what_a_program_does_with_each_answer_may_stand_beside_the_call_of_the_model(
    function, is_said
):
    ops = examples("short_operators").FOUND["cpu_ops"]
    layer = op(4_999, "aten::addmm", input_shapes="[[8], [1, 4], [4, 8]]")
    first, begins = ops[::35], range(1_000, 701_000, 35_000)
    calls = [
        op(5_000 + n, "forward", kind="annotation")
        | {"start_ns": one["start_ns"], "end_ns": one["start_ns"] + 10}
        for n, one in enumerate(first)
    ]
    lines = [python(start, start + 20, "rl.py(86): select_action") for start in begins]
    lines += [python(start + 20, start + 35_000, f"rl.py(89): {function}") for start in begins]
    lines = sorted(lines, key=lambda row: row["start_ns"])
    (match,) = found(
        patterns()["short_operators"], cpu_ops=[*ops, layer, *calls], python_calls=lines
    )
    assert match.place == f"rl.py(89): {function}"
    assert ("several environments by `gymnasium.vector`" in match.advice) == is_said


def test_a_loop_in_several_lines_has_one_of_these_and_not_the_line_that_calls_it():
    ops = examples("short_operators").FOUND["cpu_ops"]
    lines = [
        python(n * 1_000, (n + 1) * 1_000, f"graph.py({21 + n % 3}): mean") for n in range(701)
    ]
    calls = [python(0, 900_000, "model.py(8): forward"), *lines]
    (match,) = found(patterns()["short_operators"], cpu_ops=ops, python_calls=calls)
    assert match.place.endswith(": mean")
    # Of two methods of one name it is the inner one.
    calls = [row | {"name": row["name"].replace("mean", "forward")} for row in calls[1:]]
    around = [python(0, 910_000, "train.py(9): main")]
    around += [python(0, 350_000, "graph.py(48): forward")]
    around += [python(350_000, 900_000, "graph.py(49): forward")]
    calls = sorted([*around, *calls], key=lambda row: row["start_ns"])
    (match,) = found(patterns()["short_operators"], cpu_ops=ops, python_calls=calls)
    assert match.place in {f"graph.py({line}): forward" for line in (21, 22, 23)}


@pytest.mark.parametrize(("reads", "is_said"), [(3, False), (9, True)])
def test_numbers_that_are_read_in_a_loop_are_in_the_way_of_compiling_it(reads, is_said):
    items = [op(5_000 + n, "aten::_local_scalar_dense", parent=1) for n in range(reads)]
    (match,) = found(
        patterns()["short_operators"],
        cpu_ops=[*examples("short_operators").FOUND["cpu_ops"], *items],
    )
    assert ("`torch.compile`, without its 9 `.item()` per step." in match.advice) == is_said


def test_short_operators_have_the_line_of_the_forward_pass():
    example = examples("short_operators")
    backward = {"cpu_ops": [*example.FOUND["cpu_ops"], *example.BACKWARD]}
    calls = [*example.FOUND["python_calls"], python(950_000, 1_300_000, "train.py(9): main")]
    (match,) = found(patterns()["short_operators"], **backward, python_calls=calls)
    # Some 300 us lie between the forward pass and backward: that is other work.
    between = (699 + 199) * example.BETWEEN_NS
    assert (match.place, match.gain_ns) == ("model.py(8): forward", 370_000 + between)
    assert match.also == {"python": between}


@pytest.mark.parametrize(
    ("longer", "takes", "gained"),
    [(3, 60_000, 3 * 60_000 + 7 * 900), (3, 150_000, 7 * 900), (7, 60_000, 0)],
)
def test_nodes_of_backward_go_where_most_of_that_name_are_short(longer, takes, gained):
    name = "autograd::engine::evaluate_function: MulBackward0"
    lasts = [takes if n < longer else 900 for n in range(10)]
    nodes = [
        op(2_000 + n, name, lasted) | span(n * 300_000, n * 300_000 + lasted) | {"tid": 2}
        for n, lasted in enumerate(lasts)
    ]
    example = examples("short_operators")
    (match,) = found(patterns()["short_operators"], cpu_ops=[*example.FOUND["cpu_ops"], *nodes])
    assert match.gain_ns == example.EXPECTED[1] + gained


def test_short_operators_of_a_function_that_is_called_twice_are_at_its_line():
    ops = [op(number, "aten::mul", 500) for number in range(1_000)]
    calls = [python(0, 1_010_000, "train.py(9): <module>")]
    for line, start, end in ((43, 0, 800_000), (47, 810_000, 1_005_000)):
        calls += [
            python(start, end, f"train.py({line}): forward"),
            python(start, end - 1_000, "train.py(26): mean_neighbours"),
        ]
    calls = [row | {"call": number} for number, row in enumerate(calls)]
    (match,) = found(patterns()["short_operators"], cpu_ops=ops, python_calls=calls)
    assert match.place == "train.py(26): mean_neighbours"


@pytest.mark.parametrize(
    "tables",
    [
        {"python_calls": [python(0, 9, "vllm/v1/worker/gpu_model_runner.py(9): execute_model")]},
        {
            "python_calls": [
                python(0, 9, "/x/sglang/srt/model_executor/model_runner.py(9): forward")
            ]
        },
        {"kernels": [kernel(40, "void vllm::rms_norm_kernel<float>", 5)]},
    ],
)
def test_servers_are_told_of_the_cuda_graphs_that_they_have(tables):
    given = examples("short_kernels").FOUND
    given |= {name: [*given.get(name, []), *rows] for name, rows in tables.items()}
    (match,) = found(patterns()["short_kernels"], **given)
    assert match.advice.startswith("Let the server replay CUDA graphs, without `enforce_eager`")


def test_one_input_that_never_changes_may_be_that_of_a_benchmark():
    always = unchanged_input.OF_ENCODER | {"again": 31, "across": 31}
    counts = {"repeated_inputs": [always, unchanged_input.OF_SAMPLER]}
    (made,) = found(patterns()["unchanged_input"], **unchanged_input.FOUND | counts)
    assert "as in a benchmark" in made.advice


def test_a_model_that_is_given_in_turn_what_changes_and_what_does_not_is_found():
    counts = {"repeated_inputs": [unchanged_input.IN_TURN]}
    (made,) = found(patterns()["unchanged_input"], **unchanged_input.FOUND | counts)
    assert made.gain_ns == pytest.approx(60_000 * 31 / 64)


@pytest.mark.parametrize(
    ("rows", "gain_ns"),
    [
        (experts_on_all_rows.AT_ONCE, 36_000),
        (experts_on_all_rows.passed(chooses="aten::max"), 63_000),
    ],
)
def test_experts_are_found_in_one_product_and_where_each_row_has_one(rows, gain_ns):
    (made,) = found(patterns()["experts_on_all_rows"], **rows)
    assert made.gain_ns == pytest.approx(gain_ns)
