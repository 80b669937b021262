"""Frames of Python: whose code they are, and the program's own line of each call."""

import numpy as np
import pytest

from profkit.tables.python_frames import called_functions, is_foreign, own_lines
from profkit.testing import frame, span


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("train.py(3): main", False),
        ("trainer/queue.py(3): put", False),
        ("train.py(3): <module>", False),
        ("train.py(3): <listcomp>", True),
        ("/venv/lib/python3.11/site-packages/mmseg/apis.py(3): train", False),
        ("/venv/lib/python3.11/site-packages/torch/nn/functional.py(3): relu", True),
        ("torch/nn/modules/module.py(1): _call_impl", True),
        ("numpy/linalg/_linalg.py(1851): svd", True),
        ("pandas/core/indexing.py(1191): __getitem__", True),
        ("/venv/lib/python3.11/site-packages/PIL/Image.py(2): open", True),
        ("/venv/lib/python3.11/site-packages/cv2.py(2): imread", True),
        ("pandas.py(3): main", False),
        ("transformers/models/llama/modeling_llama.py(3): forward", False),
        ("transformers/trainer.py(2172): compute_loss", True),
        ("torch_geometric/utils/convert.py(210): from_networkx", True),
        ("torch_geometric/nn/conv/gcn_conv.py(241): forward", False),
        ("timm/data/loader.py(130): __iter__", True),
        ("timm/models/resnet.py(553): forward", False),
        ("stable_baselines3/ppo/ppo.py(203): train", True),
        ("optuna/study/_optimize.py(201): _run_trial", True),
        ("/venv/lib/python3.11/site-packages/transformers/generation/utils.py(3): _sample", True),
        ("/venv/lib/python3.11/site-packages/transformers/models/gpt2/x.py(3): forward", False),
        ("diffusers/utils/peft_utils.py(292): wrapper", True),
        ("diffusers/models/unets/unet_2d.py(3): forward", False),
        ("lightning/pytorch/core/module.py(393): log", True),
        ("copy.py(153): deepcopy", True),
        ("json/encoder.py(3): encode", True),
        ("/usr/lib/python3.12/json/encoder.py(3): encode", True),
        ("<built-in method sum>", True),
        ("/cache/torchinductor_me/ov/cov463.py(2533): call", True),
        (f"/cache/inductor/ov/c{'a2' * 25}b.py(2533): call", True),
    ],
)
def test_frames_of_python_and_pytorch_are_foreign(label, expected):
    assert is_foreign(label) is expected


@pytest.mark.parametrize(
    ("inner", "known_as"),
    [
        (["<built-in function sleep>"], "sleep"),
        (["subprocess.py(548): run", "<built-in method poll>"], "subprocess.run"),
        (["/usr/lib/python3.11/json/encoder.py(3): encode"], "json.encoder.encode"),
        ([], ""),
    ],
)
def test_what_the_program_called_has_the_name_that_it_knows(inner, known_as):
    calls = [
        span(0, 9, call=number, caller=number - 1, name=name, kind="function")
        for number, name in enumerate(["train.py(3): main", *inner])
    ]
    assert called_functions(frame("python_calls", calls)).tolist()[-1] == known_as


def test_what_a_decorator_puts_around_a_function_is_not_what_is_called():
    names = ["train.py(3): main", "sklearn/utils/_param.py(9): wrapper", "sklearn/m.py(1): score"]
    calls = [
        span(0, 9, call=number, caller=number - 1, name=name, kind="function")
        for number, name in enumerate(names)
    ]
    assert called_functions(frame("python_calls", calls)).tolist()[-1] == "sklearn.m.score"
    alone = called_functions(frame("python_calls", calls[:2])).tolist()
    assert alone == ["", "sklearn.utils._param.wrapper"]


def test_a_call_belongs_to_the_innermost_line_of_the_program_around_it():
    names = ["train.py(3): main", "copy.py(1): deepcopy", "torch/x.py(1): f", "torch/x.py(2): g"]
    callers = [-1, 0, 1, -1]
    calls = [
        span(0, 9, call=number, caller=caller, name=name, kind="function")
        for number, (name, caller) in enumerate(zip(names, callers, strict=True))
    ]
    assert own_lines(frame("python_calls", calls)).tolist() == [names[0]] * 3 + [""]
    chosen = np.array([False, True, False, True])
    assert own_lines(frame("python_calls", calls), chosen).tolist() == [names[0], ""]
    assert own_lines(frame("python_calls")).tolist() == []
