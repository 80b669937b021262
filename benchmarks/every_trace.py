"""Every Kineto trace of a folder, whole and damaged, through all stages to the report.

    python benchmarks/every_trace.py [FOLDER] [--whole]

FOLDER is searched for ``*.json`` and ``*.json.gz``; left out, it is ``kineto`` in
`$PROFKIT_REAL_DATA` (or ``../shared/data``). Each trace is imported, converted, analysed by every
analysis and reported on, as it is and, without `--whole`, harmed in every way that the tests know:
cut off, a byte changed, NaN, no events. A trace of more than 100 kB, which takes a minute each
time, is harmed in one way, the next one in the next. Prints a line for each, and ends with 1 if
anything but a refusal of the file came up. The tests do the same with a few small traces.
"""

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from profkit.core.errors import InputError
from profkit.planning.imported_runs import add_run, find, import_kinds
from tests.convert.torch_profiler import damage
from tests.stages import report_of

_TOOL, _KIND = import_kinds()["trace"]
_REFUSED = ("could be read; the first:", "an empty file")
"""In the messages of a conversion that found nothing to read, and of an import of nothing."""

_LARGE_BYTES = 100_000
_EMPTY = {"empty": b"", "of another kind": b'{"version": 1, "items": [1, 2]}'}


def main(argv: Sequence[str]) -> int:
    """Take every trace through all stages; return 1 if one of them breaks anything."""
    options = _parser().parse_args(argv)
    folder = options.folder or _default()
    paths = sorted({*folder.rglob("*.json"), *folder.rglob("*.json.gz")})
    broken = count = 0
    for name, content in _cases(folder, paths, harmed=not options.whole):
        begun = time.perf_counter()
        # A result tree each: one holds a lock for as long as this process lives.
        with tempfile.TemporaryDirectory() as scratch:
            os.chdir(scratch)
            said, fine = _outcome(f"case{count}", content)
            os.chdir(folder)
        count += 1
        broken += not fine
        print(f"{name[-76:]:76} {time.perf_counter() - begun:7.1f} s  {said}", flush=True)
    print(f"{count} cases, {broken} with an error")
    return min(broken, 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=lambda text: Path(text).resolve(), nargs="?")
    parser.add_argument("--whole", action="store_true", help="leave the damaged ones out")
    return parser


def _default() -> Path:
    data = os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data")
    return Path(data).resolve() / "kineto"


def _cases(folder: Path, paths: Sequence[Path], *, harmed: bool) -> Iterator[tuple[str, bytes]]:
    """Yield a name and the content of a file for each case."""
    if harmed:
        yield from _EMPTY.items()
    for number, path in enumerate(paths):
        text: bytes = damage.unpacked(path.read_bytes())  # type: ignore[no-untyped-call]
        name = str(path.relative_to(folder))
        yield name, text
        for turn, (way, harm) in enumerate(damage.WAYS.items() if harmed else ()):
            if path.stat().st_size <= _LARGE_BYTES or number % len(damage.WAYS) == turn:
                yield f"{name}: {way}", harm(text, random.Random(number))  # noqa: S311


def _outcome(name: str, content: bytes) -> tuple[str, bool]:
    """Return what became of one file, and whether that is as it should be."""
    path = Path(f"{name}.json")
    path.write_bytes(content)
    try:
        run = add_run(find([path], _KIND), _TOOL, _KIND, name=name, command="profkit import")
        page: str = report_of(f"imports=[{run}]")  # type: ignore[no-untyped-call]
    except InputError as error:
        expected = any(words in str(error) for words in _REFUSED)
        return f"refused: {error}".splitlines()[0][:120], expected
    except Exception:  # noqa: BLE001 - the error is the finding
        return traceback.format_exc(), False
    return f"{len(page) / 1e6:.1f} MB of report", run in page


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
