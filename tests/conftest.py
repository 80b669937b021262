"""Fixtures that several tests share."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real captures, or skip where it is not there."""
    folder = Path(os.environ.get("PROFKIT_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real captures at {folder}; set PROFKIT_REAL_DATA to have them")
    return folder
