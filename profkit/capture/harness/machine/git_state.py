"""Git state of the sources of a capture: profkit's own, and those of the user's project."""

import hashlib
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import profkit
from profkit.process import bounded_command
from profkit.workloads.runtime import command_words

_GIT_TIMEOUT_S = 30
_GIT_BYTES = 256 << 20
_MAX_DIFF_BYTES = 64 << 10
_MAX_UNTRACKED = 50


def script(workload: Mapping[str, Any]) -> Path | None:
    """Return the script that is profiled; None for a module or one of the built-in programs."""
    words = shlex.split(workload.get("workload", {}).get("command", ""))
    name = command_words.script(words)
    path = _start_folder(workload) / name
    # An interpreter may lie in a repository of its own.
    return path if name and path.is_file() and not command_words.starts_another(name) else None


def described(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Return folder and script of a capture, with the git state of the project and of profkit.

    The project is the repository of the script, or else of the folder that ranks start in.
    """
    path = script(workload)
    own = Path(profkit.__file__)
    states = {
        "profkit": git_state(own.parent) if _is_tracked(own) else {},
        "project": git_state(path.resolve().parent if path else _start_folder(workload)),
    }
    if states["project"].get("folder") == states["profkit"].get("folder"):
        del states["project"]
    about: dict[str, Any] = {"cwd": str(Path.cwd()), "git": {k: v for k, v in states.items() if v}}
    if path is not None:
        about["script"] = {"path": str(path), "sha256": _sha256(path.read_bytes())}
    return about


def _start_folder(workload: Mapping[str, Any]) -> Path:
    """Return the folder that ranks start in: a worktree where revisions are compared."""
    return Path(workload.get("launcher", {}).get("cwd", "")).expanduser()


def git_state(folder: Path) -> dict[str, Any]:
    """Return commit, branch and changes of the work tree that `folder` lies in; {} for none.

    Of a long diff only the beginning is kept, with the hash of all of it.
    """
    found = _git(folder, "rev-parse", "--show-toplevel", "HEAD", "--abbrev-ref", "HEAD")
    if len(found.splitlines()) != 3:  # noqa: PLR2004 - one line for each question
        return {}
    top, commit, branch = found.splitlines()
    where = ["--", ".", *_results(Path(top))]
    changes = _git(Path(top), "status", "--porcelain", "--untracked-files=normal", *where)
    untracked = [line[3:] for line in changes.splitlines() if line.startswith("??")]
    state: dict[str, Any] = {
        "folder": top,
        "remote": _git(Path(top), "config", "--get", "remote.origin.url").strip(),
        "branch": branch,
        "commit": commit,
        "dirty": bool(changes),
        "untracked": untracked[:_MAX_UNTRACKED],
    }
    if diff := _git(Path(top), "diff", "--no-ext-diff", "--no-textconv", "HEAD", *where):
        content = diff.encode(errors="surrogateescape")
        state["diff"] = content[:_MAX_DIFF_BYTES].decode(errors="replace")
        state["diff_is_cut"] = len(content) > _MAX_DIFF_BYTES
        state["diff_sha256"] = _sha256(content)
    return state


def _results(top: Path) -> list[str]:
    """Return pathspecs that exclude the files that profkit itself writes."""
    here = Path.cwd().resolve()
    if not here.is_relative_to(top):
        return []
    folder = here.relative_to(top)
    return [f":(top,exclude,literal){folder / name}" for name in ("results", ".snakemake")]


def _is_tracked(path: Path) -> bool:
    """Say whether git knows the file; a package in an environment is not of the project around."""
    return bool(_git(path.parent, "ls-files", path.name))


def _git(folder: Path, *command: str) -> str:
    """Return the output of git; "" without git, a repository, or a commit."""
    # Programs that a repository's configuration names are not run, and its index is not written.
    safe = ["-c", "core.fsmonitor=false", "-c", "color.ui=never"]
    answer = bounded_command.ask(
        ["git", "-C", str(folder), *safe, *command],
        timeout_s=_GIT_TIMEOUT_S,
        most_bytes=_GIT_BYTES,
        environment=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
    )
    return "" if answer.reason else answer.output.decode(errors="surrogateescape")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
