"""Names of ranges and Python functions that the division of time looks for."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profkit.analyze.shared.glob_match import matching

LOADING = ("enumerate(DataLoader)#*", "enumerate(DataPipe)#*", "data")
"""Ranges in which the program waits for the next batch."""

BACKWARD = ("backward", "## backward ##", "##backward##")
"""Ranges of profkit's own marks and of programs, in which autograd works on some thread."""
IN_BACKWARD = ("autograd::engine::evaluate_function*",)

WORKERS_LOAD = ("*#_MultiProcessingDataLoaderIter*",)
STARTS_LOADING = ("*torch/utils/data/dataloader.py(*): __iter__",)
COLLECTING = ("Python GC*", "gc.collect*", "*garbage_collection*")
COLLECTS = ("<built-in function collect>",)
COMPILING = (
    "*compile_inner*",
    "*dynamo_timed*",
    "compile_fx*",
    "*_compile.compile*",
    "*entire_frame_compile*",
    "*Inductor*compile*",
    "*compile_attempt*",
)
RECORDING_GRAPHS = ("CUDAGraphNode.record*",)
COMPILED = ("## Call CompiledFxGraph*",)
"""Ranges of code that Inductor made, whose own kernels on a CPU are no operators."""
IN_COMPILED = (*COMPILED, "Torch-Compiled*", "CompiledFunction*")
"""The same, and what runs it."""

COMMUNICATING = ("gloo:*", "mpi:*", "ucc:*")
_COLLECTIVES = ("all*reduce*", "all*gather*", "reduce*scatter*", "all*to*all*", "broadcast")
CALLING = (
    *("c10d::*", "*::wait_tensor"),
    *(f"*::{before}{name}" for name in _COLLECTIVES for before in ("", "*_")),
)
"""Operators of any library that communicate while the CPU is in them."""
_COMMUNICATES = (
    "*torch/distributed/distributed_c10d.py(*",
    "*torch/distributed/_functional_collectives.py(*",
)
_PICKLES = ("*torch/distributed/distributed_c10d.py(*): *object*",)
"""Those of these that pickle objects, and call the ones that communicate."""

PYTHON_NAMES = (*STARTS_LOADING, *COLLECTS, *_COMMUNICATES)
"""Python functions that are looked for."""
WRAPPERS = (*CALLING, "DistributedDataParallel*", "*c10d_functional*")


def computes(ops: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which rows of operators compute: they neither communicate nor only name."""
    other = matching(ops["name"], (*COMMUNICATING, *WRAPPERS, *LOADING))
    works = (ops["kind"] == "operator").to_numpy() | matching(ops["name"], COMPILED)
    return works & ~other


def communicates(functions: "pd.Series[str]") -> NDArray[np.bool_]:
    """Tell which Python functions communicate, and pickle nothing for that."""
    return matching(functions, _COMMUNICATES) & ~matching(functions, _PICKLES)
