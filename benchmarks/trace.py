"""Traces at size: from file to all analyses, beside HTA, TraceLens and `json.loads`.

    python benchmarks/trace.py [--trace FILE] [--replicas 10] [--only peers|memory|ranks]

A trace is repeated in time. Without `--trace` it is a real one where `$PROFKIT_REAL_DATA` (or
``../shared/data``) has it, and otherwise one that torch.profiler makes. Each program runs in
processes of its own, imports included: once, or five times if that takes seconds, of which the
median counts. The peak, sampled in one more run, is the memory of all its processes together, with
what they share counted once. Seconds of CPU tell more than those of the clock where others work on
the machine. Of profkit there are five numbers: reading into tables in memory, the job `convert`
(which also writes them), `convert` and then those analyses that tell what HTA's seven tell, in
forks of one process as the workflow makes them and as many at once as there are cores, `convert`
and all of them in one process, as HTA works, and all of them each in a process of its own.
"""

import argparse
import compileall
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import psutil

import profkit
from profkit.core.errors import ProfkitError
from profkit.dag import inputs as dags
from profkit.dag.snakemake_shell import kind_of
from profkit.dag.staleness import Wildcards
from profkit.planning.imported_runs import add_run, find, import_kinds
from profkit.process import process_tree

_REAL = "kineto/tracelens/h100/google_owlv2-large-patch14-ensemble__1016001.json.gz"
_GAP_US = 1000
_SAMPLED_S = 0.05
_REPEATED = 5
"""How often programs that take seconds are run."""
_CORES = os.cpu_count() or 1
_TOOL, _KIND = import_kinds()["trace"]

_JSON = "import json, sys; json.loads(open(sys.argv[1], 'rb').read())"
_READ = """
import sys
from pathlib import Path
from profkit.convert.torch_profiler import trace
trace.read(Path(sys.argv[1]), rank=0)
"""
_HTA_LOAD = """
import sys
from pathlib import Path
from hta.trace_analysis import TraceAnalysis
path = Path(sys.argv[1])
analysis = TraceAnalysis(trace_files={0: str(path)}, trace_dir=str(path.parent))
"""
_HTA = (
    _HTA_LOAD
    + """
analysis.get_temporal_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
analysis.get_comm_comp_overlap(visualize=False)
analysis.get_idle_time_breakdown(visualize=False)
analysis.get_cuda_kernel_launch_stats(visualize=False)
analysis.get_queue_length_summary()
analysis.get_memory_bw_summary()
"""
)
# HTA's breakdown of kernels, launches and queue, and so on, in the order of the calls above.
_SEVEN = ("breakdown", "kernels", "overlap", "idle", "launches", "transfers")
_JOBS = """
import json, sys, time
from profkit import cli
taken = {}
for words in json.loads(sys.argv[1]):
    begun = time.process_time()
    if cli.main(words):
        sys.exit(f"{words[:2]} failed")
    taken[words[1]] = time.process_time() - begun
_, *analyses = taken
slowest = sorted(analyses, key=taken.__getitem__, reverse=True)[:8]
listed = ", ".join(f"{name} {taken[name]:.2f}" for name in slowest)
print(f"Slowest of {len(analyses)} analyses, CPU s: {listed}")
"""
_FORKED = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from profkit.cli import job_server as jobs
from profkit.process import job_client, job_server
cores, *rounds = json.loads(sys.argv[1])
jobs.fork([words[1] for ready in rounds[1:] for _, words in ready])
def run(job):
    kind, words = job
    return job_client.handed_over(job_server.address(), words, kind=kind.encode())
with ThreadPoolExecutor(cores) as pool:
    for ready in rounds:
        if any(pool.map(run, ready)):
            sys.exit(f"{ready} failed")
"""
_TRACELENS = """
import sys
from pathlib import Path
from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch
path = Path(sys.argv[1])
generate_perf_report_pytorch(str(path), output_csvs_dir=str(path.parent / "tracelens"))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a program took."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def main(argv: Sequence[str]) -> None:
    """Print the comparisons that were asked for."""
    options = _parser().parse_args(argv)
    # As where it was installed or has run before, whether or not Python may write here.
    compileall.compile_dir(Path(profkit.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        source = options.trace or _default(Path("recorded.json"))
        parts: dict[str, Callable[[], None]] = {
            "peers": lambda: _against_peers(source, options.replicas),
            "memory": lambda: _over_replicas(source, (1, options.replicas, 2 * options.replicas)),
            "ranks": lambda: _over_cores(source),
        }
        for name, part in parts.items():
            if options.only in (None, name):
                part()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=_absolute, help="trace to repeat")
    parser.add_argument("--replicas", type=int, default=10, help="how often it is repeated")
    parser.add_argument("--only", choices=("peers", "memory", "ranks"), help="a part of it all")
    return parser


def _absolute(path: str) -> Path:
    return Path(path).resolve()


def _against_peers(source: Path, replicas: int) -> None:
    """Print a line for each program, on the same file."""
    path = _replicated(source, replicas)
    megabytes, run = path.stat().st_size / 1e6, _imported(path)
    programs: dict[str, Callable[[], Measured]] = {
        "json.loads": lambda: _python(_JSON, path),
        "profkit: read": lambda: _python(_READ, path, _REPEATED),
        "profkit: convert": lambda: _watched(lambda: _job(_convert_words(run, _CORES)), _REPEATED),
        "profkit: to the same 7": lambda: _forked(run, _SEVEN, _REPEATED),
        "profkit: all analyses": lambda: _one_process(run),
        "profkit: the workflow": lambda: _watched(lambda: _workflow(run)),
        "HTA: load": lambda: _python(_HTA_LOAD, path),
        "HTA: to 7 analyses": lambda: _python(_HTA, path),
    }
    if importlib.util.find_spec("TraceLens") is None:
        # The distribution "tracelens" of the package index is another program.
        print("TraceLens is not installed: pip install git+https://github.com/AMD-AGI/TraceLens")
    else:
        programs["TraceLens: report"] = lambda: _python(_TRACELENS, path)
    found = {name: program() for name, program in programs.items()}
    ours = found["profkit: all analyses"]
    print(f"{'':24}{'seconds':>9}{'CPU s':>9}{'MB/s':>8}{'peak MB':>9}{'of all analyses, CPU':>22}")
    for name, cost in found.items():
        numbers = f"{cost.seconds:9.2f}{cost.cpu_seconds:9.2f}{megabytes / cost.seconds:8.1f}"
        ratio = cost.cpu_seconds / ours.cpu_seconds
        print(f"{name:24}{numbers}{cost.peak_mb:9.0f}{ratio:21.2f}x")
    hta, same = found["HTA: to 7 analyses"], found["profkit: to the same 7"]
    seconds, cpu = hta.seconds / same.seconds, hta.cpu_seconds / same.cpu_seconds
    print(f"To the same 7 analyses HTA takes {seconds:.1f}x as long, {cpu:.1f}x the CPU.")


def _over_replicas(source: Path, counts: Sequence[int]) -> None:
    """Print what converting takes as the file grows."""
    for count in counts:
        run = _imported(_replicated(source, count))
        found = _watched(lambda run=run: _job(_convert_words(run, 1)))  # type: ignore[misc]
        print(f"convert {count:3} replicas {_said(found)}")


def _over_cores(source: Path, ranks: int = 8) -> None:
    """Print what converting several ranks takes on one core and on all."""
    path = _replicated(source, 1)
    files = [Path(f"ranks/rank{rank}.json") for rank in range(ranks)]
    files[0].parent.mkdir()
    for file in files:
        shutil.copyfile(path, file)
    run = _imported(files[0].parent)
    for cores in range(1, _CORES + 1):
        words = _convert_words(run, cores)
        found = _watched(lambda words=words: _job(words), _REPEATED)  # type: ignore[misc]
        print(f"{ranks} ranks on {cores} cores {_said(found)}")


def _said(found: Measured) -> str:
    return f"{found.seconds:9.2f} s {found.cpu_seconds:9.2f} s of CPU {found.peak_mb:7.0f} MB"


def _imported(path: Path) -> str:
    run = add_run(find([path], _KIND), _TOOL, _KIND, name="benchmark", command="benchmark")
    # As before any job: planning keeps what the sources are made of, or each job would parse them.
    dags.load([f"imports=[{run}]"])
    return run


def _forked(run: str, names: Sequence[str], times: int) -> Measured:
    """Measure jobs as the workflow makes them, in forks of what has loaded what they need."""
    rounds = [[_convert_words(run, _CORES)], *_rounds(run, names)]
    jobs = [[(kind_of(words).decode(), words) for words in ready] for ready in rounds]
    command = [sys.executable, "-c", _FORKED, json.dumps([_CORES, *jobs])]
    return _watched(lambda: _run(command), times)


def _one_process(run: str) -> Measured:
    """Measure all jobs in one process, which imports what jobs import and nothing else."""
    jobs = [_convert_words(run, _CORES), *chain.from_iterable(_rounds(run))]
    said: list[str] = []
    command = [sys.executable, "-c", _JOBS, json.dumps(jobs)]
    found = _watched(lambda: said.append(_run(command)))
    print(said[0], end="")
    return found


def _workflow(run: str) -> None:
    """Convert and analyse in processes of their own, as many at once as there are cores."""
    _job(_convert_words(run, _CORES))
    with ThreadPoolExecutor(_CORES) as pool:
        for ready in _rounds(run):
            list(pool.map(_job, ready))


def _rounds(run: str, only: Sequence[str] = ()) -> Iterator[list[list[str]]]:
    """Yield the jobs of analyses; each needs results of those before only."""
    dag = dags.load([f"imports=[{run}]"])
    done: set[str] = set()
    needed = _needed(dag, only)
    names = [name for name in dag.plan.run(run).analyses if not only or name in needed]
    while left := [name for name in names if name not in done]:
        ready = [name for name in left if not set(dag.plan.analyses[name].results) & set(left)]
        yield [_analysis(dag, run, name) for name in ready]
        done.update(ready)


def _needed(dag: dags.Dag, names: Sequence[str]) -> set[str]:
    """Return `names` and the analyses whose results these need."""
    found, pending = set[str](), [*names]
    while pending:
        found.add(name := pending.pop())
        pending += dag.plan.analyses[name].results
    return found


def _convert_words(run: str, cores: int) -> list[str]:
    folder = Path("results/runs") / run
    capture = folder / "capture" / _TOOL / "rep0"
    tables, files = folder / "tables" / _TOOL, folder / "convert" / _TOOL
    words = ["convert", _TOOL, "--captures", capture, "--tables", tables, "--files", files]
    return [*map(str, words), "--cores", str(cores)]


def _analysis(dag: dags.Dag, run: str, name: str) -> list[str]:
    wildcards = Wildcards(run)
    results = dag.results(name)(wildcards)
    return [
        *("analyze", name, "--settings", dag.analysis_settings(name)(wildcards)),
        *dag.run_flags(name)(wildcards),
        *("--tables", *dag.tables(name)(wildcards)),
        *(("--results", *results) if results else ()),
        *("--out", f"results/runs/{run}/analyze/{name}.json"),
    ]


def _job(words: Sequence[str]) -> None:
    _run([sys.executable, "-m", "profkit", *words])


def _python(code: str, path: Path, times: int = 1) -> Measured:
    # HTA writes beside its input.
    alone = Path(tempfile.mkdtemp(dir=".")) / path.name
    os.link(path, alone)
    return _watched(lambda: _run([sys.executable, "-c", code, str(alone)]), times)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ProfkitError(f"{command[1:4]} failed: {done.stderr[-2000:]}")
    return done.stdout


def _watched(work: Callable[[], object], times: int = 1) -> Measured:
    """Return what the processes that `work` starts take, in the median of some `times`."""
    process_tree.adopt_orphans()
    taken = [_taken(work) for _ in range(times)]
    seconds, cpu_seconds = map(statistics.median, zip(*taken, strict=True))
    return Measured(seconds=seconds, cpu_seconds=cpu_seconds, peak_mb=_peak_mb(work))


def _taken(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds by the clock, and of CPU, of one run."""
    begun, worked = time.perf_counter(), _cpu_seconds()
    work()
    return time.perf_counter() - begun, _cpu_seconds() - worked


def _peak_mb(work: Callable[[], object]) -> float:
    """Return the peak memory, in MB, of the processes that `work` starts.

    It does not say how long they take: looking costs a sixth of a core, which programs of as many
    processes as there are cores would have to do without.
    """
    peak, finished, own = 0, threading.Event(), psutil.Process()

    def sample() -> None:
        nonlocal peak
        while not finished.wait(_SAMPLED_S):
            peak = max(peak, sum(map(_memory, own.children(recursive=True))))

    watcher = threading.Thread(target=sample)
    watcher.start()
    try:
        work()
    finally:
        finished.set()
        watcher.join()
    return peak / 1e6


def _cpu_seconds() -> float:
    """Return what ended processes that this one started have worked, user and system.

    Fork servers end after the program that they worked for, and are waited for here.
    """
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def _default(recorded: Path) -> Path:
    data = os.environ.get("PROFKIT_REAL_DATA", Path(__file__).parents[2] / "shared/data")
    real = Path(data) / _REAL
    return real if real.is_file() else _record(recorded)


def _record(path: Path) -> Path:
    """Record some training steps of a small network."""
    import torch  # noqa: PLC0415 - only where no real trace is at hand
    from torch.profiler import profile  # noqa: PLC0415

    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(20)))
    optimizer = torch.optim.AdamW(model.parameters())
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as profiler:
        for _ in range(40):
            model(torch.ones(4, 32)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    profiler.export_chrome_trace(str(path))
    return path


def _replicated(source: Path, replicas: int) -> Path:
    """Return a file with `source` repeated in time, made by a process that gives memory back."""
    target = Path(f"{replicas}/rank0.pt.trace.json").resolve()
    if not target.is_file():
        target.parent.mkdir()
        writer = Path(__file__).with_name("trace_replicas.py")
        command = [sys.executable, str(writer), str(source), str(target), str(replicas)]
        subprocess.run(command, check=True)
    return target


if __name__ == "__main__":
    main(sys.argv[1:])
