"""Copies from pageable memory."""

import pytest

from profkit.patterns.pageable_copies import match
from profkit.testing import found, span


def copied(name, charged_ns):
    return [
        span(0, 100_000, name=name, kind="copy", copy_kind="HtoD", size_bytes=4096,
             charged_ns=charged_ns),
    ]  # fmt: skip


def test_exposed_pageable_copies_of_inputs_are_found():
    made = found(match, kernels=copied("Memcpy HtoD (Pageable -> Device)", 90_000))
    assert [(one.cause, one.gain_ns) for one in made] == [("exposed_copies.HtoD_pageable", 90_000)]
    assert "pin_memory=True" in made[0].advice
    assert made[0].evidence == {"copies_per_step": 1.0, "size_bytes_per_step": 4096}


@pytest.mark.parametrize(
    ("name", "charged_ns"),
    [("Memcpy HtoD (Pinned -> Device)", 90_000), ("Memcpy HtoD (Pageable -> Device)", 900)],
    ids=["pinned memory", "under 2 % of the step"],
)
def test_others_are_not(name, charged_ns):
    assert found(match, kernels=copied(name, charged_ns)) == ()
