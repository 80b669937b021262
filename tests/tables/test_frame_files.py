"""Whose code a file is."""

import pytest

from profkit.tables.frame_files import is_library, is_profkits

SITE = "/usr/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    "file",
    [
        "profkit/capture/harness/rank.py",
        "/home/me/profkit/workloads/automatic/step_hooks.py",
        f"{SITE}/profkit/marks.py",
        "C:\\venv\\Lib\\site-packages\\profkit\\core\\errors.py",
    ],
)
def test_what_starts_and_watches_programs_is_profkits(file):
    assert is_profkits(file)
    assert is_library(file)


@pytest.mark.parametrize(
    "file",
    [
        "profkit/workloads/train.py",
        f"{SITE}/profkit/workloads/models/_gpt_network.py",
        "/home/me/train.py",
        "train.py",
        "my_models/net.py",
        f"{SITE}/my_trainer/model.py",
        "/opt/conda/lib/python3.10/dist-packages/my_trainer.py",
        "/home/me/profkit/train.py",
        "/data/torchy/net.py",
    ],
)
def test_the_users_code_is_no_librarys_wherever_it_lies(file):
    assert not is_profkits(file)
    assert not is_library(file)


@pytest.mark.parametrize(
    "file",
    [
        f"{SITE}/torch/nn/modules/module.py",
        f"{SITE}/transformers/models/llama/modeling_llama.py",
        f"{SITE}/tqdm/std.py",
        "torch/optim/adamw.py",
        "/opt/pytorch/torch/_tensor.py",
        "/usr/lib/python3.11/threading.py",
        "<frozen runpy>",
        "??",
    ],
)
def test_python_and_known_packages_are_libraries(file):
    assert is_library(file)
