"""``profkit hardware measure``: the peaks of this machine's CPU, as a file of ``conf/hardware``."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import yaml

from profkit.capture.harness.machine import software_and_hardware
from profkit.core import resources
from profkit.core.atomic_write import write_atomically
from profkit.core.errors import InputError
from profkit.core.formatting import counted
from profkit.core.hardware import Hardware

TYPES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16"}
"""What is measured, with torch's name for it."""

_OUT = Path("hardware") / "cpu_measured.yaml"
_COMMENT = "# The CPU of this machine, measured by `profkit hardware measure`.\n"
_MATRIX = 2048
# STREAM asks for four times the last-level cache, so that memory is what is measured.
_ARRAY_BYTES = 1 << 29
_SECONDS = 1.0


def main(argv: Sequence[str]) -> None:
    """Measure for some seconds, with nothing else running, and write the file."""
    parser = argparse.ArgumentParser(prog="profkit hardware", description=__doc__)
    parser.add_argument("what", choices=["measure"], help="what to do")
    out = resources.own_conf() / _OUT
    parser.add_argument("--out", type=Path, default=out, help="file to write (%(default)s)")
    options = parser.parse_args(argv)
    part = measured(matrix=_MATRIX, array_bytes=_ARRAY_BYTES, seconds=_SECONDS)
    values = asdict(part) | {"reported_as": list(part.reported_as)}
    text = _COMMENT + yaml.safe_dump(values, sort_keys=False, width=100)
    try:
        write_atomically(options.out, text.encode())
    except OSError as error:
        raise InputError(f"{options.out}: {error.strerror}", hint="name another --out") from None
    sys.stdout.write(f"{text}\n{options.out}: choose it with hardware={options.out.stem}\n")


def measured(*, matrix: int, array_bytes: int, seconds: float) -> Hardware:
    """Return what products of `matrix` x `matrix` and a triad over `array_bytes` each reach.

    Every number is the best of repetitions over `seconds`, with the threads that torch takes.
    """
    import torch  # noqa: PLC0415 - takes seconds

    machine = software_and_hardware.machine()
    peaks = {name: _product_flops(getattr(torch, TYPES[name]), matrix, seconds) for name in TYPES}
    return Hardware(
        name=f"{machine['cpu']} (CPU, {counted(torch.get_num_threads(), 'thread')})",
        memory_bytes=machine["memory_bytes"],
        memory_bandwidth_bytes_per_s=_triad_bytes_per_s(array_bytes, seconds),
        peak_flops=peaks,
        processors=machine["cpu_count"],
        source=f"measured with torch {torch.__version__}: square products of {matrix}, triad over"
        f" arrays of {array_bytes >> 20} MiB",
    )


def _product_flops(dtype: object, size: int, seconds: float) -> float:
    import torch  # noqa: PLC0415 - takes seconds

    left, right = (torch.randn(size, size).to(dtype) for _ in range(2))  # type: ignore[call-overload]
    out = torch.empty_like(left)
    return 2 * size**3 / _best(lambda: torch.mm(left, right, out=out), seconds)


def _triad_bytes_per_s(array_bytes: int, seconds: float) -> float:
    """Return STREAM's triad, a = b + s c: two arrays read and one written."""
    import torch  # noqa: PLC0415 - takes seconds

    one, other, out = (torch.ones(array_bytes // 4) for _ in range(3))
    return 3 * array_bytes / _best(lambda: torch.add(one, other, alpha=3.0, out=out), seconds)


def _best(run: Callable[[], object], seconds: float) -> float:
    """Return the least time that `run` takes, in s, over at least three repetitions."""
    run()
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - begun < seconds:  # noqa: PLR2004
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)
