"""How near ``memory_fit`` comes to the memory of batches that were not run, and whether they fit.

    python benchmarks/memory_prediction.py

Eight small programs train on the CPU, each with every batch in a process of its own, whose largest
address space is taken, less that of an idle one. Four batches of each make its line; five others,
40 in all, are held against it. Then limits of the address space are drawn at random, and the batch
that the analysis recommends for each is run under it: it must not fail. Printed beside it: how much
of the limit it used, and whether half as many samples more would have failed.
"""

import argparse
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from profkit.analyze import memory_fit
from profkit.core.hardware import Hardware
from profkit.core.result import Metric, Result

FITTED = (16, 32, 64, 128)
HELD_OUT = (24, 48, 96, 160, 192)
STEPS = 2
FAILED = 1

Build = Callable[[], tuple[nn.Module, tuple[int, ...]]]


def _wide() -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)), (512,)


def _deep() -> tuple[nn.Module, tuple[int, ...]]:
    layers = [layer for _ in range(12) for layer in (nn.Linear(512, 512), nn.ReLU())]
    return nn.Sequential(*layers), (512,)


def _convolutions() -> tuple[nn.Module, tuple[int, ...]]:
    layers = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16)]
    return nn.Sequential(*layers), (3, 32, 32)


def _transformer(length: int, layers: int) -> Build:
    def build() -> tuple[nn.Module, tuple[int, ...]]:
        layer = nn.TransformerEncoderLayer(64, 2, 256, batch_first=True)
        return nn.TransformerEncoder(layer, layers), (length, 64)

    return build


def _recurrent() -> tuple[nn.Module, tuple[int, ...]]:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.LSTM(64, 128, batch_first=True)

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            outputs: torch.Tensor = self.inner(batch)[0]
            return outputs

    return Last(), (32, 64)


PROGRAMS: dict[str, Build] = {
    "wide": _wide,
    "deep": _deep,
    "convolutions": _convolutions,
    "transformer, 32 tokens": _transformer(32, 2),
    "transformer, 64 tokens": _transformer(64, 1),
    "transformer, 128 tokens": _transformer(128, 1),
    "transformer, 4 layers": _transformer(16, 4),
    "recurrent": _recurrent,
}


def main() -> None:
    """Measure, predict, run under limits, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20, help="batches to run under a limit")
    args = parser.parse_args()
    torch.set_num_threads(1)
    idle = _address_space()
    errors = []
    measured = {}
    for name, build in PROGRAMS.items():
        peaks = {batch: _peak(build, batch, idle) for batch in (*FITTED, *HELD_OUT)}
        measured[name] = {batch: peaks[batch] for batch in FITTED}
        fit = _fit(measured[name], 0)
        found = [_line(fit, batch) / peaks[batch] - 1 for batch in HELD_OUT]
        errors += [abs(error) for error in found]
        shown = ", ".join(f"{error:+.1%}" for error in found)
        low, high = (end(peaks.values()) >> 20 for end in (min, max))
        print(f"{name}: {low} to {high} MiB, {shown}", flush=True)
    print(f"{len(errors)} held out: median {np.median(errors):.1%}, worst {max(errors):.1%}")
    _limited(measured, args.tries, idle)


def _limited(measured: dict[str, dict[int, int]], tries: int, idle: int) -> None:
    random = np.random.default_rng(0)
    failed = useful = 0
    for number in range(tries):
        name = list(PROGRAMS)[number % len(PROGRAMS)]
        build, peaks = PROGRAMS[name], measured[name]
        limit = int(random.uniform(peaks[FITTED[1]], 1.5 * peaks[FITTED[-1]]))
        batch = int(_fit(peaks, limit)["largest_batch"] or 0)
        ended = _run(build, batch, idle + limit)
        more = _run(build, batch + max(1, batch // 2), idle + limit)
        failed += ended is None
        useful += more is None
        used = f"{(ended - idle) / limit:.0%} used" if ended else "FAILED"
        shown = f"{name}, {limit >> 20} MiB: batch {batch}, {used}"
        print(f"{shown}; half more {'fits' if more else 'fails'}", flush=True)
    print(f"under a limit: {failed} of {tries} failed; half more fails in {useful}")


def _fit(peaks: dict[int, int], limit: int) -> dict[str, Any]:
    """Return the row of the analysis about a program with these peaks."""
    runs = {f"batch {batch}": batch for batch in peaks}
    metrics = {
        run: Metric(value=peaks[batch], unit="bytes", title="Peak") for run, batch in runs.items()
    }
    found = memory_fit.analyze.run(
        memory_peak=None,
        steps={run: Result(metrics={"peak_memory_bytes": metrics[run]}) for run in runs},
        memory_model=None,
        behaviour={run: {"batch": batch} for run, batch in runs.items()},
        hardware={run: Hardware(name="limit", memory_bytes=limit) for run in runs},
        config=memory_fit.Config(),
    )
    return found.tables["fits"].records()[0]


def _line(fit: dict[str, Any], batch: int) -> float:
    return float(fit["fixed_bytes"] + batch * fit["per_sample_bytes"])


def _peak(build: Build, batch: int, idle: int) -> int:
    peak = _run(build, batch, 0)
    if peak is None:
        raise SystemExit("a program failed without a limit")
    return peak - idle


def _run(build: Build, batch: int, limit: int) -> int | None:
    """Train in a child; return its largest address space, None if it ran out of memory."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            _train(build, batch)
            os.write(writing, str(_address_space()).encode())
        except (MemoryError, RuntimeError):
            os._exit(FAILED)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    _, status = os.waitpid(child, 0)
    return int(text) if os.waitstatus_to_exitcode(status) == 0 else None


def _train(build: Build, batch: int) -> None:
    torch.manual_seed(0)
    model, shape = build()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(batch, *shape)).pow(2).mean().backward()
        optimizer.step()


def _address_space() -> int:
    """Return the largest address space that this process has had, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("VmPeak:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()
