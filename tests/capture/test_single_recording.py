"""A recording of torch.profiler that begins in another one is refused, and PyTorch survives it."""

import pytest
import torch
from torch.autograd import profiler as autograd
from torch.profiler import ProfilerActivity, profile, schedule

from profkit.capture._single_recording import single_recording
from profkit.core.errors import ProfkitError

ON_CPU = {"activities": [ProfilerActivity.CPU]}
KINDS = {
    "torch.profiler": lambda: profile(**ON_CPU),
    "autograd": autograd.profile,
    "without Kineto": lambda: autograd.profile(use_kineto=False),
    "emit_itt": autograd.emit_itt,
}


def own_recording():
    return profile(**ON_CPU, schedule=schedule(wait=1, warmup=1, active=1, repeat=1))


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
@pytest.mark.parametrize("kind", KINDS)
def test_profkits_recording_stays_out_of_one_that_the_script_has_open(kind):
    own = own_recording()
    with KINDS[kind](), single_recording(own, "memlab"):
        own.start()
        with pytest.raises(ProfkitError, match=r"leave out this one: ~tools\.memlab"):
            own.step()
        torch.ones(2).sum()
        # A crash before: there was nothing to stop.
        own.stop()


@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_a_recording_after_one_that_was_refused_is_whole():
    own = own_recording()
    with single_recording(own, "memlab"):
        with profile(**ON_CPU):
            own.start()
            with pytest.raises(ProfkitError):
                own.step()
        own.step()
        torch.ones(2).sum()
        own.stop()
    assert any(event.key == "aten::sum" for event in own.key_averages())
