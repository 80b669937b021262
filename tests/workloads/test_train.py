import math

import pytest
import torch

from profkit import marks
from profkit.core.errors import ConfigError
from profkit.workloads import train as program
from profkit.workloads import workloads
from profkit.workloads.models.gpt import Model
from profkit.workloads.runtime.process import joined, launched_rank
from profkit.workloads.runtime.request import Request, parsed

TINY = {"name": "t", "family": "gpt", "vocabulary": 64, "context": 8, "layers": 1, "width": 16}


def request(**changes):
    return Request(**{"model": TINY, "device": "cpu", "steps": 4} | changes)


def losses(**changes):
    with joined(request(**changes)) as process:
        return program.train(process)


class Watcher:
    """Notes what the workload marks."""

    def __init__(self):
        self.seen = []

    def begin(self):
        self.seen.append("begin")

    def step(self, samples):
        self.seen.append(samples)

    def marker(self, name):
        self.seen.append(name)
        return marks._SILENT


@pytest.fixture
def watcher(monkeypatch):
    watcher = Watcher()
    monkeypatch.setattr(marks, "_marks", marks._Marks())
    marks.listen(watcher, markers=(watcher.marker,))
    return watcher


def test_the_same_seed_gives_the_same_losses_and_another_gives_others():
    assert losses(seed=3) == losses(seed=3)
    assert losses(seed=3) != losses(seed=4)


def test_the_first_loss_is_that_of_guessing():
    assert losses(steps=1)[0] == pytest.approx(math.log(TINY["vocabulary"]), abs=0.1)


def trained(monkeypatch, **changes):
    """Return the weights after training."""
    models = []
    build = Model.build

    def kept(family):
        models.append(build(family))
        return models[0]

    with monkeypatch.context() as patch:
        patch.setattr(Model, "build", kept)
        losses(workload={"name": "train", "optimizer": "sgd", "learning_rate": 0.5}, **changes)
    return [parameter.detach() for parameter in models[0].parameters()]


def test_micro_batches_are_summed_into_one_step(monkeypatch):
    whole = trained(monkeypatch, batch=4)
    halves = trained(monkeypatch, batch=2, grad_accumulation=2)
    other = trained(monkeypatch, batch=2)
    torch.testing.assert_close(halves, whole)
    assert not torch.allclose(other[0], whole[0])


def test_steps_and_phases_are_marked_in_their_order(watcher):
    losses(steps=2, batch=3, grad_accumulation=2)
    micro = ["data", "forward", "backward"]
    step = [*micro, *micro, "optimizer"]
    assert watcher.seen == ["begin", "step#0", *step, 6, "step#1", *step, 6]


def test_each_precision_computes_in_its_own():
    found = {precision: losses(precision=precision) for precision in ("fp32", "bf16", "fp16")}
    assert len({*map(tuple, found.values())}) == 3
    assert found["fp16"] == pytest.approx(found["fp32"], abs=1e-2)


def test_gradients_in_fp16_are_scaled_back(monkeypatch):
    close, exact = (trained(monkeypatch, precision=name) for name in ("fp16", "fp32"))
    torch.testing.assert_close(close, exact, atol=1e-2, rtol=1e-2)


def test_the_loader_may_work_in_processes_of_its_own():
    assert losses(workload={"name": "train", "workers": 1}) == losses()


@pytest.mark.parametrize(("mode", "expected"), [("none", []), ("default", [{"mode": "default"}])])
def test_the_model_is_compiled_if_asked_for(monkeypatch, mode, expected):
    asked = []
    # Compiling itself takes most of a minute.
    monkeypatch.setattr(torch.nn.Module, "compile", lambda _, **kwargs: asked.append(kwargs))
    losses(compile=mode, steps=1)
    assert asked == expected


def test_convolutions_train_too():
    seen = losses(model={"name": "c", "family": "cnn", "width": 4}, steps=2)
    assert seen[0] == pytest.approx(2.3, abs=1.5)


def test_a_launcher_that_starts_another_number_of_ranks_is_an_error():
    assert launched_rank(
        request(world_size=2), {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
    ) == (
        1,
        1,
    )
    with pytest.raises(ConfigError, match="world_size is 2, but 1 rank was started"):
        launched_rank(request(world_size=2), {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"bach": 2}', "did you mean 'batch'?"),
        ('{"batch": 0}', "batch: Input should be greater than 0"),
        ("{", "--config is not JSON"),
    ],
)
def test_a_request_that_does_not_fit_is_an_error(text, message):
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        parsed(["--config", text])


def test_training_and_inference_are_found():
    assert {"train", "infer"} <= set(workloads())
