"""Write the trace of PyTorch's profiler, whole or not at all."""

import gzip
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from profkit.core.errors import ProfkitError

if TYPE_CHECKING:
    from torch.profiler import profile


def export(profiler: "profile", path: Path) -> None:
    """Write the trace; raises `ProfkitError` where PyTorch only prints that it could not."""
    profiler.export_chrome_trace(str(path))
    if not path.is_file() or not _ends(path):
        free_mb = shutil.disk_usage(path.parent).free // 1_000_000
        raise ProfkitError(f"PyTorch could not write its trace: {free_mb} MB of disk are free")


def _ends(path: Path) -> bool:
    """Say whether the object in a JSON file is closed."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - 16, 0))
        return file.read().rstrip().endswith(b"}")


def export_compressed(profiler: "profile", path: Path) -> None:
    """Write the trace as gzip.

    PyTorch's own way compresses line by line, which takes twenty times as long; the other ranks
    stand still meanwhile.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.") as folder:
        plain = Path(folder) / "trace.json"
        export(profiler, plain)
        with plain.open("rb") as source, gzip.open(path, "wb", compresslevel=6) as packed:
            shutil.copyfileobj(source, packed, 1 << 20)


def exported_bytes(profiler: "profile", out: Path, *, is_packed: bool) -> int:
    """Return how much the trace takes, of which nothing is left."""
    with tempfile.TemporaryDirectory(dir=out, prefix=".first-steps.") as folder:
        path = Path(folder) / "trace.json"
        write = export_compressed if is_packed else export
        write(profiler, path)
        return path.stat().st_size
