"""Hash of the syntax of a source file, its imports, and whether it reads assets.

The hash is that of the syntax tree without docstrings, comments and layout. To parse a file takes
5 ms, and every job needs tens of them, so they are cached for the user, by the bytes of the file.
"""

import ast
import hashlib
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from profkit.core.cache_file import read_cached, write_cached

_MOST_KEPT = 2000
"""Entries of the cache beyond which the oldest go: those of code that was edited since."""

ASSETS = "assets"
"""Folder beside a module with the files that it reads: templates, styles, scripts."""


class Import(msgspec.Struct, frozen=True):
    """One import, wherever in the file it stands."""

    names: tuple[str, ...]
    """Modules, or names of the module `source`."""

    source: str | None = None
    """The module that names are taken from; None for a plain import."""

    level: int = 0
    """Dots before `source`."""

    bound: tuple[str, ...] = ()
    """What a ``from`` import calls `names` in the module; nothing inside a function or class."""


class Syntax(msgspec.Struct, frozen=True):
    """Hash, imports and assets of one source file."""

    hash: str
    """Hash of the syntax tree without its bare strings."""

    imports: tuple[Import, ...]

    names_assets: bool
    """Whether the code names the folder `ASSETS`, or a file in it: it then reads them."""


def kept() -> Path:
    """Return the folder of the cache, a file per source file; $PROFKIT_CACHE has it elsewhere."""
    if own := os.environ.get("PROFKIT_CACHE"):
        return Path(own, "syntax")
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "profkit" / "syntax"


@cache
def syntax(path: Path) -> Syntax:
    """Return the syntax of the file at `path`; read once in each process."""
    content = path.read_bytes()
    entry = kept() / f"{_key(content)}.cache"
    if (written := read_cached(entry)) is not None:
        return msgspec.json.decode(written, type=Syntax)
    found = _parsed(content, path)
    with suppress(OSError):  # a home that cannot be written, or is full: it is parsed each time
        write_cached(entry, msgspec.json.encode(found))
    return found


def forget_old() -> None:
    """Remove the oldest entries of the cache if there are too many."""
    with suppress(OSError):
        entries = sorted(kept().glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)
        for old in entries[:-_MOST_KEPT]:
            old.unlink(missing_ok=True)


def _key(content: bytes) -> str:
    """Return a hash of `content`, of this module, and of the version of Python's syntax."""
    digest = hashlib.sha256(_own())
    digest.update(f"{sys.version_info[:2]}".encode())
    digest.update(content)
    return digest.hexdigest()[:32]


@cache
def _own() -> bytes:
    return Path(__file__).read_bytes()


def _parsed(content: bytes, path: Path) -> Syntax:
    tree = ast.parse(content, filename=str(path))
    reader = _Reader(_of_module(tree))
    tree = reader.visit(tree)
    digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]
    return Syntax(hash=digest, imports=tuple(reader.imports), names_assets=_names_assets(tree))


def _names_assets(tree: ast.AST) -> bool:
    """Say whether a text in the code is the folder `ASSETS` or lies in it; docstrings are gone."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return any(isinstance(text, str) and text.partition("/")[0] == ASSETS for text in texts)


def _of_module(tree: ast.Module) -> set[ast.stmt]:
    """Return the statements at the top of a module, also those below an ``if TYPE_CHECKING``."""
    branches = [node.body for node in tree.body if isinstance(node, ast.If)]
    return {node for body in (tree.body, *branches) for node in body}


class _Reader(ast.NodeTransformer):
    """Removes docstrings, of attributes too, and collects imports.

    Strings that stand alone do nothing.
    """

    def __init__(self, of_module: set[ast.stmt]) -> None:
        self.of_module = of_module
        self.imports: list[Import] = []

    def visit(self, node: ast.AST) -> Any:
        """Visit statements alone: below an expression there are none."""
        return node if isinstance(node, ast.expr) else super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        """Drop `node` if it is a string."""
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node

    def visit_Import(self, node: ast.Import) -> ast.Import:
        """Note `node`."""
        self.imports.append(Import(names=_names(node)))
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        """Note `node`."""
        called = tuple(alias.asname or alias.name for alias in node.names)
        found = Import(
            names=_names(node),
            source=node.module or "",
            level=node.level,
            bound=called if node in self.of_module else (),
        )
        self.imports.append(found)
        return node


def _names(node: ast.Import | ast.ImportFrom) -> tuple[str, ...]:
    return tuple(alias.name for alias in node.names)
