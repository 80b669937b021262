"""The reports of ``nsys stats``, under the names of each generation."""

import pytest

from profkit.convert.nsight_systems import export, statistics

# What the versions list, and how: 2022.4 as recorded; 2023.4 after NVIDIA's Post-Collection
# Analysis Guide (docs.nvidia.com/nsight-systems/AnalysisGuide), whose headings are these lines.
# Published listings of `nsys recipe` of 2024 have the same names of four of them.
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
  cuda_gpu_kern_sum[:nvtx-name][:base|:mangled] -- CUDA GPU Kernel Summary
  cuda_gpu_mem_size_sum -- CUDA GPU MemOps Summary (by Size)
  cuda_gpu_mem_time_sum -- CUDA GPU MemOps Summary (by Time)
  nvtx_sum -- NVTX Range Summary
  osrt_sum[:base|:mangled] -- OS Runtime Summary
""",
}


@pytest.mark.parametrize(("version", "generation"), [("2022.4", 1), ("2023.4", 0)])
def test_reports_are_asked_for_by_the_names_of_the_version(version, generation):
    listed = statistics.reports_in(LISTED[version])
    wanted = {names[generation] for names in statistics.REPORTS}
    assert wanted <= listed
    assert not listed & {names[1 - generation] for names in statistics.REPORTS}


def test_the_installed_version_lists_reports_of_one_generation():
    available = statistics.available(export.nsys())
    assert any(
        {names[generation] for names in statistics.REPORTS} <= available for generation in (0, 1)
    )
