import warnings
from threading import Barrier, Thread

import pytest
import torch
from torch import nn, optim
from torch.profiler import profile, record_function
from torch.utils.checkpoint import checkpoint

import profkit
from profkit import marks
from profkit.capture._model_inputs import ModelInputs
from profkit.workloads.automatic import step_hooks
from profkit.workloads.automatic.step_hooks import StepHooks

FORWARD = ["forward", "/forward"]
BACKWARD = ["backward", "/backward"]
OPTIMIZER = ["optimizer", "/optimizer"]


def step(index, *inside, samples=-1):
    """Return what is seen of step `index`, whose end begins the next."""
    return [f"step#{index}", *inside, f"/step#{index}", samples]


def network():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def frozen(model):
    return torch.jit.freeze(torch.jit.script(model))


def quantized(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


def lost(model):
    return model(torch.ones(2, 3)).sum()


def test_a_step_goes_from_one_optimizer_step_to_the_next(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto", samples=2):
        for _ in range(2):
            lost(model).backward()
            optimizer.step()
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == [
        "begin",
        *step(0, *inside, samples=2),
        *step(1, *inside, samples=2),
        "step#2",
    ]
    assert watcher.notes == []


def test_gradients_may_be_accumulated(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        for index in range(4):
            lost(model).backward()
            if index % 2:
                optimizer.step()
    inside = [*FORWARD, *BACKWARD, *FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == ["begin", *step(0, *inside), *step(1, *inside), "step#2"]


def test_the_two_optimizers_of_a_gan_make_one_step(watcher):
    pair = [network(), network()]
    optimizers = [optim.SGD(model.parameters(), lr=0.1) for model in pair]
    with StepHooks("auto"):
        for _ in range(3):
            for model, optimizer in zip(pair, optimizers, strict=True):
                lost(model).backward()
                optimizer.step()
    turn = [*FORWARD, *BACKWARD, *OPTIMIZER]
    # That there are two shows when the second joins, and by then the first has ended a step.
    assert watcher.seen == [
        "begin",
        *step(0, *turn),
        *step(1, *turn, *turn, *turn),
        *step(2, *turn, *turn),
        "step#3",
    ]
    assert watcher.notes == []


def test_an_optimizer_that_joins_late_is_said(watcher):
    one, two = network(), network()
    early, late = (optim.SGD(model.parameters(), lr=0.1) for model in (one, two))
    with StepHooks("auto"):
        for index in range(5):
            lost(one).backward()
            early.step()
            if index >= 3:
                lost(two).backward()
                late.step()
    # The first call of the late one was a part of the fourth step.
    assert (marks.steps_seen(), watcher.seen.count((3, 2))) == (6, 1)
    (note,) = watcher.notes
    assert note.startswith("From step 4 on, a step ends with SGD, and with something else before;")
    assert note.endswith("warmup_steps=5.")


def test_an_optimizer_outlives_those_that_are_made_anew_in_each_of_its_steps(watcher):
    outer, inner = network(), network()
    slow = optim.Adam(outer.parameters())
    with StepHooks("auto"):
        for _ in range(8):
            fast = optim.SGD(inner.parameters(), lr=0.1)
            for _ in range(3):
                lost(inner).backward()
                fast.step()
            lost(outer).backward()
            slow.step()
    # Those of the first round turned out to be one.
    assert (marks.steps_seen(), watcher.seen.count((0, 4))) == (4 + 7, 1)
    assert watcher.notes == [
        "Several optimizers take turns: a step is a round of 3 calls of SGD and 1 call of Adam."
    ]


def test_a_round_of_several_optimizers_is_said_in_few_words(watcher):
    models = [network() for _ in range(4)]
    one, *others = (optim.SGD(model.parameters(), lr=0.1) for model in models)
    with StepHooks("auto"):
        for _ in range(3):
            for optimizer in (one, *others, *others):
                optimizer.step()
    (note,) = watcher.notes
    assert note.endswith("a step is a round of 1 call of SGD and 2 calls of each of 3 SGD.")


def test_a_step_that_the_scaler_skips_is_a_step(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with StepHooks("auto"):
        for factor in (float("inf"), 1.0):
            scaler.scale(lost(model) * factor).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            if factor > 1:
                after = [parameter.detach().clone() for parameter in model.parameters()]
                torch.testing.assert_close(after, before)
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == ["begin", *step(0, *inside), *step(1, *inside), "step#2"]


class Outer(optim.Optimizer):
    """Steps another optimizer in its own step, as sharding optimizers do."""

    def __init__(self, inner):
        super().__init__([torch.zeros(1)], {})
        self.inner = inner

    def step(self, closure=None):
        self.inner.step()
        if closure is not None:
            closure()


def test_an_optimizer_in_an_optimizer_is_a_part_of_it(watcher):
    model = network()
    optimizer = Outer(optim.SGD(model.parameters(), lr=0.1))
    with StepHooks("auto"):
        for _ in range(2):
            lost(model).backward()
            optimizer.step()
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == ["begin", *step(0, *inside), *step(1, *inside), "step#2"]


def test_a_step_that_fails_and_is_tried_again_is_one(watcher):
    model = network()
    optimizer = Outer(optim.SGD(model.parameters(), lr=0.1))

    def fail():
        raise FloatingPointError

    with StepHooks("auto"):
        lost(model).backward()
        with pytest.raises(FloatingPointError):
            optimizer.step(fail)
        optimizer.step()
    assert [mark for mark in watcher.seen if isinstance(mark, int)] == [-1]
    assert marks.steps_seen() == 1


def test_a_forward_pass_that_fails_is_closed_and_the_next_one_seen(watcher):
    model = network()
    with StepHooks("forward"):
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            model(torch.ones(2, 7))
        model(torch.ones(2, 3))
    assert watcher.seen == ["begin", *step(0, *FORWARD), *step(1, *FORWARD), "step#2"]


@pytest.mark.usefixtures("watcher")
def test_optimizers_that_step_within_the_backward_pass_make_one_step():
    model = network()
    optimizers = {parameter: optim.SGD([parameter], lr=0.1) for parameter in model.parameters()}
    for parameter, optimizer in optimizers.items():
        parameter.register_post_accumulate_grad_hook(lambda _, o=optimizer: o.step())
    with StepHooks("auto"):
        for _ in range(4):
            lost(model).backward()
    assert marks.steps_seen() == 4


def test_steps_on_another_thread_end_with_the_next_forward_pass(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        for _ in range(3):
            lost(model).backward()
            run_in_thread(optimizer.step)
    inside = [*FORWARD, *BACKWARD]
    assert watcher.seen == ["begin", *step(0, *inside), *step(1, *inside), "step#2", *inside]


def run_in_thread(act):
    thread = Thread(target=act)
    thread.start()
    thread.join()


def test_inference_steps_with_each_call_of_the_outermost_module(watcher):
    model = network()
    with StepHooks("forward"), torch.inference_mode():
        for _ in range(2):
            nn.functional.relu(model(torch.ones(2, 3)))
            nn.Softmax(dim=-1)(torch.ones(2))
    assert watcher.seen == ["begin", *step(0, *FORWARD), *step(1, *FORWARD), "step#2"]


class Meeting(nn.Module):
    """A model in which two threads are at the same time, each in a module of its own."""

    def __init__(self, barrier):
        super().__init__()
        self.barrier = barrier
        self.inner = nn.Linear(3, 3)

    def forward(self, inputs):
        self.barrier.wait()
        inputs = self.inner(inputs)
        self.barrier.wait()
        return self.inner(inputs)


def test_forward_passes_on_several_threads_at_once_are_a_step_each(watcher):
    model = Meeting(Barrier(2))

    def serve():
        with torch.inference_mode():
            for _ in range(3):
                model(torch.ones(2, 3))

    with StepHooks("forward"):
        threads = [Thread(target=serve) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert marks.steps_seen() == 6
    assert "Several threads call the model" in "".join(watcher.notes)


def test_requests_that_are_answered_on_a_thread_each_are_steps(watcher):
    model = network()
    with StepHooks("forward"):
        for _ in range(3):
            run_in_thread(lambda: lost(model))
    inside = ["begin", *step(0, *FORWARD), *step(1, *FORWARD), *step(2, *FORWARD), "step#3"]
    assert watcher.seen == inside


def test_a_training_on_a_thread_that_did_not_make_the_model_is_followed(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def train():
        for _ in range(2):
            lost(model).backward()
            optimizer.step()

    with StepHooks("auto"):
        run_in_thread(train)
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == ["begin", *step(0, *inside), *step(1, *inside), "step#2"]
    assert watcher.notes == []


def test_threads_that_act_with_the_model_are_no_part_of_its_training(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    def act():
        with torch.no_grad():
            lost(model)

    with StepHooks("auto"):
        for _ in range(2):
            run_in_thread(act)
            lost(model).backward()
            optimizer.step()
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == ["begin", *step(0, *inside), *step(1, *inside), "step#2"]
    assert watcher.notes == []


def test_an_optimizer_that_makes_no_step_in_many_passes_is_waited_for_no_more(watcher, monkeypatch):
    monkeypatch.setattr(step_hooks, "_MANY_PASSES", 3)
    model = network().eval()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"), torch.no_grad():
        for _ in range(5):
            lost(model)
    assert marks.steps_seen() == 2
    (note,) = watcher.notes
    assert note.startswith("The optimizer made no step in 3 forward passes: from then on each")
    for asked, steps in (("optimizer", 1), ("mark", 0)):
        marks.begin_anew(watcher)
        with StepHooks(asked) as hooks:
            for _ in range(5):
                lost(model).backward()
            optimizer.step()
        assert (marks.steps_seen(), hooks.unstepped_passes) == (steps, 0)


def test_many_moves_of_a_model_in_training_are_played_before_its_update(watcher, monkeypatch):
    monkeypatch.setattr(step_hooks, "_MANY_PASSES", 3)
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        for _ in range(2):
            with torch.no_grad():
                for _ in range(5):
                    lost(model)
            lost(model).backward()
            optimizer.step()
    assert marks.steps_seen() == 2
    assert watcher.notes == []


@pytest.mark.usefixtures("watcher")
def test_tracing_a_model_is_no_step_of_it():
    marks.mark_too(record_function)
    model, inputs = network(), torch.ones(2, 3)
    with StepHooks("forward"), torch.no_grad():
        traced = torch.jit.trace(model, inputs)
        for _ in range(2):
            traced(inputs)
    assert marks.steps_seen() == 2


@pytest.mark.parametrize("prepared", [torch.jit.script, frozen, quantized])
def test_a_model_whose_weights_are_no_parameters_steps_with_each_call(watcher, prepared):
    model = prepared(network().eval())
    with StepHooks("forward"), torch.no_grad():
        for _ in range(2):
            model(torch.ones(2, 3))
    assert watcher.seen == ["begin", *step(0, *FORWARD), *step(1, *FORWARD), "step#2"]


class Learner(nn.Module):
    """A model with weights of its own kind, as those of MAML, and other methods of these names."""

    def __init__(self):
        super().__init__()
        self.vars = nn.ParameterList([nn.Parameter(torch.ones(1, 3))])

    def parameters(self):
        return self.vars

    def modules(self):
        raise AssertionError("profkit reads what a module has, and calls none of its methods")

    def forward(self, inputs):
        return nn.functional.linear(inputs, self.vars[0])


def test_a_program_may_make_of_parameters_what_it_likes(watcher):
    model = Learner()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto", samples=2):
        lost(model).backward()
        optimizer.step()
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == ["begin", *step(0, *inside, samples=2), "step#1"]
    model.eval()
    with StepHooks("forward"), torch.no_grad():
        model(torch.ones(2, 3))


def test_a_validation_before_the_training_is_set_up(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("optimizer"):
        with torch.no_grad():
            lost(model)
        lost(model).backward()
        optimizer.step()
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == [*FORWARD, "begin", *step(0, *inside), "step#1"]


def test_passes_before_there_is_an_optimizer_are_a_part_of_its_first_step(watcher, monkeypatch):
    made = []
    monkeypatch.setattr(step_hooks, "_is_optimizer_made", lambda: bool(made))
    model = network()
    with StepHooks("auto") as hooks:
        for _ in range(2):
            lost(model)
        made.append(optim.SGD(model.parameters(), lr=0.1))
        for _ in range(3):
            lost(model).backward()
            made[0].step()
    joins = [seen for seen in watcher.seen if isinstance(seen, tuple)]
    assert (joins, watcher.seen.count(-1), hooks.first_passes) == ([(0, 3)], 5, 2)
    (note,) = watcher.notes
    assert note.startswith("The model was called 2 times before there was an optimizer")


@pytest.mark.parametrize("kind", ["optimizer", "auto"])
def test_a_pass_that_checkpointing_runs_again_is_none(watcher, monkeypatch, kind):
    monkeypatch.setattr(step_hooks, "_is_optimizer_made", lambda: False)
    model = network()
    inputs = torch.ones(2, 3, requires_grad=True)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks(kind):
        for _ in range(4):
            checkpoint(model, inputs, use_reentrant=False).sum().backward()
            if kind == "optimizer":
                optimizer.step()
    assert (watcher.seen.count("forward"), watcher.seen.count(-1)) == (4, 4)
    assert watcher.notes == []


def test_a_script_that_marks_its_steps_is_believed(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("mark"):
        for _ in range(3):
            for _ in range(2):
                lost(model).backward()
                optimizer.step()
            profkit.step(samples=5)
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    set_up = [*inside, *inside]
    assert watcher.seen == [
        *set_up,
        "begin",
        *step(0, *set_up, samples=5),
        *step(1, *set_up, samples=5),
        "step#2",
    ]


def test_marks_win_over_what_is_seen_from_the_first_of_them_on(watcher):
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with StepHooks("auto"):
        for _ in range(3):
            with profkit.phase("forward"):
                loss = lost(model)
            loss.backward()
            optimizer.step()
            profkit.step(samples=5)
    inside = [*FORWARD, *BACKWARD, *OPTIMIZER]
    assert watcher.seen == [
        # The first range of the script is open before its first forward pass begins the step.
        *["forward", "begin", "step#0", "/forward", *BACKWARD, *OPTIMIZER, "/step#0", -1],
        # The step that was seen to begin goes on to the mark after it.
        *step(1, *inside, samples=5),
        *step(2, *inside, samples=5),
        "step#3",
    ]


@pytest.mark.usefixtures("watcher")
def test_compiled_modules_are_not_compiled_again():
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def forward(self, x):
            return self.layers(x)

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return (x * self.weight).sum()

    inner, wrapped, loss = Net(), torch.compile(Net(), backend=backend), Loss()
    inner.compile(backend=backend)
    parameters = [*inner.parameters(), *wrapped.parameters(), *loss.parameters()]
    optimizer = optim.SGD(parameters, lr=0.1)
    with StepHooks("auto"):
        for _ in range(4):
            loss(inner(torch.ones(2, 3)) + wrapped(torch.ones(2, 3))).backward()
            optimizer.step()
    assert len(graphs) == 2
    assert marks.steps_seen() == 4


def test_nothing_is_left_behind(watcher):
    backward, skipping = torch.autograd.backward, torch.amp.GradScaler._maybe_opt_step
    model = network()
    with StepHooks("auto"):
        lost(model).backward()
    seen = list(watcher.seen)
    lost(model).backward()
    optim.SGD(model.parameters(), lr=0.1).step()
    assert watcher.seen == seen
    assert (torch.autograd.backward, torch.amp.GradScaler._maybe_opt_step) == (backward, skipping)
    assert not nn.modules.module._global_forward_pre_hooks


class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Embedding(20, 4)

    def forward(self, scale, *, tokens):
        return self.inner(tokens) * scale


@pytest.mark.usefixtures("watcher")
def test_what_a_loss_beside_the_model_is_given_is_passed_on():
    inputs, loss = ModelInputs(), nn.CrossEntropyLoss()
    marks.take_inputs(inputs)
    labels = torch.tensor([3, -100, -100, 7, 5, -100, 1, 0])
    with StepHooks("auto"):
        loss(torch.zeros(8, 9), labels)
        loss(torch.zeros(8, 9), target=labels)
    assert inputs.padded.labels == [(8, 3)] * 2
    assert inputs.repeated.counts() == []


@pytest.mark.usefixtures("watcher")
def test_what_the_model_is_given_is_passed_on_and_read_without_an_operator():
    inputs = ModelInputs()
    marks.take_inputs(inputs)
    model, batch = Lookup(), torch.tensor([[4, 3, 2, 9, 8, 7, 5, 1], [4, 3, 2, 0, 0, 0, 0, 0]])
    with StepHooks("auto"), profile() as hooked:
        model(2.0, tokens=batch)
        model(2.0, tokens=batch)
    with profile() as alone:
        model(2.0, tokens=batch)
        model(2.0, tokens=batch)
    assert inputs.padded.found == [(2, 8, 8, 5)] * 2
    assert inputs.repeated.counts() == [(0, 1, 0, 0, 0), (1, 1, 1, 0, 0)]
    names = [sorted(event.name for event in of.events()) for of in (hooked, alone)]
    assert names[0] == names[1]
