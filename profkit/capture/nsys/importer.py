"""Import recordings that ``nsys`` could not turn into reports, with its own importer."""

from collections.abc import Iterator
from pathlib import Path

from profkit.capture.base import executable, executable_version
from profkit.process import bounded_command

_NAME = "QdstrmImporter"
_TIMEOUT_S = 600
_MOST_BYTES = 64 << 20
_INSTALLED = (
    "usr/lib/nsight-systems/host-linux-*",
    "usr/lib/*/nsight-systems/host-linux-*",
    "opt/nvidia/nsight-systems*/*/host-linux-*",
    "opt/nvidia/nsight-systems*/host-linux-*",
    "usr/local/cuda*/nsight-systems*/host-linux-*",
)


def import_left(out: Path, binary: str, root: Path = Path("/")) -> list[str]:
    """Import each ``.qdstrm`` in `out` that has no report beside it; return a note for each.

    nsys leaves them if it does not find its importer. Only an importer of the same version can
    read a recording; it is searched beside nsys and in the folders of packages, below `root`.
    """
    recordings = [path for path in sorted(out.glob("*.qdstrm")) if not _report(path).exists()]
    if not recordings:
        return []
    version = executable_version(binary)
    importer = next(_importers(binary, version, root), None)
    if importer is None:
        return [
            f"{path.name}: nsys {version} did not find its importer, and none of this version was"
            f" found: open it in the window of Nsight Systems {version}, or run"
            f" {_NAME} -i {path.name} of that version"
            for path in recordings
        ]
    return [_imported(importer, path) for path in recordings]


def _report(recording: Path) -> Path:
    return recording.with_suffix(".nsys-rep")


def _importers(binary: str, version: str, root: Path) -> Iterator[Path]:
    """Yield the importers of `version`."""
    folders = []
    if path := executable(binary):
        beside = Path(path).resolve().parent
        folders += [*beside.parent.glob("host-linux-*"), *beside.glob("host-linux-*")]
    folders += [folder for pattern in _INSTALLED for folder in sorted(root.glob(pattern))]
    for folder in folders:
        importer = folder / _NAME
        if importer.is_file() and executable_version(str(importer)) == version:
            yield importer


def _imported(importer: Path, recording: Path) -> str:
    """Run the importer on `recording`, and return a note on the result."""
    report = _report(recording)
    command = [str(importer), "-i", str(recording), "-o", str(report)]
    answer = bounded_command.ask(command, timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES)
    if answer.reason or not report.is_file():
        return f"{recording.name}: {_NAME} failed: {answer.reason or answer.said}"
    recording.unlink()
    return f"{report.name}: nsys did not find its importer; profkit imported it with {importer}"
