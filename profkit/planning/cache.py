"""Plans that were made before, kept by the content of what they were made from.

Reading a plan must be cheap: Snakemake parses the workflow again for every invocation and, on a
cluster, for every job. So neither this module nor that of the plan imports Hydra or a plugin.
"""

import glob
import hashlib
import importlib.metadata
import importlib.util
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

import profkit
from profkit import __version__
from profkit.core import registry, resources, result_folder, secret_store, source_hash
from profkit.core.cache_file import read_cached, write_cached
from profkit.core.errors import InputError
from profkit.planning.model import Plan
from profkit.process import computing
from profkit.process.malloc import uncollected

CACHE = Path("results/.profkit/plans")
"""Plans that were made before, by the hash of what they were made from."""

_OF_JOBS = Path("results/.profkit/job_plans")
"""Plans that jobs on other hosts read, by the hash of their content."""

_KEPT = 100
_NAME = re.compile(r"[0-9a-f]{24}")


def load(
    overrides: Sequence[str],
    conf: Path = resources.CONF,
    *,
    meanwhile: Callable[[], object] | None = None,
) -> Plan:
    """Return the plan for `overrides`, made anew only if something behind it has changed.

    A plan holds references in the place of secrets, and overrides may. Before one is made, which
    takes a second, `meanwhile` begins what can be done on another core.
    """
    given = secret_store.resolved(overrides)
    path = CACHE / f"{_key(secret_store.hiding().document(given), conf)}.cache"
    if kept := _kept(path):
        return kept.plan
    # Late: Hydra and all plugins take most of a second, and a cached plan needs neither.
    with uncollected(keeps=True), computing.prepared():
        if meanwhile:
            meanwhile()
        from profkit.planning.build import make  # noqa: PLC0415

        plan = make(conf, given)
    result_folder.prepare()
    write_cached(path, msgspec.json.encode(_Kept(plan, _hash_of(plan.variables))))
    source_hash.forget_old()
    _forget_old(CACHE)
    return plan


def keep_for_jobs(plan: Plan) -> str:
    """Keep `plan` for jobs on other hosts, and return the name that `of_job` takes.

    They get no overrides: what those are resolved to may differ there, and shells take quotes away.
    """
    content = msgspec.json.encode(plan)
    name = hashlib.sha256(content).hexdigest()[:24]
    path = _OF_JOBS / f"{name}.cache"
    if read_cached(path) is None:
        write_cached(path, content)
        _forget_old(_OF_JOBS)
    return name


def of_job(name: str) -> Plan:
    """Return the plan that `keep_for_jobs` has kept under `name`."""
    path = _OF_JOBS / f"{name}.cache"
    content = read_cached(path) if _NAME.fullmatch(name) else None
    if content is None:
        raise InputError(
            f"no plan {name!r} in {_OF_JOBS}",
            hint="jobs need the folder that profkit was started in: is it shared by all hosts?",
        )
    return msgspec.json.decode(content, type=Plan)


def _forget_old(folder: Path) -> None:
    for old in sorted(folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime_ns)[:-_KEPT]:
        old.unlink(missing_ok=True)


class _Kept(msgspec.Struct, frozen=True):
    """A plan, and what it holds for that only the plan itself names."""

    plan: Plan

    variables: str
    """Keyed hash of the values of its environment variables; empty if it reads none."""


def _kept(path: Path) -> _Kept | None:
    """Return the plan at `path`, unless it is damaged or the world has changed since."""
    if (content := read_cached(path)) is None:
        return None
    kept = msgspec.json.decode(content, type=_Kept)
    is_same = (
        all(secret_store.states(content.decode()).values())
        and kept.variables == _hash_of(kept.plan.variables)
        and all(map(os.path.exists, kept.plan.files))
    )
    return kept if is_same else None


def _hash_of(variables: Sequence[str]) -> str:
    values = [(name, os.environ.get(name)) for name in variables]
    return secret_store.digest(repr(values)) if values else ""


def _key(overrides: Sequence[str], conf: Path) -> str:
    """Hash the overrides, the configuration, the sources, and the versions installed."""
    digest = hashlib.sha256(repr((tuple(overrides), sys.version, __version__)).encode())
    for folder in resources.folders(conf=conf):
        # `Path.rglob` passes by folders that are links.
        names = glob.glob("**/*.yaml", root_dir=folder, recursive=True)  # noqa: PTH207
        for name in sorted(names):
            if (folder / name).is_file():
                digest.update(f"{folder / name}\0".encode() + (folder / name).read_bytes())
    for name, version, location in _installed():
        digest.update(f"{name} {version}\0".encode())
        for path in _sources(location):
            facts = path.stat()
            digest.update(f"{path} {facts.st_mtime_ns} {facts.st_size}\0".encode())
    return digest.hexdigest()[:24]


def _installed() -> Iterator[tuple[str, str, Path | None]]:
    """Yield the packages that fingerprints depend on; with their folder, those with plugins."""
    for line in importlib.metadata.requires("profkit") or []:
        name = "".join(itertools.takewhile(lambda char: char.isalnum() or char in "-_.", line))
        if "extra ==" not in line:
            yield name, importlib.metadata.version(name), None
    yield "profkit", __version__, Path(profkit.__file__).parent
    for package in ("profkit.capture", "profkit.convert", "profkit.analyze"):
        for point in registry.external(package):
            version = point.dist.version if point.dist else ""
            yield point.value, version, _folder(point.module)


def _folder(module: str) -> Path | None:
    spec = importlib.util.find_spec(module.partition(".")[0])
    return Path(spec.origin).parent if spec and spec.origin else None


def _sources(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    # Another process may be writing compiled code, under names that are gone a moment later.
    passed = {"__pycache__", "_shipped"}
    return sorted(
        path for path in folder.rglob("*") if not passed & {*path.parts} and path.is_file()
    )
