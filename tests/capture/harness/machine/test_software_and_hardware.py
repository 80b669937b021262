import torch

from profkit.capture import tool
from profkit.capture.harness.machine import nvml, software_and_hardware
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


def test_versions_name_only_what_is_installed():
    versions = software_and_hardware.versions(tool("torch_profiler"))
    assert {"profkit", "torch"} <= set(versions)
    assert all(versions.values())


def test_the_version_of_the_tool_is_among_them(monkeypatch):
    kind = tool("py_spy")
    monkeypatch.setattr(kind, "version", classmethod(lambda _: "0.4.1"))
    assert software_and_hardware.versions(kind)["py-spy"] == "0.4.1"


def test_packages_are_all_that_is_installed():
    assert {"pydantic", "pytest", "torch"} <= set(software_and_hardware.packages())
