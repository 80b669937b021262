"""``profkit completion bash|zsh|fish``: what makes that shell complete profkit's command lines.

Add to ~/.bashrc: ``eval "$(profkit completion bash)"``; for zsh to ~/.zshrc, after ``compinit``;
for fish: ``profkit completion fish > ~/.config/fish/completions/profkit.fish``.
"""

import argparse
import importlib.util
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

_NAMES_OF_RUNS = ("show", "compare", "what-if", "gate", "why", "reproduce", "clean", "timeline")
"""Commands that take the name of a run."""

_SECTIONS = {"tools": "tool", "analyses": "analysis"}
"""Keys of the configuration that the options of a group fill in, each under its own name."""

_GROUPS = ("model", "workload", "launcher", "zero", "report")
"""Keys that the option of the group of the same name fills in."""

_OPTION = re.compile(r'add_argument\(\s*((?:"-[^"]*",?\s*)+)')
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
    found=("${(@f)$(profkit completion zsh --line "${BUFFER[1,CURSOR]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -Q -S '' -- "${found[@]}"; else _files; fi
}
compdef _profkit profkit
""",
    "fish": """\
complete -c profkit -a '(profkit completion fish --line (commandline -cp | string collect))'
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
        goes_on = word[-1] in "=." or ("[" in word and "]" not in word)
        end = "" if args.shell == "fish" or goes_on else " "
        sys.stdout.write(f"{word[cut:]}{end}\n")


def completions(line: str) -> list[str]:
    """Return the words that may stand at the end of `line`, in the place of its last one."""
    *before, last = re.split(r"\s+", line.lstrip())
    words = before[1:]
    if "--" in words:
        return []
    found = _words(words, last) if words else _first(last)
    return sorted({word for word in found if word.startswith(last)})


def _first(last: str) -> Iterator[str]:
    if last.startswith("-"):
        yield from ("--help", "--version")
    for title, commands in GROUPS.items():
        if title != JOBS_TITLE:
            yield from commands


def _words(words: Sequence[str], last: str) -> Iterator[str]:
    """Yield what may follow the command and the other `words` before the last one."""
    command = words[0]
    if command not in COMMANDS:
        return
    if last.startswith("-"):
        yield from ("--help", *_options(COMMANDS[command][0]))
        return
    if command in _NAMES_OF_RUNS:
        yield from (path.name for path in _RUNS.glob("*"))
    if command == "clean":
        yield from ("raw", "runs", "caches")
    if command == "completion":
        yield from _SCRIPTS
    if command == "list":
        from profkit.cli.list_options import kinds  # noqa: PLC0415 - imports what draws tables

        yield from kinds()
    if command in _OVERRIDES:
        yield from _overrides(last)


def _options(module: str) -> Iterator[str]:
    """Yield the options that the source of a command declares: to import it may take seconds."""
    spec = importlib.util.find_spec(module)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    for declared in _OPTION.findall(source):
        yield from _FLAG.findall(declared)
    for shared in _SHARED.findall(source):
        yield from _options(shared)


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
        return
    yield from (f"{sign}{group}=" for group in groups)
    *parents, _ = key.split(".")
    yield from (f"{sign}{'.'.join([*parents, name])}" for name in _keys(parents))


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
