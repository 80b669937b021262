"""What a job of a run with many ranks takes: CPU seconds, and its peak memory.

    python benchmarks/many_ranks.py [--ranks 8 64 1000] [--copies 1] [--only NAME ...] [--keep DIR]

Ranks are copies of the eight of a real training in `$PROFKIT_REAL_DATA` (or ``../shared/data``),
3,300 events each, or `--copies` times as many one after the other in time. Each job is a process of
its own, which is asked for its largest resident memory when it ends (``ru_maxrss``); the conversion
uses one process. `--keep` leaves the traces and tables in a folder, and takes what lies there.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

from profkit.dag.inputs import Dag, load
from profkit.dag.staleness import Wildcards
from profkit.planning.imported_runs import add_run, find, import_kinds

_REAL = "kineto/dlrm_8rank_v100"
_TOOL, _KIND = import_kinds()["trace"]
_TIMELINE = "timeline"
_HEAD_BYTES = 100_000
_RANK = re.compile(rb'"rank": \d+, "world_size": \d+')


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="*", default=[8, 64, 1000])
    parser.add_argument("--copies", type=int, default=1, help="of the events of each rank")
    parser.add_argument(
        "--only", nargs="*", default=[], help="analyses, or timeline; all if left out"
    )
    parser.add_argument("--keep", type=Path, help="folder for traces and tables")
    args = parser.parse_args()
    for ranks in args.ranks:
        with tempfile.TemporaryDirectory() as scratch:
            folder = args.keep / f"{ranks}x{args.copies}" if args.keep else Path(scratch)
            folder.mkdir(parents=True, exist_ok=True)
            with chdir(folder):
                _measure(ranks, args.copies, args.only)


def _measure(ranks: int, copies: int, only: Sequence[str]) -> None:
    """Print what the jobs of `ranks` take, in this folder."""
    size = sum(path.stat().st_size for path in _written(ranks, copies))
    print(f"{ranks} ranks, {size / 1e6:.0f} MB of JSON")
    if not Path("results/runs").is_dir():
        add_run(find([Path("traces")], _KIND), _TOOL, _KIND, name="many", command="")
    [name] = (path.name for path in Path("results/runs").iterdir())
    dag = load(f"imports=[{name}]")
    run = dag.plan.runs[0]
    tables = Path("results/runs", run.name, "tables", _TOOL)
    if not (tables / "convert.json").is_file():
        cpu_s = _job("convert", _convert(dag, run.name, tables))
        print(f"convert: {size / 1e6 / cpu_s:.0f} MB a CPU second")
    done: set[str] = set()
    while names := [name for name in run.analyses if name not in done]:
        ready = [name for name in names if not set(dag.plan.analyses[name].results) & set(names)]
        for name in ready or names:
            done.add(name)
            out = Path(dag.folder(name).format(run=run.name), "analyze", f"{name}.json")
            if not only or name in only or not out.is_file():
                _job(name, [*_analysis(dag, run.name, name), "--out", str(out)])
    if not only or _TIMELINE in only:
        _job(_TIMELINE, [_TIMELINE, run.name, "--tool", _TOOL])


def _convert(dag: Dag, run: str, tables: Path) -> list[str]:
    captures = [str(Path(path).parent) for path in dag.captures(_TOOL) if run]
    words = ["convert", _TOOL, "--captures", *(path.format(run=run) for path in captures)]
    return [*words, "--tables", str(tables), "--files", str(tables.parents[1] / "convert" / _TOOL)]


def _analysis(dag: Dag, run: str, name: str) -> list[str]:
    where = Wildcards(run)
    words = [
        "analyze",
        name,
        "--settings",
        dag.analysis_settings(name)(where),
        *dag.run_flags(name)(where),
    ]
    return [
        *words,
        *("--tables", *map(str, dag.tables(name)(where))),
        *("--results", *map(str, dag.results(name)(where))),
    ]


def _written(ranks: int, copies: int) -> list[Path]:
    """Return the traces, written unless they are there."""
    folder = Path("traces")
    if folder.is_dir():
        return sorted(folder.iterdir())
    folder.mkdir()
    data = Path(os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data"))
    sources = sorted((data / _REAL).glob("*.json.gz"))
    writer = Path(__file__).with_name("trace_replicas.py")
    for source in sources:
        command = [sys.executable, str(writer), str(source), f"{source.name}.json", str(copies)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for rank in range(ranks):
        stated = f'"rank": {rank}, "world_size": {ranks}'.encode()
        source = Path(f"{sources[rank % len(sources)].name}.json")
        with source.open("rb") as read, (folder / f"rank{rank}.json").open("wb") as written:
            # A job inherits the peak of this process, which must not hold a trace.
            head, found = _RANK.subn(stated, read.read(_HEAD_BYTES), count=1)
            if not found:
                raise SystemExit(f"{source}: no rank in the first {_HEAD_BYTES:,} bytes")
            written.write(head)
            shutil.copyfileobj(read, written)
    return sorted(folder.iterdir())


def _job(name: str, words: Sequence[str]) -> float:
    """Run one job, print what it took, and return its seconds of CPU."""
    process = subprocess.Popen([sys.executable, "-m", "profkit", *words])
    _, status, used = os.wait4(process.pid, 0)
    cpu_s = used.ru_utime + used.ru_stime
    failed = " FAILED" if status else ""
    print(f"{name:22}{cpu_s:8.1f} s{used.ru_maxrss * 1024 / 1e6:8.0f} MB{failed}", flush=True)
    return cpu_s


if __name__ == "__main__":
    main()
