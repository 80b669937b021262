"""The raw files of captures: which captures give rows, and which files are theirs."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profkit.convert import converter, has_converter
from profkit.convert._gone_files import gone_files
from profkit.convert._harness_tables import rank_of
from profkit.convert.base import Raw
from profkit.core.errors import InputError
from profkit.core.rank_spans import RankSpan


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A remark on one file, for readers of the tables."""

    file: str
    text: str


def good_captures(
    captures: Iterable[Path], *, after_oom: bool
) -> tuple[dict[Path, dict[str, Any]], list[Note]]:
    """Return the record of each capture that gives rows, and a note on each that failed."""
    good, notes = {}, []
    for folder in captures:
        record = _record(folder / "capture.json")
        if record["status"] == "ok":
            good[folder] = record
            continue
        if after_oom and record["status"] == "oom":
            good[folder] = record
            text = f"The capture ran out of memory: {record.get('reason', '')}"
        else:
            text = f"The capture gives no rows: {record['status']}: {record.get('reason', '')}"
        notes.append(Note(file=f"{folder.name}/capture.json", text=text))
    return good, notes


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
        if {"status", "repeat", "ranks"} <= set(record):
            return dict(record)
    except FileNotFoundError:
        raise InputError(
            f"{path}: missing", hint="--captures takes the folders that `profkit capture` left"
        ) from None
    except (ValueError, TypeError):
        pass
    raise InputError(f"{path}: not the record of a capture", hint="capture or import again")


def raw_files(
    tool: str, good: Mapping[Path, dict[str, Any]], ranks: RankSpan, notes: list[Note]
) -> Iterator[Raw]:
    """Yield the files of `ranks` of each capture by rank and name; note each that has none."""
    if not has_converter(tool):
        return
    pattern = converter(tool).pattern
    for folder, record in good.items():
        found = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
        found += gone_files(folder)
        # Ranks that the tool was not asked to record cannot miss a file.
        for label in record.get("profiled", record["ranks"]):
            if rank_of(label) not in ranks:
                continue
            own = [path for path in found if path.name.startswith(f"{label}.")]
            for path in own:
                yield Raw(
                    path=path,
                    label=label,
                    rank=rank_of(label),
                    repeat=record["repeat"],
                    settings=record.get("settings", {}),
                )
            if not own:
                text = f"No file of {label} matches {pattern}: this rank gives no rows."
                notes.append(Note(file=f"{folder.name}/capture.json", text=text))
