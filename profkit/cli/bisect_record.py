"""What a search of revisions has found, kept so that the same search goes on where it was."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError

_FOLDER = Path("results/bisect")


class Comparison(msgspec.Struct, frozen=True):
    """The pairs of one comparison."""

    before: str
    after: str
    logs: tuple[float, ...]


class _Content(msgspec.Struct):
    commits: tuple[str, ...]
    overrides: tuple[str, ...]
    comparisons: dict[int, Comparison]
    failed: dict[str, str]
    runs: list[str] = []
    """Names of the runs that were captured for it."""


@dataclass(kw_only=True, slots=True)
class Record:
    """Comparisons by their number in the search, and the commits that cannot be run."""

    path: Path
    content: _Content = field(repr=False)

    @property
    def failed(self) -> dict[str, str]:
        """Why commits cannot be run."""
        return self.content.failed

    def kept(self, number: int, ends: tuple[str, str], pairs: int) -> tuple[float, ...] | None:
        """Return the pairs of a comparison, None if it was not made."""
        found = self.content.comparisons.get(number)
        if found is None or (found.before, found.after) != ends or len(found.logs) != pairs:
            return None
        return found.logs

    def keep(self, number: int, ends: tuple[str, str], logs: Sequence[float]) -> None:
        """Keep the pairs of a comparison."""
        self.content.comparisons[number] = Comparison(*ends, tuple(logs))
        self._write()

    def add_runs(self, names: Sequence[str]) -> None:
        """Keep the names of runs that are captured for the search."""
        self.content.runs = [*dict.fromkeys([*self.content.runs, *names])]
        self._write()

    def fail(self, commit: str, reason: str) -> None:
        """Keep why a commit cannot be run."""
        self.content.failed[commit] = reason
        self._write()

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        content = msgspec.json.format(msgspec.json.encode(self.content), indent=1)
        write_atomically(self.path, content + b"\n")


def searched_runs() -> set[str]:
    """Return the names of the runs that searches here captured."""
    return {name for path in _FOLDER.glob("*.json") for name in _read(path).runs}


def read_record(commits: Sequence[str], overrides: Sequence[str]) -> Record:
    """Return the record of a search, empty if there is none yet."""
    digest = hashlib.sha256(json.dumps([*commits, *overrides]).encode()).hexdigest()[:8]
    path = _FOLDER / f"{commits[0][:10]}-{commits[-1][:10]}-{digest}.json"
    if not path.is_file():
        content = _Content(tuple(commits), tuple(overrides), {}, {})
        return Record(path=path, content=content)
    return Record(path=path, content=_read(path))


def _read(path: Path) -> _Content:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Content)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: {error}", hint="delete it to search anew") from None
