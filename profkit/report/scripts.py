"""The page's modules as one script, each in a scope of its own, after those that it imports.

A page that opens from a file can load no module. Modules import and export by name alone; their
comments, indentation and most ends of lines stay behind, which are half of them.
"""

import re
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

_IMPORT = re.compile(r'^import (\{[^}]*\}) from "(\.{1,2}/[\w./]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*//.*\n|/\*\*[\s\S]*?\*/[ \t]*", re.MULTILINE)
# Behind these no statement can end for want of a semicolon.
_OPEN = (",", ";", "{", "(", "[")
_LEFT = re.compile(r"(import|export)\b")


def joined(folder: Traversable, entry: str) -> str:
    """Return the module `entry` of `folder` with all that it imports, as one script.

    Raises:
        ValueError: A module imports or exports in another form, or itself, or a template literal in
            it has several lines.

    """
    scopes: dict[PurePosixPath, str] = {}
    _collect(folder, PurePosixPath(entry), scopes, ())
    named = (f"const ${number} = {text}" for number, text in enumerate(scopes.values()))
    return '(() => {\n"use strict";\n' + "\n".join(named) + "\n})();"


def _collect(
    folder: Traversable,
    module: PurePosixPath,
    scopes: dict[PurePosixPath, str],
    above: tuple[PurePosixPath, ...],
) -> None:
    """Put the scope of `module` into `scopes`, after those of what it imports."""
    if module in above:
        raise ValueError(f"{module}: imports itself by way of {', '.join(map(str, above))}")
    if module in scopes:
        return
    text = folder.joinpath(*module.parts).read_text(encoding="utf-8")
    for found in _IMPORT.finditer(text):
        _collect(folder, _beside(module, found[2]), scopes, (*above, module))
    exported = ",".join(found[1] for found in _EXPORT.finditer(text))
    places = {path: number for number, path in enumerate(scopes)}
    body = _IMPORT.sub(
        lambda found: f"const {''.join(found[1].split())}=${places[_beside(module, found[2])]};",
        text,
    )
    lines = []
    for line in map(str.strip, _COMMENT.sub("", _EXPORT.sub("", body)).splitlines()):
        if _LEFT.match(line):
            raise ValueError(f"{module}: only named imports and exports: {line}")
        if line.count("`") % 2:
            raise ValueError(f"{module}: a template literal must end on its line: {line}")
        is_open = line.endswith(_OPEN) and "//" not in line
        lines.append(line if is_open or not line else f"{line}\n")
    scopes[module] = f"(() => {{\n{''.join(lines)}return {{{exported}}};\n}})();"


def _beside(module: PurePosixPath, path: str) -> PurePosixPath:
    """Return where `path` leads from the folder of `module`."""
    parts = list(module.parent.parts)
    for part in PurePosixPath(path).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)
