import torch

from profkit.capture.harness import facts


def test_the_machine_is_described():
    machine = facts.machine()
    assert machine["memory_bytes"] > 1 << 28
    assert machine["cpu"]
    assert machine["cuda"] == (torch.version.cuda or "")


def test_an_answer_of_nvidia_smi_becomes_gpus():
    answer = "NVIDIA H100, 81559, GPU-1, 570.1\nNVIDIA H100 MIG 1g.10gb, [N/A], MIG-2, 570.1\n"
    assert facts.parsed_gpus(answer) == [
        {"name": "NVIDIA H100", "memory_bytes": 81559 << 20, "uuid": "GPU-1", "driver": "570.1"},
        {"name": "NVIDIA H100 MIG 1g.10gb", "memory_bytes": -1, "uuid": "MIG-2", "driver": "570.1"},
    ]


def test_versions_name_only_what_is_installed():
    assert {"profkit", "torch"} <= set(facts.versions())
    assert all(facts.versions().values())
