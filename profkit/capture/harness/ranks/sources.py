"""The user's files that a rank runs, with their hashes: a change of one makes the capture stale.

These are the script, the modules imported by it that are not installed packages, the small files
that its command line names, and what it opens below its folder before its first step. What the
workload writes itself is no source of it.
"""

import importlib.machinery
import importlib.util
import json
import os
import re
import shlex
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import profkit
from profkit.capture.base import Rank
from profkit.capture.harness.ranks.opened_files import OpenedFiles
from profkit.capture.harness.record import rank_warnings
from profkit.core import program_variables
from profkit.core.checksums import sha256, version

if TYPE_CHECKING:
    from profkit.capture.harness.spec import Spec

_PART = ".sources.json"
_INSTALLED = {"site-packages", "dist-packages"}
# What ``torch.compile`` wrote, in its own cache or in one that the program names.
_CACHE = re.compile(r"torchinductor_")
_COMPILED = re.compile(r"c[a-z2-7]{51}\.")
# Larger ones are data.
_MAX_NAMED_BYTES = 16 << 20
_FIRST_LINE_BYTES = 128
# In a compiled module: the time of its source, in seconds.
_PYC_SOURCE_S = slice(8, 12)

CHANGED_MEANWHILE = ""
"""Stands for the hash of a file that was edited after the rank had loaded it."""


class SourcesListener:
    """Notes the sources when the first step begins, and at the end those that came later.

    `opened` knows the files that were opened until then; `home` is the folder of the script, if the
    first word of the command is not the script itself.
    """

    def __init__(
        self, spec: "Spec", rank: Rank, opened: OpenedFiles, home: Path | None = None
    ) -> None:
        self.spec = spec
        self.rank = rank
        self.opened = opened
        self.data: dict[Path, str] = {}
        self.start_ns = time.time_ns()
        self.hashes: dict[Path, str] = {}
        words = shlex.split(str(spec.workload.get("workload", {}).get("command", "")))
        is_script = bool(words) and words[0] != "-m"
        self.home = home or (Path(words[0]).absolute().parent if is_script else Path.cwd())
        # One rank may write what another one finds there.
        named = (*_scripts(words[:1]), *_files(words[1:])) if rank.rank == 0 else ()
        self.named = {path: sha256(path) for path in named}

    def begin(self) -> None:
        """See `profkit.marks.Listener`."""
        self.opened.stop()
        # At once, for programs that end without a clean-up.
        self.write()

    def step(self, samples: int) -> None:
        """See `profkit.marks.Listener`."""

    def resume(self) -> None:
        """See `profkit.marks.Listener`."""

    def join(self, first: int, count: int) -> None:
        """See `profkit.marks.Listener`."""

    def note(self, text: str) -> None:
        """See `profkit.marks.Listener`."""

    def write(self) -> None:
        """Write the sources that are known by now, for `collect`."""
        for path in {*self._modules()} - {*self.hashes}:
            if path.stat().st_mtime_ns <= self.start_ns:
                self.hashes[path] = sha256(path)
            elif not _is_generated(path, self.start_ns):
                self.hashes[path] = CHANGED_MEANWHILE
                note = f"{path.name} was edited while it ran: its hash is not known"
                rank_warnings.add(self.spec.folder, self.rank, note)
        unchanged = {
            path: digest
            for path, digest in self.named.items()
            if path.is_file() and path.stat().st_mtime_ns <= self.start_ns
        }
        for path in {*self.opened.paths} - {*self.data}:
            if self._is_data(path):
                self.data[path] = version(path)
        found = [
            {str(path): digest for path, digest in digests.items()}
            for digests in (self.data, unchanged | self.hashes)
        ]
        (self.spec.folder / f"{self.rank.label}{_PART}").write_text(json.dumps(found))

    def _modules(self) -> Iterator[Path]:
        """Yield the user's files among the modules of this process."""
        files = {name: _file(name) for name in list(sys.modules)}
        for name, path in files.items():
            package = files.get(name.partition(".")[0])
            if path and self._is_users(path) and (not package or self._is_users(package)):
                yield path

    def _is_data(self, path: Path) -> bool:
        """Say whether the file at `path` is of the user's project, and no result of profkit's."""
        runs = self.spec.folder.parents[2].parent
        is_near = any(map(path.is_relative_to, (self.home, Path.cwd())))
        return is_near and path.is_file() and runs not in path.parents and self._is_users(path)

    def _is_users(self, path: Path) -> bool:
        """Say whether `path` is neither Python's, nor installed, nor profkit's, nor in a cache."""
        if _COMPILED.match(path.name) or any(map(_CACHE.match, path.parts)):
            return False
        inside = path.is_relative_to(self.home)
        parts = path.relative_to(self.home).parts if inside else path.parts
        if _INSTALLED & {*parts} or any(part.startswith(".") for part in parts):
            return False
        return not any(
            map(path.is_relative_to, (*_NOT_USERS, self.spec.folder, self.spec.raw_folder))
        )


_NOT_USERS = (
    Path(profkit.__file__).parent,
    *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")),
)


def _scripts(words: Iterable[str]) -> Iterator[Path]:
    """Yield the scripts among `words`, but none of Python, as PyTorch's own tools are."""
    for path in _files(words):
        # Not by `open`, which notes what is opened as the program's.
        descriptor = os.open(path, os.O_RDONLY)
        begins, _, _ = os.read(descriptor, _FIRST_LINE_BYTES).partition(b"\n")
        os.close(descriptor)
        if begins.startswith(b"#!") and b"python" not in begins:
            yield path


def _files(words: Iterable[str]) -> Iterator[Path]:
    """Yield the small files among `words`, also of ``--option=file``."""
    for word in words:
        path = Path(word.rpartition("=")[2]).absolute()
        # Texts are longer than a name of a file may be.
        if os.path.isfile(path) and path.stat().st_size <= _MAX_NAMED_BYTES:  # noqa: PTH113
            yield path


def _file(name: str) -> Path | None:
    """Return the file of a loaded module, for one in an archive that of the archive."""
    stated = getattr(sys.modules.get(name), "__dict__", {}).get("__file__")
    if not isinstance(stated, str):
        return None
    # Python keeps ``..`` as it stands in sys.path.
    path = Path(os.path.abspath(stated))  # noqa: PTH100 - no resolving of links
    return next((file for file in (path, *path.parents) if file.is_file()), None)


def _is_generated(path: Path, start_ns: int) -> bool:
    """Say whether the module at `path` was written after `start_ns` and then loaded.

    Libraries are, and what Python says so of where it keeps it compiled.
    """
    if path.name.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
        return True
    compiled = Path(importlib.util.cache_from_source(str(path)))
    if not compiled.is_file():
        return False
    written_s = int.from_bytes(compiled.read_bytes()[_PYC_SOURCE_S], "little")
    return written_s >= start_ns // 1_000_000_000


def described(
    out: Path, begun_ns: int, environment: Mapping[str, str], added: Iterable[str]
) -> dict[str, Any]:
    """Return what a capture depends on beside its settings: its files and environment variables.

    `environment` is what its command starts with, `added` what its settings say of that.
    """
    found = collect(out, begun_ns)
    variables = program_variables.captured(environment, added, found)
    shown = program_variables.recorded(environment)
    return {"sources": found, "variables": variables, "environment": shown}


def collect(out: Path, begun_ns: int) -> list[dict[str, str]]:
    """Return the sources of all ranks, by paths from this folder, and remove the ranks' files.

    What was written after `begun_ns`, as the program keeps its state, is no data that it was given.
    """
    found: dict[str, str] = {}
    for part in sorted(out.glob(f"*{_PART}")):
        data, ran = json.loads(part.read_text())
        given = {
            path: digest
            for path, digest in data.items()
            if Path(path).is_file() and Path(path).stat().st_mtime_ns <= begun_ns
        }
        for path, digest in (given | ran).items():
            name = os.path.relpath(path)
            same = found.get(name, digest) == digest
            found[name] = digest if same else CHANGED_MEANWHILE
        part.unlink()
    return [{"path": name, "sha256": found[name]} for name in sorted(found)]
