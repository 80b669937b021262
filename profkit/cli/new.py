"""``profkit new KIND NAME``: write the files of a plugin, to be changed into one's own.

In the root of a checkout of profkit they go where profkit's own lie; elsewhere they make a package
of one's own, in a folder called after the plugin.
"""

import argparse
import keyword
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from profkit.cli import new_files
from profkit.core import registry, resources
from profkit.core.errors import ConfigError
from profkit.core.settings import known

_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True)
class _Kind:
    """Where the plugins of one kind lie."""

    group: str
    """Package of profkit's own, and entry point group of other packages'."""

    override: str
    """What precedes a name to use it in a run."""

    @property
    def folder(self) -> Path:
        """Folder of the modules, and below ``tests`` that of their tests."""
        return Path(*self.group.split("."))


_KINDS = {
    "analysis": _Kind("profkit.analyze", "analysis="),
    "tool": _Kind("profkit.capture", "+tool="),
    "model": _Kind("profkit.workloads.models", "model="),
}


def main(argv: Sequence[str]) -> None:
    """Write the files; write nothing if a plugin of that name, or one of its files, is there."""
    parser = argparse.ArgumentParser(prog="profkit new", description=__doc__)
    parser.add_argument("kind", help=f"{', '.join(_KINDS)}")
    parser.add_argument("name", help="name of its module, its configuration and its results")
    args = parser.parse_args(argv)
    kind = known("kind of plugin", args.kind, _KINDS)
    _check_name(args.kind, kind, args.name)
    in_checkout = Path.cwd().resolve() == resources.SNAKEFILE.parent.resolve()
    found = _in_checkout if in_checkout else _package
    files = dict(found(args.kind, kind, args.name))
    new_files.write(files)
    tests = next(path for path in files if path.name == f"test_{args.name}.py")
    if not in_checkout:
        tests = tests.parent
        sys.stdout.write(f"try: pip install -e {tests.parent}\n")
    sys.stdout.write(f"try: python -m pytest {tests}\n")
    sys.stdout.write(f"try: profkit run {kind.override}{args.name}\n")


def _check_name(word: str, kind: _Kind, name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConfigError(
            f"{name!r} cannot name a module of Python",
            hint="begin with a letter; take lower-case letters, digits and underscores",
        )
    taken = {"base", *registry.module_names(kind.group)}
    taken |= {path.stem for path in resources.options(word)}
    if name in taken:
        raise ConfigError(f"there is {word} {name!r} already", hint="see `profkit list`")


def _in_checkout(word: str, kind: _Kind, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a plugin of profkit itself, by path."""
    folder = kind.folder
    tests = Path("tests", *folder.parts[1:])
    values = _values(word, kind, name, kind.group)
    yield folder / f"{name}.py", _filled(f"{word}/plugin.py.in", values)
    yield Path("conf", word, f"{name}.yaml"), _filled(f"{word}/conf.yaml.in", values)
    yield tests / f"test_{name}.py", _filled(f"{word}/test.py.in", values)


def _package(word: str, kind: _Kind, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a package with one plugin, by path; its defaults are its configuration."""
    package = f"profkit_{name}"
    folder = Path(package.replace("_", "-"))
    values = _values(word, kind, name, package)
    yield folder / "pyproject.toml", _filled("package/pyproject.toml.in", values)
    yield folder / package / "__init__.py", _filled("package/__init__.py.in", values)
    yield folder / package / f"{name}.py", _filled(f"{word}/plugin.py.in", values)
    yield folder / "tests" / f"test_{name}.py", _filled(f"{word}/test.py.in", values)
    yield folder / "tests" / "test_contract.py", _filled("package/test_contract.py.in", values)


def _values(word: str, kind: _Kind, name: str, package: str) -> dict[str, str]:
    lower = name.replace("_", " ")
    return {
        "kind": word,
        "name": name,
        "lower": lower,
        "title": lower[0].upper() + lower[1:],
        "dashed": name.replace("_", "-"),
        "package": package,
        "group": kind.group,
    }


def _filled(template: str, values: dict[str, str]) -> str:
    return Template((_TEMPLATES / template).read_text(encoding="utf-8")).substitute(values)
