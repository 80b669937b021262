"""Examples of `layout_changes`."""

from tests.patterns.recorded import kernel

FOUND = {"kernels": [kernel(0, "void cudnn::ops::nchwToNhwcKernel<float>", 90_000)]}
EXPECTED = ("gpu_computing", 90_000, "torch.channels_last")
PASSED = {"a convolution in NHWC": {"kernels": [kernel(0, "xmma_fprop_nhwc", 90_000)]}}
