"""Examples of `pageable_copies`."""

from tests.patterns.recorded import copy

PAGEABLE, PINNED = "Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"

FOUND = {"kernels": [copy(0, "HtoD", 90_000, name=PAGEABLE, size_bytes=4096)]}
EXPECTED = ("exposed_copies.HtoD_pageable", 90_000, "pin_memory=True")
PASSED = {
    "pinned memory": {"kernels": [copy(0, "HtoD", 90_000, name=PINNED)]},
    "under 2 % of the step": {"kernels": [copy(0, "HtoD", 900, name=PAGEABLE)]},
}
