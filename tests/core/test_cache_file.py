import pytest

from profkit.core.cache_file import read_cached, write_cached
from tests.core.test_job_record import DAMAGES, flipped


@pytest.mark.parametrize("change", [flipped, *DAMAGES.values()])
def test_a_damaged_entry_is_none(tmp_path, change):
    entry = tmp_path / "entry"
    write_cached(entry, b'{"steps": 8, "warmup": 1}')
    assert read_cached(entry) == b'{"steps": 8, "warmup": 1}'
    entry.write_bytes(change(entry.read_bytes()))
    assert read_cached(entry) is None
    assert read_cached(tmp_path) is None
