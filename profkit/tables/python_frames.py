"""Frames of Python as recordings name them, ``file.py(line): function``: whose code they are."""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

_LIBRARIES = frozenset({
    "PIL", "SimpleITK", "accelerate", "aiofiles", "aiohttp", "albumentations", "anyio", "asgiref",
    "av", "beartype", "bentoml", "boto3", "botocore", "bottle", "bs4", "celery", "chardet",
    "charset_normalizer", "click", "cloudpickle", "cv2", "decord", "deepspeed", "dill", "django",
    "einops", "faiss", "falcon", "fastapi", "filelock", "flask", "fsspec", "ftfy", "gevent",
    "gradio", "grpc", "gunicorn", "gym", "gymnasium", "h11", "h5py", "httpcore", "httptools",
    "httpx", "huggingface_hub", "hydra", "hypercorn", "ignite", "imageio", "jaxtyping", "jinja2",
    "jiwer", "joblib", "kafka", "librosa", "lightning", "lightning_fabric", "lightning_utilities",
    "litestar", "litserve", "lmdb", "loguru", "matplotlib", "mlflow", "mosec", "msgpack",
    "multidict", "networkx", "nibabel", "nltk", "numba", "numpy", "omegaconf", "onnxruntime",
    "opentelemetry", "opt_einsum", "orjson", "pandas", "pettingzoo", "pika", "plotly", "polars",
    "prometheus_client", "psutil", "pyarrow", "pycocotools", "pydantic", "pydicom", "pygame",
    "pymongo", "pytorch_lightning", "quart", "ray", "redis", "regex", "requests", "rich",
    "rouge_score", "s3fs", "sacrebleu", "safetensors", "sanic", "scipy", "seaborn", "sentencepiece",
    "sentry_sdk", "shapely", "simplejson", "skimage", "sklearn", "soundfile", "spacy", "sqlalchemy",
    "starlette", "streamlit", "structlog", "tensorboard", "tensorboardX", "tifffile", "tokenizers",
    "torchdiffeq", "torchmetrics", "torchsde", "tornado", "tqdm", "triton", "typer", "ujson",
    "urllib3", "uvicorn", "uvloop", "wandb", "webdataset", "websockets", "werkzeug", "yaml", "yarl",
    "zarr", "zmq",
})  # fmt: skip
"""Packages of others that programs call, but for those that hold models: these are often copied and
changed, and their lines say which layer it was."""
_AROUND_MODELS = re.compile(
    r"(?:.*/(?:site|dist)-packages/)?(?:transformers/(?!models/)|diffusers/(?:utils|hooks|loaders)/"
    r"|trl/trainer/|(?:torchvision|torchaudio)/(?:datasets|transforms)/|torch_geometric/(?!nn/)"
    r"|timm/(?!models/|layers/)|sentence_transformers/(?!models/)|stable_baselines3/(?!common/torch)"
    r"|fastai/(?!layers|vision/models|text/models)|(?:IPython|ipykernel|optuna|skorch)/)"
)
"""What packages that hold models have around these: trainers, generation, data."""
_SITE = re.compile(r".*/(?:site|dist)-packages/")
_PYTHON = re.compile(r"<|.*/lib/python3[^/]*/|.*: <(?:genexpr|\w+comp|lambda)>$")
_GENERATED = re.compile(r".*/torchinductor_[^/]*/|.*/c[a-z2-7]{51}\.py\(")
"""Files of ``torch.compile``, in its own cache or in one that the program names."""
_BUILT_IN = re.compile(r"<built-in (?:function|method) (\w+)")
_FUNCTION = re.compile(r"(?:.*/lib/python3[^/]*/)?/?(.*)\.py\(\d+\): (.*)")
_TOP = re.compile(r"(?:.*/)?(torch|profkit)(?:/|\.py\()|([^/(]*?)(?:/|\.py\()")

_CALLS_AT_ONCE = 1 << 18

SLEEPS = (
    r"<built-in (?:function|method) (?:sleep|select|poll|recv\w*|accept|connect|wait[34p]\w*)\b"
    r"|(?:^|/)multiprocessing/connection\.py\(\d+\): _recv$"
)
"""Functions that wait, with no need of a core, for time, network or processes."""

ACQUIRES = r"<built-in (?:function|method) (?:acquire|__enter__)\b"
"""Functions that wait for a lock; a ``with`` calls ``__enter__``."""


_WRAPPER = re.compile(
    r": (?:_?wrapper|wrapped|wrapped_func|inner|inner_f|decorated|decorate_context|new_func)$"
)
"""Functions that decorators put around others."""

_WAITS = re.compile(
    r"$|<built-in \w+ (?:acquire|__enter__|sleep|select|poll|read|recv\w*|_?accept|get|wait\w*)\b"
)


def waits_in(frame: str) -> bool:
    """Say whether a thread whose innermost frame this is waits for anything, or has ended."""
    return _WAITS.match(frame) is not None


@cache
def is_foreign(frame: str) -> bool:
    """Say whether a frame belongs to Python, PyTorch or profkit, and not to the program.

    Nor is code that ``torch.compile`` wrote, and a part of a line that has no name: the function
    around it is the program's.
    """
    if _AROUND_MODELS.match(frame):
        return True
    if _SITE.match(frame):
        # A program may be installed; what it calls of others cannot be told apart by path.
        top = re.search(r"-packages/([^/(]*?)(?:/|\.py\()", frame)
        return top is not None and top[1] in {"torch", "profkit", *_LIBRARIES}
    if _PYTHON.match(frame) or _GENERATED.match(frame):
        return True
    # Paths are shortened to what a program imports: a module of Python's own has its name alone.
    top = _TOP.match(frame)
    if top is None:
        return False
    is_of_python = top[2] in sys.stdlib_module_names or top[2] == "typing_extensions"
    is_of_others = is_of_python or (top[2] in _LIBRARIES and "/" in frame)
    return bool(top[1]) or is_of_others


def own_line(stack: object) -> str:
    """Return the innermost frame of a ``stack`` of `cpu_ops` that is the program's, or ""."""
    # Modules stand between the frames, and have no line.
    frames = [frame for frame in str(stack).split(";") if "(" in frame and not is_foreign(frame)]
    return frames[-1] if frames else ""


def own_lines(
    python_calls: "pd.DataFrame", chosen: NDArray[np.bool_] | None = None
) -> NDArray[np.object_]:
    """Return for each of the calls of one rank the frame of the program that it is, or lies in.

    It is "" where there is none. With `chosen`, of these calls alone.
    """
    names, code = _names(python_calls)
    return np.concatenate([names[code[row]] for row, _ in _climbed(python_calls, chosen)])


def called_functions(python_calls: "pd.DataFrame") -> NDArray[np.object_]:
    """Return for each of the calls of one rank what the program called that it is, or lies in.

    Modules and functions have the names that the program knows, such as ``subprocess.run``. It is
    "" where a call is the program's own.
    """
    names, code = _names(python_calls)
    known = np.array([known_as(name) for name in names.tolist()], dtype=object)
    return np.concatenate([known[code[called]] for _, called in _climbed(python_calls)])


def _names(python_calls: "pd.DataFrame") -> tuple[NDArray[np.object_], NDArray[np.integer[Any]]]:
    """Return names, "" at the end, and which of them each call has; that of row -1 is the last."""
    names = python_calls["name"].astype("category").cat
    every = [*map(str, names.categories), ""]
    return np.array(every, dtype=object), np.append(names.codes.to_numpy(), np.int32(-1))


def known_as(frame: str) -> str:
    """Return ``module.function`` of a frame, of what is built in the function alone."""
    found = _BUILT_IN.match(frame) or _FUNCTION.match(frame)
    if not found:
        return frame
    return ".".join(filter(None, found.groups())).replace("/__init__", "").replace("/", ".")


def is_wrapper(frame: str) -> bool:
    """Say whether a function that a decorator puts around another one has this frame."""
    return _WRAPPER.search(frame) is not None


def _climbed(
    python_calls: "pd.DataFrame", chosen: NDArray[np.bool_] | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the rows of the program's frame around each call and of what that called, -1: none.

    What that called is no function that a decorator puts around another one, if that was recorded.
    Some calls at a time: the rows of all of them take more memory than the table.
    """
    names = python_calls["name"].astype("category").cat
    wraps = np.array([*map(is_wrapper, map(str, names.categories)), False])[names.codes.to_numpy()]
    skipped = np.array([*map(is_foreign, map(str, names.categories)), True])[names.codes.to_numpy()]
    skipped |= (python_calls["kind"] == "module").to_numpy()
    above = _callers(python_calls)
    every = np.arange(len(skipped)) if chosen is None else np.flatnonzero(chosen)
    for first in range(0, max(len(every), 1), _CALLS_AT_ONCE):
        row = every[first : first + _CALLS_AT_ONCE]
        called = np.full(len(row), -1)
        climbing = np.arange(len(row))
        while len(climbing := climbing[skipped[row[climbing]]]):
            passed = wraps[row[climbing]] & (called[climbing] >= 0)
            called[climbing] = np.where(passed, called[climbing], row[climbing])
            row[climbing] = above(row[climbing])
            climbing = climbing[row[climbing] >= 0]
        yield row, called


def _callers(python_calls: "pd.DataFrame") -> Callable[[NDArray[np.int64]], NDArray[np.int64]]:
    """Return what gives the rows of the callers of some calls, -1 for none."""
    call, caller = (python_calls[name].to_numpy(np.int64) for name in ("call", "caller"))
    is_sorted = bool((call[1:] > call[:-1]).all())
    order = None if is_sorted else np.argsort(call, kind="stable")

    def above(rows: NDArray[np.int64]) -> NDArray[np.int64]:
        wanted = caller[rows]
        at = np.minimum(np.searchsorted(call, wanted, sorter=order), len(call) - 1)
        at = at if order is None else order[at]
        return np.where((call[at] == wanted) & (wanted >= 0), at, -1)

    return above
