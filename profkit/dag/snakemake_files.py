"""Where Snakemake keeps its own files: among the results, so that nothing lies beside the code.

Snakemake has no setting for that. It would keep them in ``.snakemake`` of the folder that it works
in, as earlier versions of profkit let it.
"""

import errno
import itertools
import logging
import os
import shutil
import tempfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path("results/.snakemake")
"""Records of what was made of what, locks and logs."""

_USUAL = Path(".snakemake")
# Records are files called after the path of what was made, in base64; three bytes are four letters.
_OURS = tuple(
    urlsafe_b64encode(path[: len(path) // 3 * 3]).decode()
    for path in (b"results/runs/", b"results/report.", b"results/selection/")
)


def keep_in_results(workflow: ModuleType, logs: dict[logging.Handler, str]) -> None:
    """Let the Snakemake of this process keep its files in `FOLDER`; to be called while it parses.

    `workflow` is its module of that name; `logs` are those that it has begun, with their paths.
    """
    for name in ("FilePersistence", "DbPersistence"):
        setattr(workflow, name, _placed(getattr(workflow, name)))
    for handler, path in list(logs.items()):
        if Path(path).parent == (_USUAL / "log").absolute():
            logs[handler] = str(_moved(Path(path), FOLDER / "log").absolute())
            _remove_empty(_USUAL)


def keep_job_scripts(executor: type) -> None:
    """Let `executor`, the base class of all that start jobs elsewhere, keep its scripts here."""

    def scripts(self: Any) -> str:
        if self._tmpdir is None:
            FOLDER.mkdir(parents=True, exist_ok=True)
            self._tmpdir = tempfile.mkdtemp(dir=FOLDER.absolute(), prefix="tmp.")
        return str(self._tmpdir)

    setattr(executor, "tmpdir", property(scripts))  # noqa: B010 - a name that mypy does not know


def folder() -> Path:
    """Return where the records are: until a run moves them, where an earlier version left them."""
    is_brought = (FOLDER / "metadata").is_dir() or not any(_our_records())
    return FOLDER if is_brought else _USUAL


def _placed(kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return what opens a store of records as `kind`, in our folder unless it is given another."""

    def opened(*, path: Path | None = None, **arguments: Any) -> Any:
        return kind(path=path or folder().absolute(), **arguments)

    return opened


def bring_over() -> None:
    """Move to `FOLDER` what an earlier version of profkit has left in ``.snakemake``.

    Another workflow of the same folder keeps its own.
    """
    ours = list(_our_records())
    if not ours:
        return
    for path in ours:
        _moved(path, FOLDER / path.parent.relative_to(_USUAL))
    if not any((_USUAL / "metadata").iterdir()):
        for path in [path for path in _USUAL.rglob("*") if not path.is_dir()]:
            _moved(path, FOLDER / path.parent.relative_to(_USUAL))
        _remove_empty(_USUAL)


def _our_records() -> Iterator[Path]:
    for kind, name in itertools.product(("metadata", "incomplete"), _OURS):
        # A long name is spread over folders, the first of which begin with @.
        yield from (_USUAL / kind).glob(f"{name}*")
        yield from (_USUAL / kind).glob(f"@{name}*")


def _moved(path: Path, folder: Path) -> Path:
    """Move `path` into `folder`, where it takes the place of what has its name; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(path, folder / path.name))


def _remove_empty(folder: Path) -> None:
    """Remove the folders at and below `folder` that hold nothing, as another run may as well."""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)  # noqa: PTH106 - a path of os.walk
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise
