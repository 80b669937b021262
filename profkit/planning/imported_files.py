"""Files that a user brings along: which can be read, are the same, or belong to one run."""

import os
import re
import stat
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from profkit.convert.base import Converter, Importable, Raw, Recorded, Rows
from profkit.core.capture_record import read_capture, untouched_files
from profkit.core.errors import InputError
from profkit.core.formatting import counted

_TOGETHER_NS, _AT_ONCE_NS = 60_000_000_000, 1_000_000_000
"""Ranks of one run record at the same time; the clocks of their hosts differ by less than this, and
on one host they begin and end at about the same time."""

_DIGITS = re.compile(r"\d+")
_SMALL_BYTES = 64 << 10
"""A larger file holds something, or takes too long to be read twice."""
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def unusable(path: Path) -> str:
    """Return what `path` is if it is no file that can be read, otherwise ""."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link to a file that is not there" if path.is_symlink() else "not there"
    except (OSError, RuntimeError) as error:
        return f"not a file that can be opened ({getattr(error, 'strerror', None) or error})"
    if not stat.S_ISREG(mode):
        return next((what for is_kind, what in _KINDS if is_kind(mode)), "not a file")
    return "" if os.access(path, os.R_OK) else "a file that you may not read"


def links(files: Iterable[Path]) -> dict[Path, Path]:
    """Return those of `files` that are another one again, by a link, with that one."""
    first: dict[tuple[int, int], Path] = {}
    found: dict[Path, Path] = {}
    for file in files:
        about = file.stat()
        original = first.setdefault((about.st_dev, about.st_ino), file)
        if original is not file:
            found[file] = original
    return found


def equal_content(hashes: Mapping[Path, str]) -> list[str]:
    """Return a sentence on each file whose content, by its hash, another one has as well."""
    first: dict[str, Path] = {}
    pairs = ((file, first.setdefault(digest, file)) for file, digest in hashes.items())
    return [
        f"{file.name}: has the same content as {original.name}, and counts as a rank of its own"
        for file, original in pairs
        if original is not file
    ]


def refuse_empty(files: Iterable[Path], converter: Converter) -> None:
    """Raise `InputError` if all of `files` are small, and none holds anything to report."""
    refusals = []
    for file in files:
        if file.stat().st_size > _SMALL_BYTES:
            return
        try:
            if _holds_rows(file, converter):
                return
            refusals.append(InputError(f"{file}: nothing was recorded in it", hint=_RECORD_AGAIN))
        except InputError as refusal:
            refusals.append(refusal)
        except Exception:  # noqa: BLE001 - what it fails of, the conversion says in the report
            return
    raise refusals[0]


_RECORD_AGAIN = "record again, for longer or in another part of the program"


def _holds_rows(file: Path, converter: Converter) -> bool:
    """Say whether `file` becomes a row of any table but that of its devices."""
    with tempfile.TemporaryDirectory() as scratch:
        raw = Raw(path=file, label="rank0", rank=0, repeat=0, scratch=Path(scratch))
        made = converter.run(raw, Path(scratch)).tables
        return any(_rows(made[name], Path(scratch)) for name in made if name != "devices")


def _rows(table: Rows, scratch: Path) -> int:
    """Return the number of rows of a table as `Converted` has it."""
    if callable(table):
        return table(scratch / "table.parquet")
    parts = [table] if isinstance(table, pa.Table) else table
    return sum(part.num_rows for part in parts)


def unlike(guessed: Sequence[Path]) -> str:
    """Return why files that were given ranks may be of several runs, "" for names that are alike.

    Names are alike if they differ in numbers alone.
    """
    if len({_DIGITS.sub("", file.name) for file in guessed}) <= 1:
        return ""
    others = counted(len(guessed) - 1, "other file")
    return (
        f"taken for a rank of one run together with {others}, as none states its rank: if they are"
        " of several runs, give each alone"
    )


def related(
    ranks: Mapping[Path, int], guessed: Sequence[Path], kind: Importable
) -> dict[Path, Recorded]:
    """Return what the files of several ranks say of their recording, of those that say it.

    Raises `InputError` if they are not of one run. They are not if two ranks have no time in
    common, if those of one rank name different processes, or if a rank was `guessed` and their
    devices are of different models, or their process is the same, one after the other.
    """
    if kind.recorded is None or len(ranks) == 1:
        return {}
    stated = {file: found for file in ranks if (found := _recorded(file, kind))}
    by_rank: dict[int, list[Path]] = defaultdict(list)
    for file in stated:
        by_rank[ranks[file]].append(file)
    for files in by_rank.values():
        _refuse_other_processes(files, stated)
    first, *others = by_rank.values() or [[]]
    for files in others:
        if not any(_together(stated[a], stated[b]) for a in first for b in files):
            raise _unrelated(first[0], files[0], "were not recorded at the same time")
    _refuse_one_process([file for file in guessed if file in stated], stated)
    for one, other in ((first[0], file) for files in others for file in files):
        models = stated[one].devices, stated[other].devices
        if guessed and all(models) and models[0] != models[1]:
            names = " and ".join(", ".join(sorted(names)) for names in models)
            raise _unrelated(one, other, f"are of different devices ({names})")
    return stated if others else {}


def _refuse_other_processes(files: Sequence[Path], stated: Mapping[Path, Recorded]) -> None:
    """Raise if `files` of one rank are not of one process, which several programs may have left."""
    known = [file for file in files if stated[file].processes]
    for file in known[1:]:
        if not stated[known[0]].processes & stated[file].processes:
            pids = " and ".join(str(min(stated[one].processes)) for one in (known[0], file))
            why = f"have the same rank and are of different processes ({pids})"
            raise _unrelated(known[0], file, why)


def _refuse_one_process(guessed: Iterable[Path], stated: Mapping[Path, Recorded]) -> None:
    """Raise if one process has left several files, one after the other: they are of one rank."""
    by_process: dict[tuple[str, int], list[Path]] = defaultdict(list)
    for file in sorted(guessed, key=lambda file: stated[file].begin_ns):
        if stated[file].processes:
            by_process[stated[file].host, min(stated[file].processes)].append(file)
    for (_, process), files in by_process.items():
        for one, other in pairwise(files):
            if stated[one].end_ns < stated[other].begin_ns:
                why = f"were recorded one after the other in process {process}"
                raise _unrelated(one, other, why)


def _recorded(file: Path, kind: Importable) -> Recorded | None:
    try:
        found = kind.recorded(file) if kind.recorded else None
    except InputError:
        return None  # the conversion says what it is
    return found if found and found.begin_ns >= 0 else None


def _together(one: Recorded, other: Recorded) -> bool:
    # Processes of one host have one clock.
    most = _AT_ONCE_NS if one.host and one.host == other.host else _TOGETHER_NS
    return max(one.begin_ns, other.begin_ns) - min(one.end_ns, other.end_ns) <= most


def _unrelated(one: Path, other: Path, why: str) -> InputError:
    return InputError(
        f"{one} and {other} {why}, so they are not of one run",
        hint="import each run by itself; `imports=[A,B]` has them in one report",
    )


def are_imported(placed: Iterable[Path], left_out: Iterable[str], record: Path) -> bool:
    """Say whether files came in before, with nothing else `left_out`, and are as they were."""
    with suppress(OSError):
        is_whole = {*placed} <= {*untouched_files(record)}
        return is_whole and {*left_out} <= {*read_capture(record).get("warnings", ())}
    return False
