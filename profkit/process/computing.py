"""Environment variables for the libraries of jobs that compute, which read them when loaded."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLES = {
    # Each has one core to itself; threads of NumPy's BLAS for the others spin for 0.1 s.
    "OPENBLAS_NUM_THREADS": "1",
    # Arrow's own pool keeps as much again as is in use, which no other library can use.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}


def prepare() -> None:
    """Set the variables in this process, which starts no workload."""
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)


@contextmanager
def prepared() -> Iterator[None]:
    """Set the variables while libraries are loaded, and no longer: workloads have their own."""
    added = {name: value for name, value in _VARIABLES.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
