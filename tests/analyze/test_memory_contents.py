"""What allocations are, besides the phase that they were made in."""

import pytest

from profkit import testing
from profkit.analyze import memory_peak
from profkit.testing import rows
from tests.analyze.test_memory_verdict import FORWARD, MIB, block

BACKWARD = "backward (torch/_tensor.py:5);torch::autograd::Engine::execute;MulBackward0::apply"
CAST = f"{FORWARD};at::autocast::cached_cast(c10::ScalarType, at::Tensor const&);at::_ops::to"
STEP = "step (/torch/optim/adam.py:9)"


def contents(*blocks):
    """Return the MiB of each content at the peak."""
    result = testing.run(memory_peak.analyze, allocations=[*blocks])
    return {row["content"]: row["live_bytes"] / MIB for row in rows(result, "by_content")}


@pytest.mark.parametrize("steps", [False, True], ids=["nothing in the step", "in the step"])
@pytest.mark.parametrize("freed", ["after the step", "before backward", "never"])
def test_gradients_outlive_backward_and_temporaries_do_not(freed, steps):
    """A second step follows: its forward pass is event 20, its backward pass event 30."""
    end = {"after the step": 16, "before backward": 25, "never": -1}[freed]
    found = contents(
        block(1, 0, 40),
        block(10, 2, end, stack=BACKWARD),
        block(30, 3, 6, stack=BACKWARD),
        block(1, 4, 5, stack=BACKWARD),
        block(1, 8, end, stack=BACKWARD),
        *([block(1, 12, 14, stack=STEP)] if steps else []),
        block(1, 20, 40),
        block(1, 30, 33, stack=BACKWARD),
    )
    assert found == {"temporaries of backward": 31, "gradients": 10, "activations": 1}


@pytest.mark.parametrize(
    ("lasting", "also", "content"),
    [
        (3, [], "temporaries without gradients"),
        (200, [], "activations"),
        (3, [block(1, 600, 601, stack=BACKWARD)], "activations"),
    ],
    ids=["freed at once", "kept", "training"],
)
def test_a_forward_pass_that_keeps_nothing_has_no_gradients(lasting, also, content):
    blocks = [block(1, 2 * number, 2 * (number + lasting) + 1) for number in range(256)]
    assert [*contents(*blocks, *also)] == [content]


def test_an_answer_that_is_kept_is_no_graph():
    blocks = [block(1, 2 * number, 2 * number + 3) for number in range(256)]
    kept = block(100, 600)
    after = [block(1, 700 + 2 * number, 703 + 2 * number) for number in range(70)]
    assert [*contents(*blocks, kept, *after)] == ["temporaries without gradients"]


@pytest.mark.parametrize(
    ("end", "content"), [(8, "temporaries of the optimizer"), (25, "optimizer states")]
)
def test_what_the_optimizer_frees_before_anything_else_is_no_state(end, content):
    next_step = [block(1, 20, 40), block(1, 30, 33, stack=BACKWARD)]
    found = contents(*(block(10, number, end, stack=STEP) for number in range(3)), *next_step)
    assert found.pop(content) == 30


def test_a_short_history_does_not_say_what_is_kept():
    assert [*contents(*(block(1, 2 * number, 2 * number + 3) for number in range(100)))] == [
        "activations"
    ]


def test_other_gpus_allocate_in_passes_of_their_own():
    other = block(1, 5, 9) | {"device": "cuda:1"}
    temporary = block(10, 2, 6, stack=BACKWARD)
    assert contents(temporary, other, block(1, 8, 9, stack=BACKWARD)) == {
        "temporaries of backward": 10
    }


def test_halves_of_weights_that_autocast_made_are_no_activations():
    weight = block(40, -1) | {"stack": "", "line": ""}
    found = contents(weight, block(20, 1, stack=CAST), block(8, 2, stack=CAST), block(20, 3))
    assert found == {
        "blocks from before the history": 40,
        "activations": 28,
        "weights cast by autocast": 20,
    }


def test_a_workspace_that_backward_asked_for_first_is_no_gradient():
    stack = f"{BACKWARD};at::cuda::getCurrentCUDABlasHandle();at::cuda::getNewWorkspace()"
    assert contents(block(8, 1, stack=stack)) == {"workspaces of libraries": 8}


@pytest.mark.parametrize("stack", [FORWARD, STEP, BACKWARD], ids=["forward", "step", "backward"])
def test_what_a_forward_pass_without_gradients_makes_is_no_activation(stack):
    within = f"decorate_context (/torch/utils/_contextlib.py:116);{stack}"
    kept, made = (contents(block(8, 1, stack=each)) for each in (stack, within))
    assert made == ({"temporaries without gradients": 8} if stack is FORWARD else kept)
