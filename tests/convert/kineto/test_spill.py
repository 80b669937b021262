"""Columns that are kept in files."""

import pickle

import numpy as np
import pytest

from profkit.convert.kineto.spill import Held, Scratch, Spill, held

COLUMNS = {
    "numbers": np.arange(3000),
    "flags": np.array([True, False, True]),
    "small": np.arange(7, dtype=np.int8),
    "fractions": np.array([0.5, np.nan]),
    "equal": np.full(5, 4, dtype=np.int32),
    "none": np.empty(0, dtype=np.int64),
}


@pytest.fixture
def spill():
    """Return a file for columns, in which something is already that ends anywhere."""
    scratch = Scratch()
    spill = Spill(scratch.path)
    spill.keep({"before": np.arange(3, dtype=np.int8)})
    yield spill
    del scratch


@pytest.mark.parametrize("name", COLUMNS)
def test_a_held_column_is_the_column_here_and_in_another_process(spill, name):
    kept = {each: Held(spill, column) for each, column in COLUMNS.items()}[name]
    for found in (kept(), pickle.loads(pickle.dumps(kept))()):  # noqa: S301 - our own
        assert found.dtype == COLUMNS[name].dtype
        np.testing.assert_array_equal(found, COLUMNS[name])
        assert found.flags.aligned
        with pytest.raises(ValueError, match="read-only"):
            found[...] = 1


def test_a_held_property_is_found_once(spill):
    class Holder:
        def __init__(self):
            self.spill, self.found = spill, 0

        @held
        def column(self):
            self.found += 1
            return COLUMNS["numbers"]

    holder = Holder()
    assert (holder.column == holder.column).all()
    assert holder.found == 1
