import cProfile
import json
import marshal

import pytest

from profkit.convert._other_formats import refused

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
OF_CPROFILE = {("/usr/lib/python3.11/re/_parser.py", 969, "parse"): (1, 1, 0.1, 0.2, {})}


@pytest.mark.parametrize(
    ("head", "what", "to_do"),
    [
        (b"PK\x03\x04rest", "zip", "unzip"),
        (b"BZh91AY", "bzip2", "bunzip2"),
        (json.dumps({"$schema": SCHEMA, "profiles": []}).encode(), "speedscope", "+tool=py_spy"),
        (b'\xef\xbb\xbf{\n  "$schema": "' + SCHEMA.encode(), "speedscope", "+tool=py_spy"),
        (b"<module> (a.py:19);step (a.py:13) 36\n", "stacks for a flame graph", "+tool=py_spy"),
        (b'<?xml version="1.0"?><!DOCTYPE svg PUBLIC "x"><svg version', "picture", "+tool=py_spy"),
        (b"<svg width=", "picture", "+tool=py_spy"),
        (b'{"start_time": 1.5,"duration": 2,"sample_count": 1', "pyinstrument", "+tool=pyinst"),
        (b"\n  _     ._   __/__   _ _  _  _ _/_   Recorded", "pyinstrument", "+tool=pyinst"),
        (b'{\n    "alloc_samples": 17,', "Scalene", "+tool=py_spy"),
        (marshal.dumps(OF_CPROFILE), "cProfile", "+tool=pyinstrument"),
        (marshal.dumps(OF_CPROFILE, 2), "cProfile", "+tool=pyinstrument"),
        (b'\x04"M\x18@\xc0Xf\x00\x00\xf9\x0ememray\x00', "memray", "+tool=host_memory"),
        (b"memray\x00\x0a", "memray", "+tool=host_memory"),
        (b"[[-1, 1, 37888, 7], [", "memory timeline", "_dump_snapshot"),
        (b'"Time (%)","Total Time (ns)"', "nsys stats", ".nsys-rep"),
        (b"<!DOCTYPE html>\n<html>", "web page", "recording"),
    ],
)
def test_what_other_programs_wrote_is_named_with_what_to_do(head, what, to_do):
    error = str(refused("a file", head))
    assert error.startswith("a file: ")
    assert what in error
    assert to_do in error


@pytest.mark.parametrize(
    "head",
    [
        b'{"schemaVersion": 1, "traceEvents": [{"name": "speedscope.app/file-format-schema"}]}',
        b'{"traceEvents": [{"ph": "X", "args": {"alloc_samples": 1, "sample_count": 2}}]}',
        b'[{"ph": "X", "name": "a"}]',
        b"NVR\0\x02",
        b"SQLite format 3\0",
        b"\x80\x04\x95",
        b"epoch,loss\n1,0.5\n",
        b"",
    ],
)
def test_what_converters_read_is_not_refused(head):
    assert refused("a file", head) is None


def test_a_profile_that_cprofile_writes_now_is_known(tmp_path):
    path = tmp_path / "of.prof"
    profile = cProfile.Profile()
    profile.runcall(sorted, [3, 1])
    profile.dump_stats(path)
    assert "cProfile" in str(refused(path, path.read_bytes()))
