"""Fingerprints of the code behind a result, without its comments and formatting.

The hash of a module is that of its syntax alone, see `profkit.core.source_hash`. The fingerprint of
a plugin covers the modules that it imports, directly or not, as far as they belong to profkit or to
the plugin's own package, and the versions of the other packages that these use. The ``__init__`` of
a package counts only when a name is taken from it: importing a package's module runs it, but does
not use it. A name that a module itself imports from another one, as `profkit.api` does with all of
its names, is taken from the module that defines it: the one between counts for nothing.
"""

import hashlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from profkit.core import registry
from profkit.core.checksums import sha256
from profkit.core.result import Provenance
from profkit.core.source_hash import ASSETS, Import, syntax

TIMELINE_CODE = ("profkit.timeline", "profkit.timeline.merge_ranks")
"""The stage and the module of the code behind a timeline."""

HISTORY_CODE = ("", "profkit.cli.measured_history")
"""The same of the history of saved results, which a command makes that is no stage."""

ROOMS_OF_PLUGINS = frozenset({"profkit.patterns"})
"""Packages whose plugins work together in one job, so that a change of one makes it stale."""


def provenance(
    stage: str,
    module: str,
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
    run_parameters: Mapping[str, Any] = MappingProxyType({}),
) -> Provenance:
    """Return the provenance of a result that `module` of `stage` makes now.

    `inputs` are the SHA-256 of its input files, by path.
    """
    modules, packages = closure(stage, module)
    return Provenance(
        settings=dict(settings),
        modules=modules,
        packages=packages,
        inputs=dict(inputs),
        run_parameters=dict(run_parameters),
    )


def fingerprint(stage: str, module: str) -> str:
    """Return one hash over the closure of `module`, for Snakemake to compare."""
    text = json.dumps(closure(stage, module), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def closure(stage: str, module: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the hash of each module and asset behind `module`, and the version of each package.

    Behind what takes a name from `ROOMS_OF_PLUGINS` are all plugins that are found there.

    The edge of `stage` (``profkit.analyze.__main__`` for ``profkit.analyze``) belongs to it, and
    what the edge imports of its own stage, but nothing else that the edge imports: that reads and
    writes files, and would make every result depend on every module.
    """
    own = frozenset({"profkit", module.partition(".")[0]})
    modules, packages = _behind(module, own, tuple(f"{top}." for top in own))
    if stage:
        modules |= _behind(f"{stage}.__main__", own, (f"{stage}.",))[0]
    return dict(sorted(modules.items())), _versions(packages)


def _behind(
    module: str, own: frozenset[str], followed: tuple[str, ...]
) -> tuple[dict[str, str], set[str]]:
    """Return the hash of `module` and of each module behind it, and the other packages it imports.

    Behind it are the modules whose names begin with one of `followed`.
    """
    pending = [module]
    modules: dict[str, str] = {}
    packages: set[str] = set()
    while pending:
        name = pending.pop()
        if name in modules:
            continue
        path = _path(name)
        modules[name] = syntax(path).hash
        for imported in imports(path, name, own):
            if f"{imported}.".startswith(followed):
                pending.append(imported)
            else:
                packages.add(imported.partition(".")[0])
        modules.update(_assets(path, name))
        if name in ROOMS_OF_PLUGINS:
            pending.extend(registry.module_names(name).values())
    return modules, packages


def _assets(path: Path, module: str) -> dict[str, str]:
    """Return the hash of each asset of `module`, by its path from the folder of packages.

    Assets are the files in the folder ``assets`` beside a module whose code names that folder: a
    changed script makes stale what was made by the modules that read it, and nothing else.
    """
    folder = path.parent / ASSETS
    if not syntax(path).names_assets or not folder.is_dir():
        return {}
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    room = PurePosixPath(*package.split("."))
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(room / file.relative_to(path.parent)): sha256(file)[:16] for file in files}


def _versions(packages: set[str]) -> dict[str, str]:
    third_party = sorted(packages - sys.stdlib_module_names)
    return {name: version for name in third_party if (version := _version(name))}


@cache
def _version(package: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - a job begins without it

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        # Only for names like yaml (PyYAML), as every distribution has to be looked at.
        return _version_of_owner(package)


def _version_of_owner(package: str) -> str:
    """Return the version of the distribution that lists files of `package`, "" if none does.

    `importlib.metadata.packages_distributions` gives the same, but parses every list of files and
    every description, which takes half a second.
    """
    from importlib import metadata  # noqa: PLC0415 - as above

    listed = re.compile(rf"^{re.escape(package)}(?:/|\.py\b|\.[\w.-]+\.(?:so|pyd)\b)", re.MULTILINE)
    declared = re.compile(rf"^{re.escape(package)}$", re.MULTILINE)
    # The lists of files of all distributions take ten times as long to read as what they declare.
    for file, owns in (("top_level.txt", declared), ("RECORD", listed)):
        for distribution in metadata.distributions():
            if owns.search(distribution.read_text(file) or ""):
                return distribution.version
    return ""


@cache
def _root(top: str) -> Path:
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(top)
    return Path(spec.origin)


@cache
def _path(module: str) -> Path:
    """Return the source file of `module`; looked up by path, because importing it costs time."""
    top, *rest = module.split(".")
    origin = _root(top)
    if not rest:
        return origin
    base = origin.parent.joinpath(*rest)
    package = base / "__init__.py"
    return package if package.is_file() else base.with_suffix(".py")


@cache
def _exists(module: str) -> bool:
    try:
        return _path(module).is_file()
    except ModuleNotFoundError:
        return False


@cache
def imports(path: Path, module: str, own: frozenset[str]) -> frozenset[str]:
    """Return the modules that the file at `path` imports, anywhere in it.

    Looked up once, as `syntax` is: the closures of a plan's plugins have most modules in common.
    """
    return frozenset(_imports(path, module, own))


def _imports(path: Path, module: str, own: frozenset[str]) -> Iterator[str]:
    for statement in syntax(path).imports:
        if statement.source is None:
            yield from statement.names
            continue
        source = _absolute(statement, path, module)
        for name in statement.names:
            yield _defining(source, name, own)


def _defining(source: str, name: str, own: frozenset[str]) -> str:
    """Return the module that ``from source import name`` takes something of: it has, or is, it."""
    if source.partition(".")[0] not in own:
        return source
    if _exists(inner := f"{source}.{name}"):
        return inner
    path = _path(source)
    for found in syntax(path).imports:
        if name in found.bound:
            original = found.names[found.bound.index(name)]
            return _defining(_absolute(found, path, source), original, own)
    return source


def _absolute(found: Import, path: Path, module: str) -> str:
    own = found.source or ""
    if not found.level:
        return own
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    kept = package[: len(package) - found.level + 1]
    return ".".join([*kept, *([own] if own else [])])
