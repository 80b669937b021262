"""memray's files as stacks of what was live at the peak."""
# ruff: noqa: S314 - what is parsed was written by the test

import time
from xml.etree import ElementTree as ET

import memray
import pytest

from profkit.convert.base import Raw
from profkit.convert.host_memory import convert
from profkit.core.errors import InputError


def raw(path):
    return Raw(path=path, label="rank1_dp1_tp0_pp0", rank=1, repeat=2)


def hog(size):
    return bytearray(size)


@pytest.mark.parametrize("kind", memray.FileFormat)
def test_what_was_live_at_the_peak_is_what_memray_says(tmp_path, kind):
    path = tmp_path / "rank1_dp1_tp0_pp0.memray.bin"
    with memray.Tracker(
        destination=memray.FileDestination(path), file_format=kind, memory_interval_ms=10
    ):
        kept = [hog(5_000_000) for _ in range(3)]
        time.sleep(0.05)
        del kept
        hog(1_000_000)
    converted = convert.run(raw(path), tmp_path)
    rows = converted.tables["host_stacks"].to_pandas()
    assert rows["size_bytes"].sum() == memray.FileReader(path).metadata.peak_memory
    hogged = rows[rows["stack"].astype(str).str.contains("hog (", regex=False)]
    assert hogged["size_bytes"].sum() == pytest.approx(15_000_000, abs=100)
    assert hogged["allocations"].sum() == 3
    heap = converted.tables["samples"].to_pandas()
    most = heap.loc[(heap["metric"] == "heap_bytes").to_numpy(), "value"].max()
    assert 15_000_000 <= most < 40_000_000
    assert abs(heap["time_ns"].max() - time.time_ns()) < 60 * 10**9
    ET.parse(tmp_path / "rank1_dp1_tp0_pp0.rep2.flamegraph.svg")


@pytest.mark.parametrize("content", [b"", b"memray\x00", b"x" * 5000])
def test_what_memray_did_not_write_is_named(tmp_path, content):
    path = tmp_path / "rank1.memray.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not what memray writes"):
        convert.run(raw(path), tmp_path)
