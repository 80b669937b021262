"""Evaluation between steps is none of them, and the passes that make up a step are counted."""

import pytest
import torch
from torch import nn, optim

from profkit import marks
from profkit.workloads.automatic import step_hooks
from profkit.workloads.automatic.step_hooks import StepHooks


@pytest.fixture(params=[True, False], ids=["with ranges", "without ranges"])
def seen(watcher, request):
    """Return a watcher of steps, with and without a tool that records phases."""
    if not request.param:
        marks.listen(watcher)
    return watcher


@pytest.fixture
def without_optimizer(monkeypatch):
    """Forget the optimizers that other tests have made in this process."""
    monkeypatch.setattr(step_hooks, "_is_optimizer_made", lambda: False)


def train(model, optimizer, passes=1):
    model.train()
    for _ in range(passes):
        model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


def evaluate(model, batches):
    model.eval()
    with torch.no_grad():
        for _ in range(batches):
            model(torch.ones(2, 4))


def test_a_step_begins_again_after_an_evaluation(seen):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        for epoch in range(2):
            for _ in range(5):
                train(model, optimizer)
            evaluate(model, 3 * epoch + 1)
        train(model, optimizer)
    steps = [what for what in seen.seen if what in (-1, "resume")]
    assert steps == [*[-1] * 5, "resume", *[-1] * 5, "resume", -1]
    (note,) = seen.notes
    assert note.startswith("Between steps")


@pytest.mark.parametrize("after_student", [False, True], ids=["teacher", "loss"])
def test_a_step_has_in_it_what_the_first_one_used_and_did_not_train(seen, after_student):
    student, frozen = nn.Linear(4, 4), nn.Linear(4, 4).eval()
    optimizer = optim.SGD(student.parameters(), lr=0.1)
    wrapped = nn.Sequential(student)
    with StepHooks("auto"):
        evaluate(student, 2)
        for _ in range(6):
            wrapped.train()
            inputs = torch.ones(2, 4)
            if after_student:
                frozen(wrapped(inputs)).sum().backward()
            else:
                with torch.no_grad():
                    target = frozen(inputs)
                (wrapped(inputs) - target).sum().backward()
            optimizer.step()
        assert [what for what in seen.seen if what in (-1, "resume")] == [-1] * 6
        assert seen.notes == []
        evaluate(student, 2)
        train(wrapped, optimizer)
    assert [what for what in seen.seen if what in (-1, "resume")] == [*[-1] * 6, "resume", -1]


def test_an_evaluation_between_batches_of_a_step_is_a_part_of_it(seen):
    model = nn.Linear(4, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        train(model, optimizer)
        for _ in range(2):
            model.train()
            model(torch.ones(2, 4)).sum().backward()
            evaluate(model, 2)
            train(model, optimizer)
    assert [what for what in seen.seen if what in (-1, "resume")] == [-1, -1, -1]
    (note,) = seen.notes
    assert note.startswith("Within steps")


def test_an_evaluation_has_a_phase_of_its_own(watcher):
    model = nn.Linear(4, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        train(model, optimizer)
        evaluate(model, 2)
    names = [what for what in watcher.seen if what in ("forward", "evaluation")]
    assert names == ["forward", "evaluation", "evaluation"]


def test_a_model_that_trains_in_evaluation_mode_is_not_evaluated(seen):
    model = nn.Linear(4, 4).eval()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        for _ in range(4):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert "resume" not in seen.seen
    assert seen.notes == []


def test_gradients_that_are_summed_over_passes_are_noted_once(seen):
    model = nn.Linear(4, 4)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        for _ in range(6):
            train(model, optimizer, passes=3)
    assert seen.seen.count(-1) == 6
    (note,) = seen.notes
    assert note.startswith("Each step of the optimizer has 3 forward passes of Linear")


def test_passes_of_two_modules_of_a_class_do_not_add_up(seen):
    body, head = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
    with StepHooks("auto"):
        for _ in range(4):
            head(body(torch.ones(2, 4))).sum().backward()
            optimizer.step()
    assert seen.seen.count(-1) == 4
    assert seen.notes == []


def test_passes_of_a_closure_do_not_add_up(seen):
    model = nn.Linear(4, 1)
    optimizer = optim.LBFGS(model.parameters(), lr=0.01, max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.rand(8, 4)).pow(2).mean()
        loss.backward()
        return loss

    with StepHooks("auto"):
        for _ in range(4):
            optimizer.step(closure)
    assert seen.seen.count(-1) == 4
    (note,) = seen.notes
    assert note == (
        "Each step of the optimizer has 3 forward passes of Linear, made by its closure: a step is"
        " all of them."
    )


@pytest.mark.usefixtures("without_optimizer")
def test_without_an_optimizer_the_evaluation_of_what_is_trained_is_no_step(seen):
    model = nn.Linear(4, 4)
    with StepHooks("auto"):
        for _ in range(2):
            for _ in range(3):
                model.train()
                model.zero_grad()
                model(torch.ones(2, 4)).sum().backward()
            evaluate(model, 2)
        evaluate(nn.Linear(4, 4), 1)
    steps = [what for what in seen.seen if what in (-1, "resume")]
    assert steps == [*[-1] * 3, "resume", *[-1] * 3]


@pytest.mark.usefixtures("without_optimizer")
def test_inference_in_either_mode_has_a_step_for_each_pass(seen):
    model = nn.Linear(4, 4)
    with StepHooks("auto"), torch.no_grad():
        model(torch.ones(2, 4))
        model.eval()(torch.ones(2, 4))
    assert seen.seen.count(-1) == 2
