"""The record that is left beside a timeline."""

from profkit.core.checksums import Checksum
from profkit.core.job_record import read_job
from profkit.timeline.__main__ import _record
from profkit.timeline.merge_ranks import Timeline


def test_a_record_with_notes_is_read_again_whole(tmp_path):
    path = tmp_path / "torch_profiler.json"
    said = "The clocks were not aligned."
    drawn = Timeline(encoded=[b"{}"], count=1, slices=1, base_ns=0, steps=(5, 6), notes=(said,))
    path.write_bytes(_record(drawn, {}, 2, Checksum(size_bytes=1)))
    made = read_job(path)
    assert not made.has_failed
    assert made.attempt == 2
    assert made.notes == ({"file": "", "text": said},)
