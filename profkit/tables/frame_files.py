"""Whose code a frame of a stack is: profkit's own, a library's, or the program's."""

import re

_OWN = re.compile(
    r"(?:^|/)profkit/"
    r"(?:capture/|core/|process/|cli/|marks\.py|workloads/(?:script\.py|automatic/|runtime/))"
)
"""The other workloads are programs that profkit brings along."""

_INSTALLED = re.compile(r"(?:site|dist)-packages/([^/]+?)(?:\.py)?(?:/|$)")
_OF_PYTHON = re.compile(r"^<|^\?\?|/lib/python3(?!.*-packages/)")
_TORCH = re.compile(r"(?:^|/)torch/")

_LIBRARIES = {
    *("torch", "torchgen", "functorch", "torchvision", "torchaudio", "torch_xla", "torchao"),
    *("triton", "numpy", "scipy", "pandas", "pyarrow", "sklearn", "PIL", "cv2", "einops"),
    *("deepspeed", "accelerate", "lightning", "lightning_fabric", "pytorch_lightning", "apex"),
    *("transformers", "diffusers", "datasets", "tokenizers", "safetensors", "huggingface_hub"),
    *("transformer_engine", "xformers", "flash_attn", "bitsandbytes", "peft", "timm", "ray"),
    *("tensorboard", "wandb", "mlflow", "tqdm", "rich", "hydra", "omegaconf", "yaml", "fsspec"),
    *("IPython", "ipykernel", "pytest", "_pytest", "pluggy", "memray", "pyinstrument", "nvtx"),
    *("cupy", "jax", "numba", "msgspec", "pydantic", "filelock", "requests", "urllib3"),
}
"""Packages of others: what else is installed beside them may well be the user's program."""

_OF_PROGRAMS = {"datasets"}
"""Those of `_LIBRARIES` whose name programs give to their own folders as well."""


def is_profkits(file: str) -> bool:
    """Say whether `file` is of profkit itself, as it starts and watches a program."""
    return _OWN.search(file.replace("\\", "/")) is not None


def is_library(file: str) -> bool:
    """Say whether `file` is of Python, of a known library or of profkit, and not of the program."""
    return library(file) != ""


def library(file: str) -> str:
    """Return the package that `file` belongs to, or Python; "" where it is of the program."""
    path = file.replace("\\", "/")
    if is_profkits(path):
        return "profkit"
    if _TORCH.search(path):
        return "torch"
    installed = _INSTALLED.search(path)
    if installed is not None and installed[1] in _LIBRARIES:
        return installed[1]
    return "Python" if _OF_PYTHON.search(path) else ""


def imported_library(file: str) -> str:
    """Return the package of a path that begins at the package; "" where it is of the program."""
    package = file.replace("\\", "/").partition("/")[0].removesuffix(".py")
    return library(file) or (package if package in _LIBRARIES - _OF_PROGRAMS else "")
