"""From a report file to tables that can be read: `nsys export`, where it is not exported yet."""

import gzip
import re
import shutil
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from profkit.convert._unpacked import refuse_bomb
from profkit.convert.nsys.store import Store, opened
from profkit.core.errors import InputError
from profkit.process import bounded_command

_SQLITE = b"SQLite format 3\0"
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 64
_OTHERS = (
    (rb"NVR\0", "a report of Nsight Compute", "profkit import ncu FILE"),
    (rb"\s*[{[]", "JSON", "a trace of PyTorch comes in with: profkit import trace FILE"),
    (rb"\x80", "a Python pickle", "a snapshot of memory: profkit import snapshot FILE"),
    (rb"version https://git-lfs", "a pointer of Git LFS", "get the file itself: git lfs pull"),
    (rb"\s*<", "a web page", "download the file itself"),
    (
        rb"(?s).*Nsight Systems Stream",
        "a recording that was not imported yet (.qdstrm)",
        "QdstrmImporter, beside the nsys that recorded it, makes a report: QdstrmImporter -i FILE",
    ),
)
"""What else comes under the names of reports: how it begins, what it is, and what to do."""
_MODE, _WRITE_AHEAD = slice(18, 20), b"\2\2"
_LOGGED = (
    "It was written with a write-ahead log: what only the -wal file beside it holds is missing."
)
_PARTLY = "nsys failed while it exported this, and what it did not reach is missing:"
_TIMEOUT_S = 1800
_HELP_TIMEOUT_S = 30
_MOST_BYTES = 64 << 20
_SAID = 300
_THROWN = re.compile(r"std::exception::what: (.+)")
_PROGRESS = re.compile(r"\[[^\]]*%[^\]]*\]\s*\S*|Processing \d+ events?.*?(?=\n|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Exported:
    """A report that can be read."""

    store: Store
    """Its tables."""

    source: Path
    """What ``nsys stats`` takes: SQLite, or the report itself if it was exported to Parquet."""

    notes: tuple[str, ...] = ()
    """What may be missing."""


@contextmanager
def exported(path: Path) -> Iterator[Exported]:
    """Export the report at `path` for as long as the context is open.

    It may be a report (.nsys-rep, .qdrep), or SQLite already, also as gzip; what it is, its first
    bytes say. Raises `InputError` if it cannot be read.
    """
    with TemporaryDirectory(prefix="profkit-nsys-") as folder:
        plain = _plain(path, Path(folder))
        head = refuse_others(plain, path)
        # nsys goes by the ending of a name.
        is_sqlite = head.startswith(_SQLITE)
        source = Path(folder) / ("given.sqlite" if is_sqlite else "report.nsys-rep")
        source.symlink_to(plain.resolve())
        made, failure = (source, "") if is_sqlite else _export(source, path)
        with opened(made, path) as store:
            if failure and not any("start" in columns for columns in store.tables.values()):
                raise _not_exported(path, failure)
            notes = [_LOGGED] if is_sqlite and head[_MODE] == _WRITE_AHEAD else []
            notes += [f"{_PARTLY} {failure}"] if failure else []
            made = source if made.is_dir() else made
            yield Exported(store=store, source=made, notes=tuple(notes))


def refuse_log(path: Path) -> None:
    """Raise if a file beside `path` holds rows that are not in it yet."""
    log = path.with_name(f"{path.name}-wal")
    if log.is_file() and log.stat().st_size:
        raise InputError(
            f"{path}: {log.name} beside it holds rows that are not in it yet",
            hint=f"have SQLite move them: sqlite3 {path.name} 'PRAGMA wal_checkpoint(TRUNCATE)'",
        )


def refuse_others(plain: Path, path: Path) -> bytes:
    """Return how `plain` begins, the content of `path`; raises if that is plainly no report."""
    with plain.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if not head:
        raise InputError(f"{path}: an empty file", hint="capture again")
    for start, what, hint in _OTHERS:
        if re.match(start, head):
            raise InputError(f"{path}: {what}, not a report of Nsight Systems", hint=hint)
    return head


def _plain(path: Path, folder: Path) -> Path:
    """Return `path`, or its content unpacked in `folder`."""
    with path.open("rb") as file:
        if file.read(len(_GZIP)) != _GZIP:
            return path
    plain = folder / "report"
    try:
        with gzip.open(path) as packed, plain.open("wb") as file:
            while chunk := packed.read(1 << 20):
                file.write(chunk)
                refuse_bomb(path, file.tell())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip data: {error}", hint="copy it again") from None
    return plain


def _export(source: Path, given: Path) -> tuple[Path, str]:
    """Return what nsys exports the report `source` to, beside it, and why not all, "" if it does.

    `given` is what the user gave.
    """
    binary = nsys()
    if not binary:
        raise InputError(
            f"{given}: a report of Nsight Systems, and nsys, which can export it, is not installed",
            hint="install the package nsight-systems, or export it elsewhere with"
            " `nsys export --type sqlite` and import that",
        )
    is_parquet = "parquetdir" in export_types(binary)
    target = source.with_name("report_pqtdir" if is_parquet else "report.sqlite")
    kind = "parquetdir" if is_parquet else "sqlite"
    flags = [f"--type={kind}", f"--output={target}", "--force-overwrite=true", "--quiet=true"]
    answer = _asked([binary, "export", *flags, str(source)], _TIMEOUT_S)
    is_made = target.exists() and (target.is_dir() or target.stat().st_size > 0)
    said = without_progress(_printed(answer))
    failure = (said or "it does not say why") if answer.reason or not is_made else ""
    if not is_made:
        raise _not_exported(given, failure)
    return target, failure


def _not_exported(given: Path, failure: str) -> InputError:
    return InputError(
        f"{given}: nsys {version(nsys())} cannot export it: {failure}",
        hint="it is damaged, or of a newer version: export it with the nsys that wrote it",
    )


def nsys() -> str:
    """Return the path of ``nsys`` beside the Python that runs or on ``PATH``, or ""."""
    return shutil.which("nsys", path=str(Path(sys.executable).parent)) or shutil.which("nsys") or ""


@cache
def export_types(binary: str) -> frozenset[str]:
    """Return what this nsys exports to; the words of its help."""
    text = run([binary, "export", "--help"], _HELP_TIMEOUT_S)
    _, _, after = text.partition("--type=")
    return frozenset(re.findall(r"\w+", after.partition("--")[0]))


@cache
def version(binary: str) -> str:
    """Return the version that nsys states, or ""."""
    found = re.search(r"\d+(?:\.\d+)+", run([binary, "--version"], _HELP_TIMEOUT_S))
    return found[0] if found else ""


def run(command: Sequence[str], timeout_s: float) -> str:
    """Run `command` and return what it prints; whether it failed shows in the files it leaves."""
    return _printed(_asked(command, timeout_s))


def _asked(command: Sequence[str], timeout_s: float) -> bounded_command.Answer:
    return bounded_command.ask(command, timeout_s=timeout_s, most_bytes=_MOST_BYTES)


def _printed(answer: bounded_command.Answer) -> str:
    return answer.failure or answer.text + answer.errors.decode(errors="replace")


def without_progress(text: str) -> str:
    """Return the end of what nsys printed in one line, without its progress or where it threw."""
    if thrown := _THROWN.search(text):
        return thrown[1]
    return " ".join(_PROGRESS.sub("", text).split())[-_SAID:]
