"""Runs made of files that a user brings along: found, ranked and put into the result tree."""

import gzip
import hashlib
import json
import os
import re
import shutil
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from profkit.capture.base import Rank
from profkit.convert import converters
from profkit.convert._other_formats import BYTES_LOOKED_AT, refused
from profkit.convert.base import Importable
from profkit.core.atomic_write import write_atomically
from profkit.core.capture_record import state_of
from profkit.core.checksums import sha256
from profkit.core.errors import InputError
from profkit.core.sealed_json import sealed
from profkit.planning.imported import RUNS
from profkit.planning.imported_files import (
    are_imported,
    equal_content,
    links,
    related,
    unlike,
    unusable,
)

_RANK = re.compile(r"(?:rank|worker)[-_]?(\d{1,6})(?!\d)", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")
_GZIP = b"\x1f\x8b"
_MOST_TELLING = ("trace", "nsys", "ncu")
"""Kinds of files of which a folder of several is shown by the first."""
_SPACE = b"\xef\xbb\xbf \t\r\n"
"""A mark of UTF-8 counts as some."""
_COPIED_BYTES = 1 << 30
"""Files that take more together are linked: a thousand ranks may have as many gigabytes."""
_DIGITS = re.compile(r"([^\d]*)(\d*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedFile:
    """One file to import."""

    path: Path
    """Where the user has it."""

    rank: int
    """Rank that it states, that its name states, or that it was given."""

    guessed: bool
    """Whether the rank was given, because neither the file nor its name states one."""

    host: str = ""
    """Host that it states; empty if it does not, or is the only rank."""

    left_out: tuple[str, ...] = ()
    """Which files were left out beside it, and why: one sentence each."""

    unlike: str = ""
    """Why it may be of another run than the others; empty if nothing says so."""


def import_kinds() -> dict[str, tuple[str, Importable]]:
    """Return the tool and the import rules of each kind of file that can be imported."""
    return {
        converter.importable.word: (tool, converter.importable)
        for tool, converter in converters().items()
        if converter.importable
    }


def kind_of(path: Path) -> tuple[str, Importable]:
    """Return the tool whose files those at `path` are, and how they come in."""
    kinds = import_kinds().values()
    if path.is_dir():
        if found := kinds_in(path):
            return found[0]
        raise InputError(f"{path}: neither a run nor a folder of recordings")
    if what := unusable(path):
        raise InputError(f"{path}: {what}")
    if named := [kind for kind in kinds if any(map(path.match, kind[1].patterns))]:
        return named[0]
    try:
        with path.open("rb") as file:
            start = file.read(BYTES_LOOKED_AT)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    is_packed = start.startswith(_GZIP)
    inside = _unpacked(path) if is_packed else start.lstrip(_SPACE)
    if begun := [kind for kind in kinds if inside.startswith(kind[1].begins)]:
        kind = begun[0][1]
        if is_packed and not any(pattern.endswith(".gz") for pattern in kind.patterns):
            raise InputError(f"{path}: a {kind.word} in gzip", hint="unpack it first: gunzip")
        return begun[0]
    for tool, kind in kinds:
        if not kind.begins:
            with suppress(InputError):
                kind.stated_rank(path)
                return tool, kind
    raise _of_no_kind(path, inside)


def _of_no_kind(path: Path, start: bytes) -> InputError:
    """Return what is wrong with a file of other bytes than profkit reads."""
    if (error := refused(path, start)) is not None:
        return error
    names = ", ".join(pattern for _, kind in import_kinds().values() for pattern in kind.patterns)
    return InputError(
        f"{path}: none of the recordings that profkit reads",
        hint=f"give one of torch.profiler, torch.cuda.memory, nsys or ncu: {names}",
    )


def _unpacked(path: Path) -> bytes:
    """Return the first bytes in a gzip file that are no space, none if it is damaged."""
    with suppress(OSError, EOFError, zlib.error), gzip.open(path) as file:
        return file.read(BYTES_LOOKED_AT).lstrip(_SPACE)
    return b""


def kinds_in(folder: Path) -> list[tuple[str, Importable]]:
    """Return the tools whose files a folder holds by their names, and how these come in.

    First comes what says most of a step.
    """
    kinds = import_kinds()
    ordered = [kinds[word] for word in dict.fromkeys((*_MOST_TELLING, *kinds))]
    return [kind for kind in ordered if any(map(any, map(folder.rglob, kind[1].patterns)))]


def word_of(path: Path) -> str:
    """Return the word of the kind of file that is at `path`, "" for no file of any kind."""
    if not path.is_file():
        return ""
    try:
        _, kind = kind_of(path)
        kind.stated_rank(path)
    except InputError:
        return ""
    return kind.word


def find(paths: Sequence[Path], kind: Importable) -> list[ImportedFile]:
    """Return the files of `kind` at `paths` (files, or folders of them) with their ranks.

    Raises `InputError` for what is missing, and for a file of another kind that comes alone: among
    others, the converter says so of it and goes on. In a folder, files with other names are left,
    and what is no file. Of files that differ in their ending only, it is the newest. Also raises
    it for files that are not of one run.
    """
    found, left_out = _usable([file for path in paths for file in files_at(path, kind)])
    files, again = _newest(found, kind)
    left_out += again
    stated = {file: _stated_rank(file, kind, alone=len(files) == 1) for file in files}
    taken = {rank for rank in stated.values() if rank >= 0}
    free = (rank for rank in range(len(files)) if rank not in taken)
    ranks = {file: rank if rank >= 0 else next(free) for file, rank in stated.items()}
    guessed = [file for file in files if stated[file] < 0]
    recorded = related(ranks, guessed, kind)
    return [
        ImportedFile(
            path=file,
            rank=ranks[file],
            guessed=file in guessed,
            host=recorded[file].host if file in recorded else "",
            left_out=tuple(left_out) if file == files[0] else (),
            unlike=unlike(guessed) if kind.recorded is None and file in guessed[:1] else "",
        )
        for file in files
    ]


def _usable(files: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Return the files that can be read, each once, and a sentence on each other one."""
    wrong = {file: what for file in dict.fromkeys(files) if (what := unusable(file))}
    left_out = [f"{file.name}: left out, as it is {what}" for file, what in wrong.items()]
    if len(wrong) == len({*files}):
        raise InputError(f"no file that can be read: {'; '.join(left_out)}")
    readable = [file for file in dict.fromkeys(files) if file not in wrong]
    same = links(readable)
    left_out += [
        f"{file.name}: left out, as it is a link to {original.name}"
        for file, original in same.items()
    ]
    return [file for file in readable if file not in same], left_out


def _newest(files: Sequence[Path], kind: Importable) -> tuple[list[Path], list[str]]:
    """Return the newest file of each name, and a sentence on its other forms."""
    forms: dict[tuple[Path, str], list[Path]] = defaultdict(list)
    for file in files:
        forms[file.parent, _without(file.name, _endings(kind))].append(file)
    # A file of another kind, such as settings beside a trace, must not replace one of this kind.
    newest = [
        max(same, key=lambda file: (not _is_refused(file, kind), file.stat().st_mtime_ns))
        if len(same) > 1
        else same[0]
        for same in forms.values()
    ]
    left_out = [
        f"{file.name}: left out, as {one.name} is newer and differs in its ending only"
        for one, same in zip(newest, forms.values(), strict=True)
        for file in same
        if file != one
    ]
    return newest, left_out


def _is_refused(file: Path, kind: Importable) -> bool:
    try:
        kind.stated_rank(file)
    except InputError:
        return True
    return False


def files_at(path: Path, kind: Importable) -> list[Path]:
    """Return a file, or those in a folder whose names are of a `kind`, by their numbers."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        what = unusable(path)
        raise InputError(
            f"{path}: no such file or folder" if what == "not there" else f"{path}: {what}",
            hint="a pipe must be saved as a file first" if what == "a pipe" else "",
        )
    # Ranks may be guessed from this order: 10 comes after 9.
    found = sorted(
        {file for pattern in kind.patterns for file in path.rglob(pattern)}, key=_numeric_order
    )
    if not found:
        wanted = " or ".join(kind.patterns)
        raise InputError(f"{path}: holds no {kind.word}", hint=f"looked for {wanted}")
    return found


def _numeric_order(file: Path) -> list[tuple[str, int]]:
    return [(text, int(number or 0)) for text, number in _DIGITS.findall(str(file))]


def _stated_rank(file: Path, kind: Importable, *, alone: bool) -> int:
    try:
        rank = kind.stated_rank(file)
    except InputError:
        if alone:
            raise
        rank = -1
    if rank >= 0:
        return rank
    match = _RANK.search(file.name)
    return int(match[1]) if match else -1


def add_run(
    files: Sequence[ImportedFile], tool: str, kind: Importable, *, name: str, command: str
) -> str:
    """Put `files` into a run of their own, under a name that begins with `name`; return it.

    The name ends in a hash of the content: the same files are the same run.
    """
    states = {file.path: state_of(file.path) for file in files}
    hashes = {file.path: sha256(file.path) for file in files}
    digests = sorted(f"{file.rank} {hashes[file.path]}" for file in files)
    identity = hashlib.sha256("\n".join(digests).encode()).hexdigest()[:8]
    slug = plain_name(name)
    run = f"{slug}-{identity}"
    folder = RUNS / run / "capture" / tool / "rep0"
    size = max(file.rank for file in files) + 1
    placed = {file.path: folder / _name(file, kind, size) for file in files}
    left_out = [sentence for file in files for sentence in file.left_out]
    if are_imported(placed.values(), left_out, folder / "capture.json"):
        return run  # what was made of them is as good
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    are_few = sum(state["size_bytes"] for state in states.values()) <= _COPIED_BYTES
    for source, target in placed.items():
        _place(source, target, is_copied=are_few)
        if state_of(source) != states[source]:
            shutil.rmtree(folder)
            raise InputError(f"{source}: was written while it was imported", hint="import it again")
    behaviour = run_behaviour(slug, kind, size)
    made = {
        target.name: {**states[source], "sha256": hashes[source]}
        for source, target in placed.items()
    }
    record = _record(files, tool, behaviour, folder, command) | {
        "files": [{"path": name, **made[name]} for name in sorted(made)],
        "places": _places(files, placed),
    }
    record["warnings"] += equal_content(hashes)
    facts = ("tool", "repeat", "attempt", "status", "started", "ended", "elapsed_s", "exit_code")
    manifest = {
        "schema_version": 1,
        "run": run,
        "command": command,
        "behaviour": behaviour,
        "tools": {tool: {}},
        "machine": {},
        "versions": {},
        "git": {},
        "captures": [{key: record[key] for key in facts}],
    }
    _write(folder / "capture.json", record)
    _write(RUNS / run / "manifest.json", manifest)
    return run


def _places(
    files: Sequence[ImportedFile], placed: Mapping[Path, Path]
) -> list[dict[str, str | None]]:
    """Return the host of each rank that states one, as the record of a capture has it."""
    hosts = {placed[file.path].name.partition(".")[0]: file.host for file in files if file.host}
    unknown = {"node": None, "local_rank": None}
    return [{"label": label, "hostname": host, **unknown} for label, host in hosts.items()]


def run_behaviour(name: str, kind: Importable, world_size: int) -> dict[str, Any]:
    """Return what is known of how the workload behind files of `kind` behaved."""
    return {"model": {"name": name}, "imported": kind.word, "world_size": world_size}


def _name(found: ImportedFile, kind: Importable, size: int) -> str:
    label = Rank(rank=found.rank, world_size=size, dp=found.rank).label
    name = found.path.name
    compressed = ".gz" if name.endswith(".gz") else ""
    unique = hashlib.sha256(os.fsencode(found.path.resolve())).hexdigest()[:6]
    # Snakemake reads braces as wildcards, and shells and reports have their own special characters.
    stem = _UNSAFE.sub("-", _without(name, (kind.suffix, *_endings(kind))))
    return f"{label}.{stem[:80]}.{unique}{kind.suffix}{compressed}"


def _endings(kind: Importable) -> tuple[str, ...]:
    return tuple(pattern.lstrip("*") for pattern in kind.patterns)


def _without(name: str, endings: Sequence[str]) -> str:
    """Return a name without ``.gz`` and the longest of the `endings` that it has."""
    plain = name.removesuffix(".gz")
    return min((plain.removesuffix(ending) for ending in endings), key=len)


def _place(source: Path, target: Path, *, is_copied: bool) -> None:
    """Copy the file, or link it, which costs nothing but shares what is written later."""
    if not is_copied:
        with suppress(OSError):  # on another disk
            os.link(source.resolve(), target)
            return
    state = source.stat()
    shutil.copyfile(source, target)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def plain_name(text: str) -> str:
    """Return `text` without what has a meaning in paths, shells and rules."""
    return _UNSAFE.sub("-", text)[:80].strip("-.") or "import"


def _record(
    files: Sequence[ImportedFile], tool: str, behaviour: dict[str, Any], folder: Path, command: str
) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    guessed = [file.path.name for file in files if file.guessed and len(files) > 1]
    warnings = [f"{name}: states no rank; it was given the next free one" for name in guessed]
    warnings += [f"{file.path.name}: {file.unlike}" for file in files if file.unlike]
    warnings += [sentence for file in files for sentence in file.left_out]
    return {
        "schema_version": 1,
        "tool": tool,
        "repeat": 0,
        "attempt": 1,
        "status": "ok",
        "reason": "",
        "command": [command],
        "settings": {},
        "workload": behaviour,
        "started": now,
        "ended": now,
        "elapsed_s": 0.0,
        "exit_code": 0,
        "ranks": sorted({file.name.partition(".")[0] for file in folder.iterdir()}),
        "warnings": warnings,
        "log_tail": [],
        "machine": {},
        "versions": {},
    }


def _write(path: Path, content: dict[str, Any]) -> None:
    # Names of files may hold bytes that are no text.
    text = json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8", "replace")
    write_atomically(path, sealed(text + b"\n"))
