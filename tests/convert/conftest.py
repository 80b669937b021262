"""Reports of Nsight Systems for the tests of its converter."""

import pytest

from tests.convert.nsys import reports


@pytest.fixture
def report(tmp_path):
    """Return a function that writes a report as SQLite, with the rows that it is given."""

    def written(*, name="rank0_dp0_tp0_pp0.x.nsys-rep", **rows):
        return reports.written(tmp_path / name, **rows)

    return written
