"""``profkit reproduce RUN``: the commands that make a run again, or the same run made anew."""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from profkit.cli.run_folders import run_named
from profkit.cli.terminal import Terminal
from profkit.cli.untrusted_manifest import Manifest, environment, left_out, overrides, read
from profkit.core import secret_store
from profkit.core.errors import InputError
from profkit.core.formatting import without_controls
from profkit.core.secret_urls import MASK
from profkit.planning.imported import RUNS

FOLDER = Path("results/.profkit/reproduced")
"""Where runs are made again, each in a folder with a result tree of its own."""

DIFFERENT = 3
"""Exit status if a run that was made again differs from the first."""

# Names, numbers and states that differ between equal machines, or from one hour to the next.
_VARYING = ("hostname", "uuid", "pcie_generation")
_OF_GIT = ("commit", "diff_sha256")
_WIDTH = 160


def main(argv: Sequence[str]) -> int:
    """Print commands or a diff, or run again; 0 all as before, 1 failed, 3 something differs."""
    parser = argparse.ArgumentParser(prog="profkit reproduce", description=__doc__)
    parser.add_argument("run", help="name of a run, or how it begins, or its folder")
    parser.add_argument("--run", dest="anew", action="store_true", help="run again and compare")
    parser.add_argument("--yes", action="store_true", help="with --run: do not ask before")
    parser.add_argument("--diff", metavar="REPOSITORY", help="print the changes: profkit, project")
    args = parser.parse_args(argv)
    path = _manifest_path(args.run)
    then = read(path)
    if args.diff:
        diff = _diff(then, args.diff)
        if sys.stdout.isatty():
            sys.stdout.write(diff)
        else:
            # To be applied as it is, with whatever the files hold.
            sys.stdout.buffer.write(diff.encode(errors="surrogateescape"))
        return 0
    if not args.anew:
        sys.stdout.writelines(f"{line}\n" for line in commands(args.run, then))
        return 0
    _confirm(then, is_confirmed=args.yes)
    return _run_again(path, then)


def _manifest_path(run: str) -> Path:
    """Return the manifest of a run by its name, how that begins, its folder or that file."""
    for folder in (RUNS / run, Path(run)) if run else ():
        path = folder if folder.name == "manifest.json" else folder / "manifest.json"
        if path.is_file():
            return path
    path = run_named(run).path / "manifest.json"
    if path.is_file():
        return path
    hint = "`profkit run` leaves one at its end; bisections and comparisons leave none"
    raise InputError(f"{run}: the run has no manifest", hint=hint)


def commands(run: str, then: Manifest) -> Iterator[str]:
    """Yield the lines of a shell script that makes the run again; what it cannot do as comments."""
    host = then["machine"].get("hostname")
    yield _comment(f"{then['run']}, captured {then['started'][:19]} on {host}")
    yield _comment(
        f"with {', '.join(f'{name} {version}' for name, version in then['versions'].items())}"
    )
    for name, state in then["git"].items():
        yield from _checkout(run, name, state)
    yield shlex.join(["cd", without_controls(then["cwd"])])
    yield from _request(then)


def _request(then: Manifest) -> Iterator[str]:
    """Yield the command that makes the run, and the environment that it is to have."""
    if variables := environment(then):
        yield shlex.join(["export", *(f"{name}={value}" for name, value in variables.items())])
    if names := left_out(then):
        yield _comment(f"not set, as they name code or files: {', '.join(names)}")
    words = overrides(then)
    if MASK in " ".join(words):
        yield _comment(f"put in again what was masked here as a secret: {MASK}")
    for reference, is_kept in secret_store.states(" ".join(words)).items():
        known = "is known on this machine" if is_kept else "is to be put in again"
        yield _comment(f"{reference} stands for a secret, which {known}")
    yield shlex.join(["profkit", "run", *words])


def _confirm(then: Manifest, *, is_confirmed: bool) -> None:
    """Show what is to be run, and ask; raises `InputError` if it is not to be."""
    sys.stdout.writelines(f"{line}\n" for line in _request(then))
    sys.stdout.flush()
    if MASK in " ".join(then["overrides"]):
        raise InputError("a secret was masked in the overrides", hint="put it in, and run that")
    if is_confirmed:
        return
    if not sys.stdin.isatty():
        raise InputError("nothing was run: there is no terminal to ask on", hint="--yes runs it")
    sys.stdout.write("This runs a program that the manifest chose. Run it? [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InputError("nothing was run")


def _checkout(run: str, name: str, state: Any) -> Iterator[str]:
    """Yield what brings one repository to the state it was in; several are left to the reader."""
    if not isinstance(state, dict):
        commits = [commit["commit"][:12] for commit in state if commit and "commit" in commit]
        found = ", ".join(commits)
        yield _comment(f"the captures were made with {name} at several states: {found}")
        return
    git = ["git", "-C", without_controls(state["folder"])]
    yield shlex.join([*git, "checkout", state["commit"]])
    if "diff" in state:
        is_cut = state.get("diff_is_cut", False)
        if is_cut or MASK in state["diff"]:
            why = "was too long to keep whole" if is_cut else "held a secret"
            yield _comment(f"{name} had changes that were not committed; their diff {why}")
        else:
            changes = shlex.join(["profkit", "reproduce", run, "--diff", name])
            yield f"{changes} | {shlex.join([*git, 'apply'])}"
    if state["untracked"]:
        yield _comment(f"not in the repository: {', '.join(state['untracked'])}")


def _comment(text: str) -> str:
    """Return one line that a shell does not run, whatever is in the text."""
    return f"# {without_controls(text)}"


def _diff(then: Manifest, name: str) -> str:
    state = then["git"].get(name)
    if not isinstance(state, dict):
        known = [repository for repository, found in then["git"].items() if isinstance(found, dict)]
        raise InputError(f"--diff {name}: no such repository", hint=f"known: {', '.join(known)}")
    return str(state.get("diff", ""))


def _run_again(path: Path, then: Manifest) -> int:
    """Make the run again in a folder of its own, and print the differences."""
    folder = _mirror(FOLDER / then["run"] / datetime.now(UTC).strftime("%Y%m%dT%H%M%S"))
    command = [sys.executable, "-m", "profkit", "run", *overrides(then)]
    variables = os.environ | environment(then)
    status = subprocess.run(command, cwd=folder, env=variables, check=False).returncode
    made = sorted((folder / RUNS).glob("*/manifest.json"))
    if status or not made:
        sys.stderr.write(f"the run failed; {folder} has what there is of it\n")
        return 1
    rows = list(differences(then, json.loads(made[0].read_bytes())))
    _print_differences(rows, path.parent, made[0].parent)
    return DIFFERENT if rows else 0


def _mirror(folder: Path) -> Path:
    """Make a folder that looks like this one, by links, but for results: those stay as they are."""
    folder.mkdir(parents=True)
    for path in Path.cwd().iterdir():
        if path.name not in ("results", ".snakemake"):
            (folder / path.name).symlink_to(path)
    return folder


def differences(then: Manifest, now: Manifest) -> Iterator[tuple[str, str, str, str]]:
    """Yield what differs between two manifests: part, what of it, then, now."""
    for part in ("configuration", "versions", "packages", "machine", "environment", "sources"):
        before, after = (dict(_flat(_part(manifest, part))) for manifest in (then, now))
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key):
                yield part, key, str(before.get(key, "")), str(after.get(key, ""))


def _part(manifest: Manifest, part: str) -> Any:
    if part == "configuration":
        return {key: manifest[key] for key in ("behaviour", "tools", "hardware")}
    if part == "sources":
        states = {
            name: {key: state.get(key) for key in _OF_GIT} if isinstance(state, dict) else state
            for name, state in manifest["git"].items()
        }
        return {**states, "script": manifest["script"].get("sha256")}
    return dict(manifest)[part]


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values inside of `value`, each with the path to it."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in items:
            if name not in _VARYING:
                yield from _flat(inner, f"{key}.{name}".removeprefix("."))
    else:
        yield key, value


def _print_differences(rows: Sequence[tuple[str, str, str, str]], then: Path, now: Path) -> None:
    """Print the differences as a table, and where both runs are."""
    console = Terminal(sys.stdout, markup=False, width=_WIDTH)
    if rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("", "what", "then", "now"):
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        console.print("configuration, versions, machine and sources are as they were")
    console.print(f"then: {then}\nnow:  {now}", soft_wrap=True)
