import os
from pathlib import Path

import pytest

from profkit.core.atomic_write import write_atomically


def test_content_reaches_the_disk_before_its_name_does(tmp_path, monkeypatch):
    done = []
    replace = Path.replace

    def synced(descriptor):
        done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    def named(path, target):
        done.append(f"-> {target.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    write_atomically(tmp_path / "a.json", b"{}")
    assert done == [f".a.json.{os.getpid()}", "-> a.json", tmp_path.name]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    write_atomically(tmp_path / "a.json", b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device", descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "a.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"old"
