"""Fixtures of the tests that read real traces."""

import pyarrow as pa
import pytest

from profkit.convert import converter
from profkit.convert.base import Raw


@pytest.fixture(scope="session")
def converted():
    """Return a function that reads one trace of torch.profiler into data frames by table."""

    def read(path, rank=0):
        raw = Raw(path=path, label=f"rank{rank}_dp0_tp0_pp0", rank=rank, repeat=0)
        tables = converter("torch_profiler").run(raw, path.parent).tables
        return {name: pa.concat_tables(chunks).to_pandas() for name, chunks in tables.items()}

    return read
