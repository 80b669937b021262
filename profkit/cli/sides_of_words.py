"""What the words of ``profkit compare`` ask for, before what captures and compares is loaded."""

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path

from profkit.analyze.shared.paired import FEWEST_PAIRS
from profkit.cli import profile
from profkit.core.errors import ConfigError, InputError
from profkit.planning.command_line import as_override
from profkit.planning.script_notes import placeholder, unread_by
from profkit.planning.sides import Sides, overrides_in

AUTO = 0
"""Number of pairs if the width of the interval decides."""


def sides_of_words(
    args: argparse.Namespace, command: Sequence[str], folders: Sequence[Path] = ()
) -> tuple[Sides, int]:
    """Return the sides that the command line describes, and how many pairs are wanted.

    `folders` are those in which the sides start, if they are not this one.
    """
    a, b = (overrides_in(f"--{side}", getattr(args, side) or "") for side in ("a", "b"))
    given, wanted = _without_repeats(args)
    if folders:
        a, b = (
            (f"launcher.cwd={folder}", *own) for folder, own in zip(folders, (a, b), strict=True)
        )
    if not command:
        a, b = (
            (*own, *([f"launcher.python={python}"] if python else []))
            for own, python in zip((a, b), _pythons(args), strict=True)
        )
        return Sides(common=tuple(given), a=a, b=b, coin=args.coin), wanted
    if (own := [*a, *b]) and not (folders or args.python) and unread_by(own, command) == own:
        raise ConfigError(
            f"{' and '.join(own)}: the command does not read that, so both sides would be the same",
            hint=f"write '{placeholder(own[0].partition('=')[0])}' where its value belongs: profkit"
            " compare --a batch=2 --b batch=4 -- python train.py --batch '${batch}'",
        )
    chosen = profile.overrides(given, command, is_whole=args.all, is_thorough=False)
    common = [word for word in chosen[:-1] if word != "repeats=1"]
    everything = [*given, *a, *b]
    commands = [as_override(_started_by(command, python), everything) for python in _pythons(args)]
    if commands[0] == commands[1]:
        common.append(commands[0])
    else:
        a, b = (*a, commands[0]), (*b, commands[1])
    return Sides(common=tuple(common), a=a, b=b, coin=args.coin), wanted


def _without_repeats(args: argparse.Namespace) -> tuple[list[str], int]:
    """Return the overrides of both sides, and the number of pairs: ``--pairs`` or ``repeats``."""
    given = [word for word in args.words if word.partition("=")[0] != "repeats"]
    named = [word.partition("=")[2] for word in args.words if word.startswith("repeats=")]
    if args.pairs is not None:
        return given, args.pairs
    if not named:
        return given, FEWEST_PAIRS
    if named[-1] != "auto" and not named[-1].isdigit():
        raise ConfigError(f"repeats={named[-1]}: a number of pairs, or auto")
    return given, AUTO if named[-1] == "auto" else int(named[-1])


def _pythons(args: argparse.Namespace) -> tuple[str, str]:
    """Return the Python of each side; empty for that of this environment."""
    if not args.python:
        return "", ""
    named = args.python.split(",")
    if len(named) > 2:  # noqa: PLR2004 - A and B
        raise InputError(f"--python {args.python}: name one, or one for each side")
    return named[0], named[-1]


def _started_by(command: Sequence[str], python: str) -> list[str]:
    """Return `command` with the program of the environment of `python` that it begins with."""
    if not python:
        return [*command]
    program = Path(python).absolute().parent / Path(command[0]).name
    if not program.is_file():
        raise InputError(f"--python {python}: {program} is not there", hint=shlex.join(command))
    return [str(program), *command[1:]]
