"""Peaks of memory that a sweep predicts, held against runs that it had not seen.

    python benchmarks/memory_predictions.py [--only [WORD...]] [--tries 20]

Each row sweeps one axis of a built-in program on the CPU. The analysis `sweep` predicts the peaks
of values that were not run; then these are run. A peak is what PyTorch allocated, as the tool
`memory_snapshot` records it, of the rank with most: nothing of Python or of loaded libraries. The
processes are forks of this one, which has loaded PyTorch.

At last, the analysis `memory_fit` says for random limits which batch is the largest that fits, from
the peaks of whole processes, as for any run on a CPU: these grow by more than tensors. A process
trains with that batch in no more address space (RLIMIT_AS) than the limit. Both are counted beyond
what it had before it made its model. The batch half as large again shows whether the limit is one.
"""

import argparse
import itertools
import json
import os
import random
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from profkit import marks
from profkit.analyze import memory_fit, memory_peak, sweep
from profkit.capture.base import Rank, Recorder
from profkit.capture.memory_snapshot import Capture
from profkit.convert.base import Raw
from profkit.convert.memory_snapshot import snapshot, tables
from profkit.core.hardware import Hardware
from profkit.core.result import Metric, Result
from profkit.planning.cache import load
from profkit.planning.model import Run
from profkit.workloads import train

_STEPS = 2
_MODELS = ("gpt_tiny", "vit_tiny", "dit_tiny", "moe_tiny", "dlrm_tiny", "cnn_small")
_BATCHES = (1, 2, 4, 8)
_LARGER = (4, 8, 16, 32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """One axis of a program."""

    words: tuple[str, ...]
    """Overrides that its runs have in common."""

    axis: str = "batch"
    values: tuple[int, ...] = _BATCHES

    def runs(self, values: Sequence[int]) -> dict[int, Run]:
        """Return the plans of runs with these values."""
        words = [*self.words, f"{self.axis}={','.join(map(str, values))}", f"steps={_STEPS}"]
        planned = load([*words, "warmup_steps=0", "tool=[]", "analysis=[steps]"]).runs
        return dict(zip(values, planned, strict=True))


def sweeps() -> Iterator[Sweep]:
    """Yield models by precision, optimizer and way to shard; lengths of sequences; ranks."""
    alone = ("world_size=1", "launcher=python")
    for model in _MODELS:
        for precision in ("fp32", "bf16"):
            yield Sweep(words=(f"model={model}", f"precision={precision}", *alone))
    for model in ("gpt_tiny", "cnn_small"):
        yield Sweep(words=(f"model={model}", "workload.optimizer=sgd", *alone))
    for zero in ("none", "zero1", "zero2", "zero3"):
        yield Sweep(words=("model=gpt_tiny", f"zero={zero}", "world_size=2"))
    for model in ("gpt_tiny", "moe_tiny"):
        lengths = (32, 64, 128, 256)
        yield Sweep(words=(f"model={model}", *alone), axis="model.context", values=lengths)
    yield Sweep(words=("model=gpt_tiny", "zero=zero3"), axis="world_size", values=(2, 3, 4))


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A run that was made."""

    behaviour: dict[str, Any]
    steps: Result
    memory_peak: Result | None = None

    @property
    def peak_bytes(self) -> float:
        """Most that a rank allocated, or that its process held."""
        if self.memory_peak is not None:
            return self.memory_peak.metrics["peak_bytes"].value
        return self.steps.metrics["peak_memory_bytes"].value


@dataclass(slots=True)
class _Clock:
    """Passes the steps of a program to a recorder, and times them."""

    recorder: Recorder
    times_ns: list[int] = field(default_factory=list)

    def begin(self) -> None:
        self.recorder.begin()
        self.times_ns.append(time.time_ns())

    def step(self, samples: int) -> None:
        del samples
        self.times_ns.append(time.time_ns())
        self.recorder.step()

    def resume(self) -> None:
        self.times_ns.append(time.time_ns())

    def join(self, first: int, count: int) -> None:
        """See `profkit.marks.Listener`."""

    def note(self, text: str) -> None:
        """See `profkit.marks.Listener`."""


def main() -> None:
    """Print predictions and how far off they are, and then the tries."""
    parser = argparse.ArgumentParser(description=__doc__)
    about = "sweeps that have one of these words in their overrides or axis; all"
    parser.add_argument("--only", nargs="*", default=[""], metavar="WORD", help=about)
    parser.add_argument("--tries", type=int, default=20)

    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        texts = {one: " ".join((*one.words, one.axis)) for one in sweeps()}
        chosen = [one for one, text in texts.items() if any(word in text for word in args.only)]
        if errors := [error for one in chosen for error in _predicted(one)]:
            print(
                f"{len(errors)} predictions: median error {statistics.median(errors):.2%}, "
                f"worst {max(errors):.2%}"
            )
        _tried(args.tries)


def _predicted(one: Sweep) -> Iterator[float]:
    """Make runs, predict others, make these, and yield how far off the peaks are."""
    runs = {value: _measured(run) for value, run in one.runs(one.values).items()}
    found = sweep.analyze.run(
        steps={str(value): run.steps for value, run in runs.items()},
        memory_peak={str(value): run.memory_peak for value, run in runs.items()},
        behaviour={str(value): run.behaviour for value, run in runs.items()},
        config=sweep.Config(),
    )
    shown = f"{' '.join(one.words)}, {one.axis}={','.join(map(str, one.values))}"
    if "predicted_peak_memory_bytes" not in found.tables:
        reasons = "; ".join(abstention.reason for abstention in found.abstentions)
        print(f"{shown}: nothing predicted: {reasons}", flush=True)
        return
    rows = found.tables["predicted_peak_memory_bytes"].records()
    planned = one.runs([int(str(row["value"])) for row in rows])
    names = ("peak_memory_bytes", "low_bytes", "high_bytes")
    for row, (value, run) in zip(rows, planned.items(), strict=True):
        expected, low, high = (float(str(row[name])) for name in names)
        measured = _measured(run)
        error = expected / measured.peak_bytes - 1
        inside = low <= measured.peak_bytes <= high
        print(
            f"{shown}: {value}: {expected:,.0f} predicted, {measured.peak_bytes:,.0f} "
            f"measured, {error:+.2%}, {'inside' if inside else 'outside'} of the interval",
            flush=True,
        )
        yield abs(error)


def _measured(run: Run) -> Measured:
    """Train in a new process for each rank, and return what they allocated."""
    size = int(run.behaviour["world_size"])
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        for status in _ended([_forked(run, rank, port, Path(folder)) for rank in range(size)]):
            if status:
                raise SystemExit(f"{run.name}: a rank ended with status {status}")
        paths = sorted(Path(folder).glob("*.pickle"))
        raws = [Raw(path=path, label="", rank=rank, repeat=0) for rank, path in enumerate(paths)]
        found = [tables.tables(snapshot.read(raw.path), raw, ())["allocations"] for raw in raws]
        times = json.loads(Path(folder, "times.json").read_text())
    allocations = pa.concat_tables(found).unify_dictionaries().to_pandas()
    result = memory_peak.analyze.run(allocations=allocations, config=memory_peak.Config())
    step_ns = float(times[-1] - times[-2])
    # Without step times there is no sweep.
    steps = {"step_time_ns": Metric(value=step_ns, unit="ns", title="", by_repeat={0: step_ns})}
    return Measured(behaviour=run.behaviour, memory_peak=result, steps=Result(metrics=steps))


def _forked(run: Run, rank: int, port: int, folder: Path) -> int:
    """Start one rank, recorded; return its process."""
    if process := os.fork():
        return process
    size = int(run.behaviour["world_size"])
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    coordinates = Rank(rank=rank, world_size=size, local_rank=rank, dp=rank)
    with Capture(steps=_STEPS).record(folder, coordinates) as recorder:
        clock = _Clock(recorder)
        marks.begin_anew(clock)
        _train(run)
    Path(folder, "times.json").write_text(json.dumps(clock.times_ns))
    os._exit(0)


def _train(run: Run) -> None:
    """Train in this process, silently; what fails ends the process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    try:
        train.main(["--config", json.dumps(run.behaviour)])
    except (RuntimeError, MemoryError) as error:
        sys.stderr.write(f"{run.name}: {str(error).splitlines()[0]}\n")
        os._exit(1)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _ended(processes: Sequence[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


def _tried(tries: int) -> None:
    """Train with the largest batch that is said to fit random limits, and with a larger one."""
    chance = random.Random(0)  # noqa: S311 - the same tries again
    failed = more_failed = tried = 0
    chosen = [one for one in sweeps() if one.axis == "batch" and "world_size=1" in one.words]
    known: dict[Sweep, dict[int, Measured]] = {}
    for one in itertools.cycle(replace(one, values=_LARGER) for one in chosen):
        if tried == tries:
            break
        if one not in known:
            known[one] = {value: _unprofiled(run) for value, run in one.runs(one.values).items()}
        runs = known[one]
        limit = round(max(run.peak_bytes for run in runs.values()) * chance.uniform(1.5, 3))
        batch = _largest_batch(runs, limit)
        if batch is None:
            print(f"{' '.join(one.words)}: none is said to be the largest")
            continue
        tried += 1
        batches = (batch, batch + batch // 2)
        fits = [_grown(run, limit) > 0 for run in one.runs(batches).values()]
        failed += not fits[0]
        more_failed += not fits[1]
        words = [
            f"{size} {'fits' if is_in else 'fails'}"
            for size, is_in in zip(batches, fits, strict=True)
        ]
        print(f"{' '.join(one.words)}: {limit / 2**20:.0f} MiB: {', '.join(words)}", flush=True)
    print(f"{failed} of {tries} recommended batches failed, {more_failed} half as large again")


def _unprofiled(run: Run) -> Measured:
    """Return a run whose peak is that of its process."""
    grown = Metric(value=_grown(run), unit="bytes", title="")
    return Measured(behaviour=run.behaviour, steps=Result(metrics={"peak_memory_bytes": grown}))


def _largest_batch(runs: dict[int, Measured], limit: int) -> int | None:
    """Return the largest batch said to fit; None where the peak does not grow with it."""
    found = memory_fit.analyze.run(
        memory_peak=None,
        steps={str(value): run.steps for value, run in runs.items()},
        memory_model=None,
        behaviour={str(value): run.behaviour for value, run in runs.items()},
        hardware={str(value): Hardware(name="limit", memory_bytes=limit) for value in runs},
        config=memory_fit.Config(),
    )
    largest = found.metrics.get("largest_batch")
    return int(largest.value) if largest else None


def _grown(run: Run, limit: int | None = None) -> int:
    """Train in a new process; return by how many bytes it grew, 0 if it failed.

    With a `limit`, it has no more bytes of address space beyond those that it begins with.
    """
    reading, writing = os.pipe()
    if process := os.fork():
        os.close(writing)
        with os.fdopen(reading) as answer:
            text = answer.read()
        return int(text) if _ended([process]) == [0] else 0
    torch.set_num_threads(1)
    marks.begin_anew()
    if limit is not None:
        most = _status_bytes("VmSize") + limit
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    # What its parent once held does not count.
    Path("/proc/self/clear_refs").write_text("5")
    before = _status_bytes("VmRSS")
    _train(run)
    os.write(writing, str(_status_bytes("VmHWM") - before).encode())
    os._exit(0)


def _status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
