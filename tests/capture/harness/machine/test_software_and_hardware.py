import json
from importlib.metadata import version

import torch

from profkit.capture import tool
from profkit.capture.harness.machine import nvml, software_and_hardware
from profkit.capture.launchers.command import Launcher as CommandLauncher
from profkit.capture.launchers.python import Launcher as PythonLauncher
from tests.capture.harness.machine.test_nvml import DEVICE, FakeNvml


def test_the_machine_is_described():
    machine = software_and_hardware.machine()
    assert machine["memory_bytes"] > 1 << 28
    assert machine["cpu"]
    assert machine["cuda"] == (torch.version.cuda or "")


def test_gpus_are_described_by_the_driver(monkeypatch):
    opened = nvml.opened
    monkeypatch.setattr(nvml, "opened", lambda: opened(FakeNvml()))
    machine = software_and_hardware.machine()
    assert machine["gpus"] == [DEVICE]
    assert (machine["driver"], machine["cuda_driver"]) == ("570.86.15", "12.8")


def test_shared_memory_has_a_size_where_the_system_has_it(tmp_path):
    assert software_and_hardware.shared_memory_bytes(tmp_path) > 0
    assert software_and_hardware.shared_memory_bytes(tmp_path / "none") == -1


def test_a_record_has_what_the_program_ran_with_and_the_version_of_the_tool(tmp_path, monkeypatch):
    monkeypatch.setattr(tool("py_spy"), "version", classmethod(lambda _: "0.4.1"))
    packages = {"torch": "2.9.1", "nvidia-nccl-cu12": "2.27.5", "pytorch-memlab": "1"}
    ran = {"python": "3.12.4", "packages": packages, "builds": {"cuda": "12.8"}}
    for name, of_tool in {"py_spy": {"py-spy": "0.4.1"}, "memlab": {"pytorch_memlab": "1"}}.items():
        (tmp_path / "rank0.software.json").write_text(json.dumps(ran))
        record = software_and_hardware.described(tool(name)(), tmp_path, CommandLauncher())
        own = {"profkit": version("profkit")}
        assert record["versions"] == own | {"torch": "2.9.1"} | of_tool
        assert record["packages"] == packages
        of_program = [record["machine"][name] for name in ("python", "cuda", "nccl")]
        assert of_program == ["3.12.4", "12.8", "2.27.5"]
        assert not [*tmp_path.iterdir()]


def test_of_a_command_that_has_said_nothing_no_torch_is_named(tmp_path):
    of_command = software_and_hardware.described(tool("memlab")(), tmp_path, CommandLauncher())
    assert of_command["versions"] == {"profkit": version("profkit")}
    assert not {"python", "cuda"} & of_command["machine"].keys()
    of_ranks = software_and_hardware.described(tool("memlab")(), tmp_path, PythonLauncher())
    assert of_ranks["versions"]["torch"] == torch.__version__
