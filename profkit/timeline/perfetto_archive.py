"""One trace for each rank in a tar, with the manifest by which Perfetto puts them on one clock.

Format: "Trace manifest format", https://perfetto.dev/docs/reference/perfetto-manifest, version 1.
"""

import io
import tarfile
from collections.abc import Mapping
from typing import Any

import msgspec

from profkit.timeline.merge_ranks import Timeline

MANIFEST = "perfetto_manifest.json"


def archive(ranks: Mapping[int, Timeline], offsets: Mapping[int, int], run: str) -> bytes:
    """Return the tar: `ranks` on their own clocks, which are `offsets` ns ahead of the common one.

    Chrome's JSON states no clock, so each file is pinned to the first one's.
    """
    paths = {rank: f"rank{rank}.json" for rank in ranks}
    first = paths[min(ranks)]
    files: list[dict[str, Any]] = [
        {"path": path, "machine": {"name": f"rank {rank}"}} for rank, path in paths.items()
    ]
    for rank, file in zip(paths, files, strict=True):
        if file["path"] != first:
            file["clocks"] = {"sync_to": {"file": first}, "offset_ns": -offsets.get(rank, 0)}
    attributes = {"profkit.run": run}
    attributes |= {f"profkit.note_{i}": note for i, note in enumerate(_notes(ranks), start=1)}
    manifest = {"version": 1, "files": files, "attributes": attributes}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        _add(tar, MANIFEST, msgspec.json.encode({"perfetto_manifest": manifest}))
        for rank, path in paths.items():
            _add(tar, path, b"".join(ranks[rank].document()))
    return content.getvalue()


def _notes(ranks: Mapping[int, Timeline]) -> list[str]:
    return list(dict.fromkeys(note for rank in ranks.values() for note in rank.notes))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    # Without times and users, equal data are equal files.
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))
