"""What the tool ``marks`` adds to a step, how much it writes, and whether it finds a late rank.

    python benchmarks/marks_overhead.py --ranks 8
    python benchmarks/marks_overhead.py --ranks 64 --steps 300

Ranks of gloo on this host train a small model under DDP, all in one process group, in pairs of
blocks of 32 steps: in the first half of the ranks, drawn anew for each pair, has marks, in the
second the other half. So each rank is compared with itself, and what makes all of them slower for
a while is in both. The collectives of one step of each block are recorded, as in all but the first
steps: one of those is left out of each block. Compared is the CPU time, because ranks share the
cores: that of all threads, and that of the program's thread alone, which the hooks of marks run on;
the threads of gloo take most of the time where ranks wait for one another, now more, now less. Then
one rank, another in each try, sleeps for as long as a step takes in each of a few steps, and the
converted marks are asked which it was.
"""

import argparse
import json
import multiprocessing
import os
import random
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import distributed, nn

import profkit
from profkit import marks
from profkit.analyze import stragglers
from profkit.capture.base import NullRecorder, Rank
from profkit.capture.harness.ranks.clock import StepClock, collect
from profkit.capture.marks import Capture
from profkit.convert.base import Raw
from profkit.convert.marks import convert
from profkit.tables import schema

BLOCK, SKIPPED, FIRST = 32, 5, 1
LATE_STEPS = 5
DRAWS = 10_000
CLOCKS = {"all threads": time.process_time, "the program's thread": time.thread_time}


def main() -> None:
    """Print overhead, bytes and late ranks found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=800, help="of the comparison, both kinds")
    parser.add_argument("--tries", type=int, default=20, help="with a late rank")
    parser.add_argument("--late", type=float, default=1.0, help="steps that the late rank sleeps")
    parser.add_argument("--width", type=int, default=256, help="of the model's layers")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
        os.environ["MASTER_PORT"] = str(listening.getsockname()[1])
        listening.close()
        context = multiprocessing.get_context("fork")
        arguments = [(rank, options, Path(folder)) for rank in range(options.ranks)]
        ranks = [context.Process(target=run_rank, args=given) for given in arguments]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        if failed := [process.exitcode for process in ranks if process.exitcode]:
            raise SystemExit(f"{len(failed)} ranks failed")
        print_overhead(Path(folder), options.ranks)
        if options.ranks > 1:
            print_late_ranks(Path(folder), options)


def run_rank(rank: int, options: argparse.Namespace, folder: Path) -> None:
    """Train as `rank`: blocks with and without marks, then the tries with a late rank."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=options.ranks)
    layers = [nn.Linear(options.width, options.width) for _ in range(4)]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    place = Rank(rank=rank, world_size=options.ranks, local_rank=rank, dp=rank)
    train(model, optimizer, SKIPPED)
    spent: dict[str, list[list[float]]] = {"bare": [], "marks": []}
    coin, begun_s = random.Random(0), time.monotonic()  # noqa: S311 - no secret
    for number in range(options.steps // (2 * BLOCK)):
        drawn = coin.sample(range(options.ranks), options.ranks)
        is_first = rank in drawn[: (options.ranks + coin.randrange(2)) // 2]
        for kind in ("marks", "bare") if is_first else ("bare", "marks"):
            out = folder / f"block{number}" if kind == "marks" else None
            with listening(out, place, first_steps=FIRST):
                train(model, optimizer, FIRST)
                begun = [clock() for clock in CLOCKS.values()]
                train(model, optimizer, BLOCK)
                distributed.barrier()
            # Steps that are held are written at the end: of both kinds that counts.
            ended = [clock() for clock in CLOCKS.values()]
            spent[kind].append([end - begin for begin, end in zip(begun, ended, strict=True)])
    (folder / f"rank{rank}.json").write_text(json.dumps(spent))
    late_s = options.late * (time.monotonic() - begun_s) / options.steps
    for number, late in enumerate(late_ranks(options)):
        with listening(folder / f"try{number}", place):
            train(model, optimizer, LATE_STEPS, late_s if rank == late else 0.0)
    distributed.barrier()
    distributed.destroy_process_group()


def train(model: nn.Module, optimizer: Any, steps: int, late_s: float = 0.0) -> None:
    """Train for `steps`, each begun late by `late_s`."""
    width = next(model.parameters()).shape[1]
    for _ in profkit.steps(steps):
        with profkit.phase("data"):
            batch = torch.randn(64, width)
            time.sleep(late_s)
        with profkit.phase("forward"):
            loss = model(batch).square().mean()
        with profkit.phase("backward"):
            loss.backward()
        with profkit.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()


@contextmanager
def listening(out: Path | None, rank: Rank, **settings: Any) -> Iterator[None]:
    """Have marks record into `out`, as in a capture; None is a capture without a profiler."""
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        recorder = (
            stack.enter_context(Capture(**settings).record(out, rank)) if out else NullRecorder()
        )
        clock = stack.enter_context(StepClock(folder, rank, recorder, {}))
        marks.begin_anew(clock)
        yield
    marks.begin_anew()


def late_ranks(options: argparse.Namespace) -> list[int]:
    """Return the late rank of each try."""
    coin = random.Random(1)  # noqa: S311 - no secret
    return [coin.randrange(options.ranks) for _ in range(options.tries)]


def print_overhead(folder: Path, ranks: int) -> None:
    """Print the CPU time that marks add, and the bytes that they write."""
    spent = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]
    summed = {kind: np.array([each[kind] for each in spent]).sum(axis=0) for kind in spent[0]}
    of_all = summed["bare"].T[0]
    for of, bare, with_marks in zip(CLOCKS, summed["bare"].T, summed["marks"].T, strict=True):
        added = (with_marks - bare) / ranks / BLOCK * 1e3
        drawn = np.random.default_rng(0).choice(added, (DRAWS, len(added)))
        low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
        own, step = (1e3 * np.median(each) / ranks / BLOCK for each in (bare, of_all))
        print(
            f"{ranks} ranks, {len(added)} pairs of blocks of {BLOCK} steps: CPU time of {of},"
            f" {own:.2f} ms a rank and step, added {np.median(added):+.3f} ms,"
            f" 95% interval {low:+.3f} to {high:+.3f}, or {low / step:+.2%} to {high / step:+.2%}"
            f" of the {step:.2f} ms of all threads"
        )
    sizes = [path.stat().st_size for path in folder.glob("block*/*.marks.jsonl")]
    steps = FIRST + BLOCK
    print(f"bytes of a rank and step: {np.mean(sizes) / steps:.0f}, most {max(sizes) / steps:.0f}")


def print_late_ranks(folder: Path, options: argparse.Namespace) -> None:
    """Print in how many tries the stragglers name the rank that was late."""
    found = [
        straggler(folder / f"try{number}") == late
        for number, late in enumerate(late_ranks(options))
    ]
    print(f"late rank found: {sum(found)} of {len(found)}, late by {options.late:g} steps")


def straggler(folder: Path) -> int:
    """Return the rank that causes most waiting by the marks in `folder`."""
    collect(folder)
    tables: dict[str, list[Any]] = {"collectives": [], "cpu_ops": []}
    for path in folder.glob("*.marks.jsonl"):
        label = path.name.partition(".")[0]
        rank = int(label.partition("_")[0].removeprefix("rank"))
        converted = convert.run(Raw(path=path, label=label, rank=rank, repeat=0), folder)
        for name, parts in tables.items():
            rows: Any = converted.tables[name]
            parts.append(rows.to_pandas())
    joined = {name: pd.concat(parts) for name, parts in tables.items()}
    for table in joined.values():
        # Texts of each rank are coded apart.
        texts = table.select_dtypes("object").columns
        table[texts] = table[texts].astype("category")
    nothing = {name: schema.frame(name) for name in ("kernels", "hosts")}
    result = stragglers.analyze.run(**joined, **nothing, config=stragglers.Config())
    return int(result.tables["by_rank"].records()[0]["rank"])


if __name__ == "__main__":
    main()
