"""Write the comment above each setting in ``conf/`` from the docstring of its field: ``make yaml``.

The lines above a key of a settings dataclass are the field's docstring, and its choices where that
does not name them. All else stays: the first lines of a file, comments above other keys, and what
stands behind a value, which is where to say what is true of one option only.
"""

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import yaml

from profkit.analyze import analyses
from profkit.capture import tools
from profkit.core import resources
from profkit.planning.build import settings_class
from profkit.planning.configuration import Configuration
from profkit.report.settings import Settings as ReportSettings

_KEY = re.compile(r"( *)(\w+):")
_WIDTH = 100


def files(conf: Path = resources.CONF) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each file of settings with the settings class of each of its sections.

    The section "" is the top of the file.
    """
    yield conf / "config.yaml", {"": Configuration}
    yield conf / "report" / "default.yaml", {"": ReportSettings}
    for name, tool in tools().items():
        yield conf / "tool" / f"{name}.yaml", {"": tool}
    for name, analysis in analyses().items():
        yield conf / "analysis" / f"{name}.yaml", {"": analysis.config}
    for group in ("workload", "model", "zero", "launcher"):
        for path in sorted((conf / group).glob("*.yaml")):
            values = yaml.safe_load(path.read_text())
            # One that also chooses in other groups is written from the top.
            section = group if group in values else ""
            values = values.get(group, values)
            yield path, {section: settings_class(group, values.get("family", path.stem))}


def commented(text: str, sections: Mapping[str, Any]) -> str:
    """Return the YAML `text` with the comments of the fields of `sections`."""
    # Kind of the section that each indentation is in, from the outermost.
    kinds: dict[int, Any] = {0: sections.get("")}
    lines: list[str] = []
    for line in text.splitlines():
        if match := _KEY.match(line):
            indent, key = len(match[1]), match[2]
            kinds = {depth: kind for depth, kind in kinds.items() if depth <= indent}
            kind = kinds.get(indent)
            comments = _comments(kind) if is_dataclass(kind) else {}
            if key in comments:
                while lines and lines[-1].lstrip().startswith("#"):
                    lines.pop()
                prefix = f"{match[1]}# "
                lines += textwrap.wrap(
                    comments[key], _WIDTH, initial_indent=prefix, subsequent_indent=prefix
                )
            kinds[indent + 2] = _types(kind).get(key) if is_dataclass(kind) else sections.get(key)
        lines.append(line)
    return "\n".join(lines) + "\n"


def _types(kind: Any) -> dict[str, Any]:
    return {field.name: field.type for field in fields(kind)}


def _comments(kind: Any) -> dict[str, str]:
    """Return the docstring of each field of `kind` that has one, with choices it does not name."""
    comments = {}
    for name, text in _docstrings(kind).items():
        choices = dict.fromkeys(str(choice) for choice in _choices(_types(kind).get(name)))
        choices.pop("", None)
        is_named = all(re.search(rf"(?<![\w-]){choice}(?![\w-])", text) for choice in choices)
        comments[name] = text if is_named else f"{text} Choices: {', '.join(choices)}."
    return comments


@cache
def _docstrings(kind: Any) -> dict[str, str]:
    """Return the docstring under each field of `kind` and of the classes that it inherits."""
    found = {}
    classes: list[type] = kind.mro()
    for base in filter(is_dataclass, reversed(classes)):
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        for field, text in pairwise(typing.cast("ast.ClassDef", definition).body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(docstring))),
                ):
                    found[name] = " ".join(docstring.split()).replace("``", "`")
    return found


def _choices(kind: Any) -> Iterator[object]:
    """Yield the values of a type that is a ``Literal``, or a tuple of them."""
    if typing.get_origin(kind) is Literal:
        yield from typing.get_args(kind)
    elif typing.get_origin(kind) is tuple:
        for part in typing.get_args(kind):
            yield from _choices(part)


if __name__ == "__main__":
    for path, sections in files():
        path.write_text(commented(path.read_text(), sections))
