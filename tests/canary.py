"""Values that a run must not write down, and all the places in a file where they could be."""

import gzip
import zipfile
from pathlib import Path

import pyarrow.parquet

CANARIES = {"MY_CANARY_SECRET": "canary-5f0b0c3e", "MY_CANARY": "canary-8a1d4d0e"}
"""Variables in the environment of a tree's runs: one under the name of a secret, one not."""


def inside(path: Path) -> bytes:
    """Return the content of a file, unpacked where it is packed."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".parquet":
        return content + repr(pyarrow.parquet.read_table(path).to_pylist()).encode()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return b"".join(map(archive.read, archive.namelist()))
    return content
