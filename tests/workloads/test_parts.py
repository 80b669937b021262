"""Parts of a training step, in whatever order they are run."""

from contextlib import nullcontext

import pytest

from profkit.workloads.train import StepParts


class Engine:
    """Fails like DeepSpeed where a step has not got the gradients of all its micro-batches."""

    def __init__(self, accumulation):
        self.accumulation = accumulation
        self.gradients = 0
        self.steps = 0
        self.lasts = []

    def micro_batch(self, *, last):
        self.lasts.append(last)
        return nullcontext()

    def forward(self, inputs):
        return [inputs]

    def backward(self, loss):
        self.gradients += len(loss)

    def step(self):
        assert self.gradients == self.accumulation
        self.gradients = 0
        self.steps += 1


class Family:
    def loss(self, output, targets):
        del targets
        return output


@pytest.mark.parametrize("accumulation", [1, 3])
def test_each_part_can_be_run_again_and_again(accumulation):
    engine = Engine(accumulation)
    for part in StepParts(engine, Family(), ({}, None), accumulation).parts().values():
        for _ in range(5):
            part.prepare()
            part.run()
    assert engine.gradients == 0
    # The gradients of a step are reduced with its last micro-batch.
    assert engine.lasts.count(True) == engine.steps
    assert len(engine.lasts) == engine.steps * accumulation


def test_a_step_is_all_its_micro_batches_and_one_update():
    engine = Engine(2)
    parts = StepParts(engine, Family(), ({}, None), 2).parts()
    parts["step"].prepare()
    parts["step"].run()
    assert (engine.lasts, engine.steps) == ([False, True], 1)
    parts["backward"].prepare()
    parts["backward"].run()
    assert engine.gradients == 1
