"""``profkit completion bash|zsh|fish``: what makes that shell complete profkit's command lines.

Add to ~/.bashrc: ``eval "$(profkit completion bash)"``; for zsh to ~/.zshrc, after ``compinit``;
for fish: ``profkit completion fish > ~/.config/fish/completions/profkit.fish``.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from profkit.cli import COMMANDS, GROUPS, JOBS_TITLE
from profkit.core import resources
from profkit.core.settings import known

_RUNS = Path("results/runs")
_OVERRIDES = ("run", "plan", "import", "profile", "why")
"""Commands that take overrides."""

_NAMES_OF_RUNS = (
    *("show", "compare", "what-if", "gate", "why", "reproduce", "clean", "timeline", "open"),
    *("export", "history"),
)
"""Commands that take the name of a run."""

_FILES = ("show", "import", "open", "why")
"""Commands that take files."""

_PROGRAMS = ("profile", "compare", "bisect", "plan")
"""Commands that take one of the user's own behind ``--``."""

_SECTIONS = {"tools": "tool", "analyses": "analysis"}
"""Keys of the configuration that the options of a group fill in, each under its own name."""

_GROUPS = ("model", "workload", "launcher", "zero", "report")
"""Keys that the option of the group of the same name fills in."""

_DECLARED = re.compile(r'add_argument\(\s*((?:"-[^"]*",?\s*)+)(.*?)\)\n', re.DOTALL)
_CHOICES = re.compile(r"choices=\(([^)]*)\)")
_WITHOUT_VALUE = 'action="store_true"'
_QUOTED = re.compile(r'"([^"]*)"')
_ENUMERATED = re.compile(r"^    (\w+): Literal\[([^\]]*)\]", re.MULTILINE)
"""A setting with the values that it may have."""

_SETTINGS = ("profkit.core.run_settings", "profkit.workloads.runtime.request")
"""Modules that declare keys of ``conf/config.yaml``."""

_KIND = re.compile(r'Importable\(\s*word="(\w+)"')
_QUOTES = ("'", '"')
_SPECIAL = re.compile(r"[^\w@%+=:,./~-]")
"""What a shell gives a meaning in a name."""

_PACKAGE = Path(__file__).parents[1]
_SAVE = ["baseline", "save"]
"""Words of a command that a name, and then a run may follow."""

_SHARED = re.compile(r"from (profkit\.cli\.\w+) import add_")
"""An import of options that several commands have."""

_FLAG = re.compile(r'"(-[^"]*)"')
_SCRIPTS = {
    "bash": """\
_profkit() {
    local IFS=$'\\n'
    COMPREPLY=($(profkit completion bash --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o nospace -o bashdefault -o default -F _profkit profkit
""",
    "zsh": """\
#compdef profkit
_profkit() {
    local -a found
    local line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    found=("${(@f)$(profkit completion zsh --line "$line" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -Q -S '' -- "${found[@]}"; else _files; fi
}
compdef _profkit profkit
""",
    "fish": """\
complete -c profkit -f -a '(profkit completion fish --line (commandline -cp | string collect))'
""",
}


def main(argv: Sequence[str]) -> None:
    """Print the script, or the words that may end the line that the script asks about."""
    parser = argparse.ArgumentParser(
        prog="profkit completion",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", help=", ".join(_SCRIPTS))
    parser.add_argument("--line", help="the command line before the cursor")
    args = parser.parse_args(argv)
    script = known("shell", args.shell, _SCRIPTS)
    if args.line is None:
        sys.stdout.write(script)
        return
    last = re.split(r"\s", args.line)[-1]
    # bash takes these for the ends of words, and replaces what follows them only.
    cut = max(map(last.rfind, "=:")) + 1 if args.shell == "bash" else 0
    for word in completions(args.line):
        # What goes on after a sign has no space behind it.
        goes_on = word[-1] in "=./" or ("[" in word and "]" not in word)
        # Nor has one in quotes, which it would be a part of.
        end = "" if args.shell == "fish" or goes_on or last[:1] in _QUOTES else " "
        # A name with spaces; brackets of overrides are to be read.
        typed = word if "=" in word or args.shell == "fish" else _SPECIAL.sub(r"\\\g<0>", word)
        sys.stdout.write(f"{typed[cut:]}{end}\n")


def completions(line: str) -> list[str]:
    """Return the words that may stand at the end of `line`, in the place of its last one."""
    *before, last = re.split(r"\s+", line.lstrip())
    words, last = before[1:], last.lstrip("".join(_QUOTES))
    if "--" in words:
        found = _of_program(words, last)
    else:
        found = _words(words, last) if words else _first(last)
    return sorted({word for word in found if word.startswith(last)})


def _of_program(words: Sequence[str], last: str) -> Iterator[str]:
    """Yield what may follow a ``--`` among `words`: a command of the user's, and files."""
    if words[0] not in _PROGRAMS:
        return
    yield from _files(last)
    if words[-1] == "--" and last and "/" not in last:
        for folder in map(Path, os.get_exec_path()):
            if folder.is_dir():
                found = (path for path in folder.iterdir() if path.name.startswith(last))
                yield from (path.name for path in found if os.access(path, os.X_OK))


def _files(last: str) -> Iterator[str]:
    """Yield the files, and the folders with a sign that goes on, whose path begins with `last`."""
    folder, sign, name = last.rpartition("/")
    inside = Path(folder + sign).expanduser()
    for path in inside.iterdir() if inside.is_dir() else ():
        if name.startswith(".") or not path.name.startswith("."):
            yield f"{folder}{sign}{path.name}{'/' if path.is_dir() else ''}"


def _first(last: str) -> Iterator[str]:
    if last.startswith("-"):
        yield from ("--help", "--version")
    for title, commands in GROUPS.items():
        if title != JOBS_TITLE:
            yield from commands


def _words(words: Sequence[str], last: str) -> Iterator[str]:
    """Yield what may follow the command and the other `words` before the last one."""
    command = words[0]
    options = _options(COMMANDS[command][0]) if command in COMMANDS else {}
    if last.startswith("-"):
        yield from ("--help", *options)
        return
    declared = options.get(words[-1], _WITHOUT_VALUE)
    if _WITHOUT_VALUE not in declared:
        yield from (one for listed in _CHOICES.findall(declared) for one in _QUOTED.findall(listed))
        return
    if words == ["import"]:
        yield from _kinds_of_files()
        return
    yield from _words_of_one_command(words)
    if command in _NAMES_OF_RUNS or (words[:2] == _SAVE and len(words) > len(_SAVE)):
        yield from (path.name for path in _RUNS.glob("*"))
    if command in _FILES:
        yield from _files(last)
    if command in _OVERRIDES:
        yield from _overrides(last)


def _words_of_one_command(words: Sequence[str]) -> Iterator[str]:
    """Yield words that only this command takes."""
    if words[0] == "clean":
        yield from ("raw", "runs", "caches")
    elif words == ["completion"]:
        yield from _SCRIPTS
    elif words == ["baseline"]:
        yield from ("save", "list")
    elif words == ["help"]:
        yield from _first("")
    elif words == ["list"]:
        from profkit.cli.list_options import kinds  # noqa: PLC0415 - imports what draws tables

        yield from kinds()


def _options(module: str) -> dict[str, str]:
    """Return the options that the source of a command declares, with what it says of each.

    To import it may take seconds.
    """
    source = _source(module)
    found = {
        flag: about for flags, about in _DECLARED.findall(source) for flag in _FLAG.findall(flags)
    }
    for shared in _SHARED.findall(source):
        found |= _options(shared)
    return found


def _source(module: str) -> str:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _kinds_of_files() -> Iterator[str]:
    """Yield the kinds of files that converters say can be imported."""
    for path in (_PACKAGE / "convert").glob("*/__init__.py"):
        yield from _KIND.findall(path.read_text(encoding="utf-8"))


def _overrides(last: str) -> Iterator[str]:
    """Yield overrides that begin like `last`: options of groups, and keys of the configuration."""
    sign = last[:1] if last[:1] in ("+", "~") else ""
    key, equals, value = last.removeprefix(sign).partition("=")
    groups = dict.fromkeys(
        path.name for folder in resources.folders() for path in folder.iterdir() if path.is_dir()
    )
    if equals:
        if key in groups:
            # Of a list of options, the last one is being written.
            begun = value[: max(map(value.rfind, "[,")) + 1]
            options = (path.stem for path in resources.options(key))
            yield from (f"{sign}{key}={begun}{option}" for option in options)
        if key == "imports":
            yield from (f"imports=[{path.name}]" for path in _RUNS.glob("*"))
        yield from (f"{sign}{key}={one}" for one in _values(key))
        return
    yield from (f"{sign}{group}=" for group in groups)
    *parents, _ = key.split(".")
    yield from (f"{sign}{'.'.join([*parents, name])}" for name in _keys(parents))


def _values(key: str) -> Iterator[str]:
    """Yield the values of a setting that has only some."""
    *parents, name = key.split(".")
    is_of_tool = len(parents) > 1 and parents[0] == "tools"
    for module in (
        (f"profkit.capture.{parents[1]}",) if is_of_tool else () if parents else _SETTINGS
    ):
        for setting, values in _ENUMERATED.findall(_source(module)):
            if setting == name:
                yield from _QUOTED.findall(values)


def _keys(parents: Sequence[str]) -> Iterator[str]:
    """Yield the keys below `parents` in the configuration, with the sign that goes on."""
    if not parents:
        yield from _signed(_read(resources.CONF / "config.yaml"))
        yield from (f"{group}." for group in (*_GROUPS, *_SECTIONS))
        return
    first, *others = parents
    if group := _SECTIONS.get(first):
        if not others:
            yield from (f"{path.stem}." for path in resources.options(group))
            return
        paths = [path for path in resources.options(group) if path.stem == others[0]]
        others = others[1:]
    elif first in _GROUPS:
        # Which option will be chosen is not known here: what any of them has.
        paths = list(resources.options(first))
    else:
        paths, others = [resources.CONF / "config.yaml"], list(parents)
    tree: Any = {key: value for path in paths for key, value in _read(path).items()}
    for other in others:
        tree = tree.get(other) if isinstance(tree, dict) else None
    yield from _signed(tree if isinstance(tree, dict) else {})


def _signed(tree: dict[str, Any]) -> Iterable[str]:
    return (
        f"{key}{'.' if value and isinstance(value, dict) else '='}" for key, value in tree.items()
    )


def _read(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, without the list of defaults."""
    from profkit.core.yaml_files import read_yaml  # noqa: PLC0415 - most words need none

    found = read_yaml(path) or {}
    return {key: value for key, value in found.items() if key != "defaults"}
