"""Plans that were made before, kept by the content of what they were made from.

Reading a plan must be cheap: Snakemake parses the workflow again for every invocation and, on a
cluster, for every job. So neither this module nor that of the plan imports Hydra or a plugin.
"""

import hashlib
import importlib.metadata
import importlib.util
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

import profkit
from profkit import __version__
from profkit.core import resources, secret_store, source_hash
from profkit.core.atomic_write import write_atomically
from profkit.planning.model import Plan

CACHE = Path("results/.profkit/plans")
"""Plans that were made before, by the hash of what they were made from."""

_KEPT = 100


def load(overrides: Sequence[str], conf: Path = resources.CONF) -> Plan:
    """Return the plan for `overrides`, made anew only if something behind it has changed.

    A plan holds references in the place of secrets, and overrides may.
    """
    given = secret_store.resolved(overrides)
    path = CACHE / f"{_key(secret_store.hiding().document(given), conf)}.json"
    if path.is_file() and secret_store.are_kept(path.read_text()):
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    # Late: Hydra and all plugins take most of a second, and a cached plan needs neither.
    from profkit.planning.build import make  # noqa: PLC0415

    plan = make(conf, given)
    write_atomically(path, msgspec.json.encode(plan))
    source_hash.keep()  # for the jobs
    for old in sorted(CACHE.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return plan


def _key(overrides: Sequence[str], conf: Path) -> str:
    """Hash the overrides, the configuration, the sources, and the versions installed."""
    digest = hashlib.sha256(repr((tuple(overrides), sys.version, __version__)).encode())
    files = (path for folder in resources.folders(conf=conf) for path in folder.rglob("*.yaml"))
    for path in sorted(files):
        digest.update(f"{path}\0".encode() + path.read_bytes())
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
        for point in importlib.metadata.entry_points(group=package):
            version = point.dist.version if point.dist else ""
            yield point.value, version, _folder(point.module)


def _folder(module: str) -> Path | None:
    spec = importlib.util.find_spec(module.partition(".")[0])
    return Path(spec.origin).parent if spec and spec.origin else None


def _sources(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix != ".pyc" and "_shipped" not in path.parts and path.is_file()
    )
