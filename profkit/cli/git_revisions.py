"""Revisions of the user's git repository: their order, and clean folders of them."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from profkit.core.errors import InputError

_SHORT = 10
_WORKTREES = Path("results/.profkit/worktrees")


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """A commit."""

    commit: str
    subject: str
    """First line of its message."""

    @property
    def short(self) -> str:
        """Begin of its hash, which names it."""
        return self.commit[:_SHORT]


def revision(name: str) -> Revision:
    """Return the commit that `name` stands for; raises `InputError` if there is none."""
    _git("rev-parse", "--show-toplevel")
    if not name or name.startswith("-"):
        raise InputError(f"{name!r}: no revision", hint="name a commit, a branch or a tag")
    commit = _git_or_none(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
    )
    if commit is None:
        raise InputError(f"{name}: no such revision in this repository", hint="git log --oneline")
    return _described(commit)


def between(good: Revision, bad: Revision) -> list[Revision]:
    """Return the commits from `good` to `bad`, both included, each the first parent of the next.

    Raises `InputError` if `good` does not lead to `bad`.
    """
    if good == bad:
        raise InputError(f"{good.short}: both revisions are the same commit")
    if _git_or_none("merge-base", "--is-ancestor", good.commit, bad.commit) is None:
        raise InputError(
            f"{good.short} is no ancestor of {bad.short}",
            hint=f"name one that is, such as $(git merge-base {good.short} {bad.short})",
        )
    wanted = f"{good.commit}..{bad.commit}"
    commits = _git("rev-list", "--reverse", "--first-parent", wanted).split()
    return [good, *map(_described, commits)]


@contextmanager
def worktrees(*revisions: Revision) -> Iterator[list[Path]]:
    """Check each of `revisions` out in a clean folder of its own; remove the folders afterwards.

    Yields, in each of them, the folder that this process is in. Folders of the same revision have
    the same path every time: it is part of what a capture was made of.
    """
    place = _git("rev-parse", "--show-prefix")
    folders = [(_WORKTREES / one.short).resolve() for one in revisions]
    try:
        for folder, one in zip(folders, revisions, strict=True):
            _remove(folder)
            _git("worktree", "add", "--quiet", "--detach", "--force", str(folder), one.commit)
        inside = [folder / place for folder in folders]
        for folder, one in zip(inside, revisions, strict=True):
            # git keeps no folder without a file.
            if not folder.is_dir():
                raise InputError(f"{one.short}: has no folder {place}")
        yield inside
    finally:
        for folder in folders:
            _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a worktree, also one that was left by a process that was killed."""
    _git_or_none("worktree", "remove", "--force", "--force", str(folder))
    shutil.rmtree(folder, ignore_errors=True)
    _git("worktree", "prune")


def _described(commit: str) -> Revision:
    return Revision(commit=commit, subject=_git("log", "-1", "--format=%s", commit))


def _git(*words: str) -> str:
    """Return what git prints; raises `InputError` with what it says."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed", hint="revisions are read with it") from None
    if done.returncode:
        raise InputError(f"git {words[0]}: {done.stderr.strip()}", hint="run it in your repository")
    return done.stdout.strip()


def _git_or_none(*words: str) -> str | None:
    """Return what git prints; None if it fails."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout.strip()
