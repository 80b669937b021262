"""Conversions of types, in programs that PyTorch really records."""

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from profkit.convert.torch_profiler import trace
from profkit.patterns import patterns
from profkit.patterns._shapes import elements, shape
from profkit.testing import found


class Layers(nn.Module):
    """Layers whose results the program may convert itself, to FP32 or there and back."""

    def __init__(self, *types):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3))
        self.types = types

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            for dtype in self.types:
                x = x.to(dtype)
        return x


def training(model, *, is_autocast, batch=8):
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.ones(batch, 64, dtype=torch.float32 if is_autocast else torch.bfloat16)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
            loss = model(inputs).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def inference(model):
    @torch.no_grad()
    def step():
        with torch.autocast("cpu", torch.bfloat16):
            model(torch.ones(8, 64))

    return step


@pytest.fixture
def matches(tmp_path):
    """Return a function that records two calls of a step, and returns what is found in them."""

    def of(step):
        step()
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            step()
            step()
        path = tmp_path / "rank0.json"
        profiler.export_chrome_trace(str(path))
        rows = trace.read(path).tables["cpu_ops"].to_pylist()
        # As if each element took 1 ns: what was measured differs from run to run.
        charged = [row | {"charged_ns": elements(shape(row["input_shapes"]))} for row in rows]
        return found(patterns()["conversions"], cpu_ops=charged)

    return of


TO_AND_FRO = (torch.float32, torch.bfloat16) * 20
PROGRAMS = {
    "training under autocast": (
        training(Layers(), is_autocast=True),
        "Autocast converts each weight once for as long as it is entered (c10::BFloat16 from",
    ),
    "autocast, and more conversions of the program's own": (
        training(Layers(*TO_AND_FRO), is_autocast=True, batch=2048),
        "Leave types to autocast (",
    ),
    "inference under autocast": (inference(Layers()), "Convert the model once, `model.to(torch"),
    "training in BF16, with conversions of the program's own": (
        training(Layers(*TO_AND_FRO).to(torch.bfloat16), is_autocast=False),
        "Convert once instead of in every step (",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_helps_depends_on_who_converts(matches, name):
    step, advice = PROGRAMS[name]
    (match,) = matches(step)
    assert match.advice.startswith(advice)


def test_training_in_one_type_is_passed(matches):
    assert matches(training(Layers().to(torch.bfloat16), is_autocast=False)) == ()
