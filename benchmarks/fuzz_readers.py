"""Every reader of foreign files on thousands of files that came to harm.

    python benchmarks/fuzz_readers.py [--inputs 5000] [--seed 0] [--readers trace nsys ...]

Each input is a small file of the project's own making with bytes flipped, cut, repeated or
replaced by absurd values, see `fuzz_inputs.py`. It is converted as a job would, to tables, in a
process with a limit of 1 GiB on what it takes and of 20 s on each input. The reader refuses it by
name, or converts it; it is silent if its rows differ from those of the undamaged file, no note says
so, and the checksum of gzip could tell. Everything else is a crash. Prints a table, and ends with
1 after a crash, an input over the limits or a silent change; those are kept in the folder `--keep`.
"""

import argparse
import multiprocessing
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))
import fuzz_inputs

from profkit.convert.__main__ import _convert_one
from profkit.convert.base import Raw
from profkit.core import registry

_MEMORY_BYTES = 1 << 30
_SECONDS = 20
_OUTCOMES = ("refused by name", "converted", "silent", "crash", "over limits")
_BAD = _OUTCOMES[2:]


class Outcome(NamedTuple):
    """What became of one input."""

    kind: str
    said: str
    rows: str
    """What was converted, to compare."""


def main(argv: Sequence[str]) -> int:
    """Try all inputs; return 1 if any of them does what none should."""
    options = _parser().parse_args(argv)
    os.environ["PATH"] = ""  # nsys stats would take a second for each input
    print("reader     inputs  " + "  ".join(f"{name:>15}" for name in _OUTCOMES), flush=True)
    bad = 0
    for reader in options.readers:
        counts = _fuzzed(reader, options.inputs, options.seed, options.keep)
        row = "  ".join(f"{counts[name]:15,}" for name in _OUTCOMES)
        print(f"{reader:9} {sum(counts.values()):7,}  {row}", flush=True)
        bad += sum(counts[name] for name in _BAD)
    return min(bad, 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=5000, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    kinds = list(fuzz_inputs.READERS)
    parser.add_argument("--readers", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"))
    return parser


def _fuzzed(reader: str, inputs: int, seed: int, keep: Path) -> Counter[str]:
    """Return how many inputs ended in each way."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        worker = _Worker(reader, Path(folder))
        whole = [worker.outcome(sample, sample.content) for sample in fuzz_inputs.samples(reader)]
        for number in range(inputs):
            which, content = fuzz_inputs.damaged(reader, seed, number)
            found = worker.outcome(which, content)
            undamaged = whole[fuzz_inputs.samples(reader).index(which)]
            told = found.said == undamaged.said
            if found.kind == "converted" and told and found.rows != undamaged.rows:
                found = found._replace(kind="silent" if which.is_checked else "converted")
            counts[found.kind] += 1
            if found.kind in _BAD:
                keep.mkdir(exist_ok=True)
                (keep / f"{reader}-{seed}-{number}{which.suffix}").write_bytes(content)
                print(f"{reader} {number}: {found.kind}: {found.said[-300:]}", flush=True)
        worker.end()
    return counts


class _Worker:
    """A process that converts one input after the other; a new one where it ends."""

    def __init__(self, reader: str, folder: Path) -> None:
        self.reader = reader
        self.folder = folder
        self.process, self.connection = self._begun()

    def outcome(self, sample: fuzz_inputs.Sample, content: bytes) -> Outcome:
        """Return what became of `content`."""
        path = self.folder / f"rank0_dp0_tp0_pp0.x{sample.suffix}"
        path.write_bytes(content)
        begun = time.monotonic()
        self.connection.send(path)
        try:
            if self.connection.poll(_SECONDS):
                return Outcome(*self.connection.recv())
            found = Outcome("over limits", f"{time.monotonic() - begun:.0f} s", "")
        except EOFError:
            self.process.join()
            found = Outcome("crash", f"exit status {self.process.exitcode}", "")
        self.end()
        self.process, self.connection = self._begun()
        return found

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()

    def _begun(self) -> tuple[SpawnProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        connection, other = context.Pipe()
        process = context.Process(target=_convert_all, args=(self.reader, other), daemon=True)
        process.start()
        other.close()
        return process, connection


def _convert_all(reader: str, connection: Connection) -> None:
    """Convert the files whose paths come, within the limits."""
    tool = fuzz_inputs.READERS[reader]
    registry.converter_module(tool)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    limited = False
    while True:
        path = connection.recv()
        with tempfile.TemporaryDirectory() as folder:
            outcome = _converted(tool, path, Path(folder))
        connection.send(tuple(outcome))
        if not limited:  # the first is a whole one, which loads all modules
            limited = True
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + _MEMORY_BYTES,) * 2)


def _converted(tool: str, path: Path, folder: Path) -> Outcome:
    """Return what becomes of one file."""
    raw = Raw(path=path, label="rank0_dp0_tp0_pp0", rank=0, repeat=0, scratch=folder)
    try:
        part = _convert_one(tool, raw, folder, folder / "tables", is_small=True)
    except MemoryError:
        return Outcome("over limits", "memory", "")
    except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
        return Outcome("crash", traceback.format_exc(), "")
    said = " ".join(part.notes)
    if part.folder is None:
        return Outcome("refused by name", said, "")
    tables = sorted(part.folder.glob("*.parquet"))
    rows = [f"{file.stem} {pq.read_table(file).to_pydict()!r}" for file in tables]
    return Outcome("converted", said, "\n".join(rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
