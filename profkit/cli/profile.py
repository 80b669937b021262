"""``profkit profile [OVERRIDES] -- COMMAND...``: run any command as typed, and say what is slow."""

import argparse
import array
import fcntl
import os
import shlex
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile

from profkit.cli import run
from profkit.cli.loudness import add_loudness
from profkit.cli.program_link import linked_program
from profkit.core.errors import ConfigError
from profkit.planning import script_notes
from profkit.planning.command_line import as_override
from profkit.workloads.runtime import command_words

_INPUT = 0
_OF_HOSTS = {"launcher.nnodes", "launcher.across", "launcher.hosts"}
_ENOUGH_STEPS = 20
_ENOUGH_S = 2.0
"""Steps after which the program is ended: some to warm up, those that are recorded, and others to
compare their time with."""

_ABOUT = """\
Runs COMMAND twice: as it is, and under torch.profiler; then makes results/report.html. Whatever
starts your training can stand behind the --: python, torchrun, accelerate, bash, ./train.sh, ...

OVERRIDES are those of `profkit run`. Several values make several runs, to be compared:
  profkit profile batch=2,4 -- python train.py --batch '${batch}'

After a change of the program, the same line again says what its step time was before that. Where
nothing has changed, it prints what was found before: --again records that anew.

The exit status is that of COMMAND, of the first run in which it is not 0; 1 if profkit failed.
Ctrl-C ends the program, and the report is made of what was recorded until then (exit status 130);
so does SIGTERM, as of `timeout` (143).
"""


def main(argv: Sequence[str]) -> int:
    """Profile a command, and print what was found."""
    own, words = _split(argv)
    parser = argparse.ArgumentParser(
        prog="profkit profile",
        usage="profkit profile [--all] [--thorough] [--again] [OVERRIDES] -- COMMAND...",
        description=_ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("overrides", nargs="*", help="Hydra overrides and sweeps")
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"let the program run to its end, not only for {_ENOUGH_STEPS} steps and two seconds",
    )
    about = "all default tools, and each that times the program three times"
    parser.add_argument("--thorough", action="store_true", help=about)
    run.add_again(parser)
    run.add_cores(parser)
    add_loudness(parser)
    args = parser.parse_intermixed_args(own)
    if _has_input():
        sys.stderr.write(
            "note: what stands in the standard input is not passed on to the program, which is"
            " started more than once: give it the name of a file instead\n"
        )
    chosen = overrides(args.overrides, words, is_whole=args.all, is_thorough=args.thorough)
    try:
        with linked_program() as link:
            status = run.produce(chosen, (), args, link)
    except ConfigError as error:
        # The person has typed no such key.
        raise ConfigError(str(error).removeprefix("workload.command: ")) from None
    if link.ended_by and args.all:
        sys.stderr.write(
            f"without --all a program is ended after {_ENOUGH_STEPS} steps, and two seconds of"
            " them: one that has no end needs no Ctrl-C then\n"
        )
    if not (status or args.quiet):
        sys.stdout.writelines(f"{line}\n" for line in _offers(args))
    return status


def _has_input() -> bool:
    """Say whether anything can be read of the standard input, but what a person types."""
    if os.isatty(_INPUT):
        return False
    waiting = array.array("i", [0])
    with suppress(OSError):  # a descriptor that is closed, or of what has no such number
        fcntl.ioctl(_INPUT, termios.FIONREAD, waiting)
    return waiting[0] > 0


def _offers(args: argparse.Namespace) -> Iterator[str]:
    if not args.thorough:
        yield "more: --thorough repeats it, and records the memory of each layer and allocation"
    if not args.all:
        yield (
            f"--all lets the program run to its end, so that what it does seldom, such as\n"
            f"evaluation, is seen: without it, it is ended after {_ENOUGH_STEPS} steps and two"
            f" seconds of them\n(or {_ENOUGH_STEPS // 2} in 20 s)"
        )


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what stands before and behind the first ``--``."""
    own, command = run.split(argv)
    if not command and not {"-h", "--help"} & {*own}:
        options = [*takewhile(lambda word: word.startswith("-") or "=" in word, own)]
        typed = shlex.join([*options, "--", *(own[len(options) :] or ["python", "train.py"])])
        raise ConfigError(
            "profile: no command is given",
            hint=f"write it behind --, as in: profkit profile {typed}",
        )
    if command_words.reads_program(command) and not sys.stdin.isatty():
        raise ConfigError(
            f"{shlex.join(command)}: it reads its program from the standard input, which several"
            " captures cannot share",
            hint="write the program to a file: profkit profile -- python train.py",
        )
    return own, command


def overrides(
    given: Sequence[str], words: Sequence[str], *, is_whole: bool, is_thorough: bool
) -> list[str]:
    """Return the overrides that profile `words`; those `given` go before any default."""
    keys = {word.lstrip("+~").partition("=")[0] for word in given}
    if taken := keys & {"workload", "workload.command", "imports"}:
        raise ConfigError(
            f"{' '.join(sorted(taken))}: what profile runs is the command behind --",
            hint="profkit run runs other workloads",
        )
    if swept := script_notes.swept_in_vain(given, words):
        name = swept.partition("=")[0]
        raise ConfigError(
            f"{swept}: the command does not read {name}, so all of these runs would be the same",
            hint=f"write '{script_notes.placeholder(name)}' where its value belongs, as in:"
            " profkit profile batch=2,4 -- python train.py --batch '${batch}'",
        )
    if "launcher" not in keys and (of_hosts := keys & _OF_HOSTS):
        raise ConfigError(
            f"{' '.join(sorted(of_hosts))}: the command behind -- starts its ranks itself, on all"
            " hosts",
            hint="say it there: profkit profile -- torchrun --nnodes 2 --nproc-per-node 8 train.py",
        )
    defaults = {"launcher": "command"}
    if not is_whole:
        defaults["workload.stop_after"] = str(_ENOUGH_STEPS)
        if "workload.stop_after" not in keys:
            defaults["workload.stop_after_s"] = str(_ENOUGH_S)
    if not is_thorough:
        defaults |= {"toolset": "first", "repeats": "1"}
    chosen = [f"{key}={value}" for key, value in defaults.items() if key not in keys]
    return ["workload=script", *chosen, *given, as_override(words, given)]
