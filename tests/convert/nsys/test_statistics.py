"""The reports of ``nsys stats``, under the names of each generation."""

import pytest

from profkit.convert.nsys import export, statistics

# What `nsys stats --help-reports` of 2022.4.2 and of 2023.4.4 prints, a part of it.
LISTED = {
    "2022.4": """
  gpukernsum[:base|:mangled] -- CUDA GPU Kernel Summary
  cudaapisum -- CUDA API Summary
  gpumemsizesum -- GPU Memory Operations Summary (by Size)
  gpumemtimesum -- GPU Memory Operations Summary (by Time)
  nvtxppsum -- NVTX Push/Pop Range Summary
  nvtxsum -- NVTX Range Summary
  osrtsum -- OS Runtime Summary
""",
    "2023.4": """
  cuda_api_gpu_sum[:nvtx-name][:base|:mangled] -- CUDA Summary (API/Kernels/MemOps)
  cuda_api_sum -- CUDA API Summary
  cuda_gpu_kern_gb_sum[:nvtx-name][:base|:mangled] -- CUDA GPU Kernel/Grid/Block Summary
  cuda_gpu_kern_sum[:nvtx-name][:base|:mangled] -- CUDA GPU Kernel Summary
  cuda_gpu_mem_size_sum -- CUDA GPU MemOps Summary (by Size)
  cuda_gpu_mem_time_sum -- CUDA GPU MemOps Summary (by Time)
  mpi_event_trace -- MPI Event Trace
  network_congestion[:ticks_threshold=<ticks_per_ms>] -- Network Devices Congestion
  nvtx_pushpop_sum -- NVTX Push/Pop Range Summary
  nvtx_sum -- NVTX Range Summary
  osrt_sum -- OS Runtime Summary
  um_sum[:rows=<limit>] -- Unified Memory Analysis Summary
""",
}


@pytest.mark.parametrize(("version", "generation"), [("2022.4", 1), ("2023.4", 0)])
def test_reports_are_asked_for_by_the_names_of_the_version(version, generation):
    listed = statistics.reports_in(LISTED[version])
    wanted = {names[generation] for names in statistics.REPORTS}
    assert wanted <= listed
    assert not listed & {names[1 - generation] for names in statistics.REPORTS}


def test_reports_that_are_asked_for_are_left_as_text(tmp_path, monkeypatch):
    commands = []

    def run(command, _timeout_s):
        commands.append(command)
        (tmp_path / "r.rep0_gpukernsum_base.txt").touch()
        return "ERROR: Report 'nosuch' could not be found."

    monkeypatch.setattr(statistics, "nsys", lambda: "nsys")
    monkeypatch.setattr(statistics, "version", lambda _binary: "2022.4")
    monkeypatch.setattr(
        statistics, "available", lambda _binary: statistics.reports_in(LISTED["2022.4"])
    )
    monkeypatch.setattr(statistics, "run", run)
    asked = ("cuda_gpu_kern_sum:base", "nosuch")
    (lost,) = statistics.write_text(asked, tmp_path / "r.sqlite", tmp_path / "r.rep0")
    assert lost == (
        "nsys 2022.4 made no table of nosuch: ERROR: Report 'nosuch' could not be found."
    )
    (command,) = commands
    assert command[2:6] == [
        "--report=gpukernsum:base",
        "--report=nosuch",
        "--format=table",
        f"--output={tmp_path}/r.rep0",
    ]
    assert statistics.write_text((), tmp_path / "r.sqlite", tmp_path / "r.rep0") == []
    assert len(commands) == 1


def test_the_installed_version_lists_reports_of_one_generation():
    available = statistics.available(export.nsys())
    assert any(
        {names[generation] for names in statistics.REPORTS} <= available for generation in (0, 1)
    )
