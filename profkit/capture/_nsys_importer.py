"""Recordings that ``nsys`` could not turn into reports: imported with its own importer."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from profkit.capture.base import executable, executable_version

_NAME = "QdstrmImporter"
_TIMEOUT_S = 600
_INSTALLED = (
    "usr/lib/nsight-systems/host-linux-*",
    "usr/lib/*/nsight-systems/host-linux-*",
    "opt/nvidia/nsight-systems*/*/host-linux-*",
    "opt/nvidia/nsight-systems*/host-linux-*",
    "usr/local/cuda*/nsight-systems*/host-linux-*",
)


def import_left(out: Path, binary: str, root: Path = Path("/")) -> list[str]:
    """Import each ``.qdstrm`` in `out` that has no report beside it, and say what became of it.

    nsys leaves them where it does not find its importer. Only an importer of the same version can
    read a recording; it is looked for beside nsys and where packages install it, below `root`.
    """
    left = [each for each in sorted(out.glob("*.qdstrm")) if not _report(each).exists()]
    if not left:
        return []
    version = executable_version(binary)
    importer = next(_importers(binary, version, root), None)
    if importer is None:
        return [
            f"{each.name}: nsys {version} did not find its importer, and none of this version was"
            f" found: open it in the window of Nsight Systems {version}, or run"
            f" {_NAME} -i {each.name} of that version"
            for each in left
        ]
    return [_imported(importer, each) for each in left]


def _report(recording: Path) -> Path:
    return recording.with_suffix(".nsys-rep")


def _importers(binary: str, version: str, root: Path) -> Iterator[Path]:
    """Yield the importers of `version`."""
    places = []
    if path := executable(binary):
        beside = Path(path).resolve().parent
        places += [*beside.parent.glob("host-linux-*"), *beside.glob("host-linux-*")]
    places += [folder for pattern in _INSTALLED for folder in sorted(root.glob(pattern))]
    for folder in places:
        importer = folder / _NAME
        if importer.is_file() and executable_version(str(importer)) == version:
            yield importer


def _imported(importer: Path, recording: Path) -> str:
    """Run the importer and say what became of `recording`."""
    report = _report(recording)
    command = [str(importer), "-i", str(recording), "-o", str(report)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{recording.name}: {_NAME} failed: {error}"
    if done.returncode or not report.is_file():
        said = " ".join((done.stderr or done.stdout).split())[-300:]
        return f"{recording.name}: {_NAME} failed: {said}"
    recording.unlink()
    return f"{report.name}: nsys did not find its importer; profkit imported it with {importer}"
