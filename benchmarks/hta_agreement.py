"""HTA's functions on profkit's tables beside HTA on the JSON, for every Kineto trace of a folder.

    python benchmarks/hta_agreement.py [FOLDER]

FOLDER is searched for ``*.json`` and ``*.json.gz``; left out, it is ``kineto`` in
`$PROFKIT_REAL_DATA` (or ``../shared/data``). Prints one line per trace: how many functions give the
same, how many of them only once events of equal times stand in one order (which HTA leaves to
chance), how many HTA itself fails at, and those that differ. Differences in which HTA is wrong are
listed with the reason in `tests/analyze/beside_hta.py`, where the tests prove them; ends with 1 if
there is any other. The tests compare a few small traces in the same way; large ones take minutes.
"""

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))
from profkit.convert.torch_profiler import trace
from profkit.core.errors import InputError
from tests.analyze.beside_hta import FUNCTIONS, KNOWN, differences, pair


def main(argv: Sequence[str]) -> int:
    """Compare on every trace; return 1 if any differs for a reason that is not known."""
    data = os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data")
    folder = Path(argv[0]) if argv else Path(data) / "kineto"
    paths = sorted({*folder.rglob("*.json"), *folder.rglob("*.json.gz")})
    differing = 0
    for path in paths:
        begun = time.perf_counter()
        known, reason = KNOWN.get(path.relative_to(folder).as_posix(), (set[str](), ""))
        said, differs = _compared(path, known, reason)
        differing += differs
        name = str(path.relative_to(folder))[-60:]
        print(f"{name:60} {time.perf_counter() - begun:7.1f} s  {said}", flush=True)
    print(f"{len(paths)} traces, {differing} with differences that are not known")
    return min(differing, 1)


def _compared(path: Path, known: set[str], reason: str) -> tuple[str, bool]:
    """Return what was found on one trace, and whether more or less differs than is known."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            found = differences(*pair({0: path}, _converted, Path(scratch)))
        except InputError as error:
            return f"not a trace: {error}", False
        except Exception as error:  # noqa: BLE001 - whatever HTA's own reader raises is a result
            return f"HTA cannot read it: {error!r}"[:120], False
    said = f"{len(found.equal)} equal, {len(found.tied)} but for ties, "
    said += f"{len(found.failed)} that HTA cannot do, of {len(FUNCTIONS)}"
    if known == set(found.different):
        return said + (f"\n    {', '.join(sorted(known))}: {reason}" if known else ""), False
    return said + "".join(f"\n    {name}: {text}" for name, text in found.different.items()), True


def _converted(path: Path, rank: int) -> dict[str, pd.DataFrame]:
    return {name: table.to_pandas() for name, table in trace.read(path, rank=rank).tables.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
