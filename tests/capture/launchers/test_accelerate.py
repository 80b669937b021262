import sys

import pytest

from profkit.capture.launchers import accelerate
from profkit.capture.launchers.accelerate import Launcher
from profkit.capture.launchers.base import Node

ACCELERATE = [sys.executable, "-m", "accelerate.commands.launch"]
PROGRAM = ("-m", "program", "argument")


def test_ranks_are_started_at_a_free_port_without_asking_for_gpus():
    expected = [
        *ACCELERATE,
        "--num_processes=2",
        "--num_machines=1",
        "--machine_rank=0",
        "--main_process_port=5",
        "--multi_gpu",
        "--module",
        "program",
        "argument",
    ]
    assert Launcher().command(PROGRAM, 2, Node(master_port=5)) == expected


def test_the_file_of_accelerate_decides_how_ranks_compute():
    launcher = Launcher(config_file="fsdp.yaml", mixed_precision="bf16", nnodes=2)
    node = Node(rank=1, master_address="first", master_port=7)
    expected = [
        *ACCELERATE,
        "--num_processes=4",
        "--num_machines=2",
        "--machine_rank=1",
        "--main_process_port=7",
        "--main_process_ip=first",
        "--config_file=fsdp.yaml",
        "--mixed_precision=bf16",
        "--module",
        "program",
        "argument",
    ]
    assert launcher.command(PROGRAM, 4, node) == expected


@pytest.mark.parametrize(
    ("cpu", "has_gpu", "expected"),
    [
        (None, False, {"ACCELERATE_USE_CPU": "true", "A": "1"}),
        (None, True, {"A": "1"}),
        (True, True, {"ACCELERATE_USE_CPU": "true", "A": "1"}),
        (False, False, {"A": "1"}),
    ],
)
def test_accelerate_is_told_of_cpus_where_there_is_no_gpu(
    monkeypatch, tmp_path, cpu, has_gpu, expected
):
    monkeypatch.setattr(accelerate, "_GPUS", (tmp_path if has_gpu else tmp_path / "none",))
    assert Launcher(cpu=cpu, env={"A": "1"}).environment_variables == expected


def test_two_ranks_on_cpu_are_captured_and_know_of_each_other(capture, programs, tmp_path):
    about = programs("accelerator") | {"launcher": {"name": "accelerate", "cpu": True}}
    made = capture("baseline", tmp_path, {}, **about)
    assert made.record["status"] == "ok", made.record
    assert made.printed() == {
        "0 of 2 DistributedType.MULTI_CPU",
        "1 of 2 DistributedType.MULTI_CPU",
    }
    assert len(made.steps(1)) == 8


@pytest.mark.parametrize("flag", ["--use_deepspeed", "--use_fsdp", "--cpu", "--use_fsdp=true"])
def test_a_flag_that_says_how_ranks_work_together_stands_alone(flag):
    words = Launcher(extra=(flag,)).command(PROGRAM, 2, Node(master_port=5))
    assert flag in words
    assert "--multi_gpu" not in words
    assert Launcher(cpu=True, extra=(flag,)).command(PROGRAM, 2, Node()).count("--cpu") <= 1
