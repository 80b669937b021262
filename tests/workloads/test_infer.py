import torch

from profkit import marks
from profkit.workloads import infer as program
from profkit.workloads.runtime.process import joined
from profkit.workloads.runtime.request import Request


def test_only_data_and_forward_are_marked_and_no_gradient_is_made(monkeypatch):
    seen, modes = [], []

    def marker(name):
        seen.append(name)
        modes.append(torch.is_inference_mode_enabled())
        return marks._SILENT

    monkeypatch.setattr(marks, "_marks", marks._Marks())
    marks.listen(markers=(marker,))
    model = {"name": "c", "family": "cnn", "width": 4}
    with joined(Request(model=model, device="cpu", steps=2)) as process:
        program.infer(process)
    assert seen == ["step#0", "data", "forward", "step#1", "data", "forward"]
    assert all(modes)
