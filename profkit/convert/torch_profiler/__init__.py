"""torch.profiler: the trace of each rank as operators, kernels, calls, collectives and memory."""

from pathlib import Path

from profkit.convert._harness_steps import ended_steps
from profkit.convert.base import Converted, Importable, Raw, converter
from profkit.convert.torch_profiler import samples, trace
from profkit.convert.torch_profiler.recorded import recorded
from profkit.convert.torch_profiler.turns import AT_ONCE


@converter(
    "steps",
    "cpu_ops",
    "kernels",
    "runtime_calls",
    "annotations",
    "python_calls",
    "collectives",
    "memory_events",
    "kernel_metrics",
    "synchronisations",
    "devices",
    *samples.TABLES,
    pattern="rank*.pt.trace.json*",
    importable=Importable(
        word="trace",
        patterns=("*.json", "*.json.gz"),
        suffix=".pt.trace.json",
        stated_rank=trace.stated_rank,
        begins=(b"{", b"["),
        recorded=recorded,
    ),
)
def convert(raw: Raw, out: Path) -> Converted:
    """Read one trace; the caller joins several traces of one rank."""
    del out
    sampled = samples.read(raw)
    in_turns = sampled.turns if sampled else None
    read = trace.read(
        raw.path,
        rank=raw.rank,
        repeat=raw.repeat,
        ended_steps=ended_steps(raw),
        block_bytes=raw.block_bytes,
        # Processes that read parts do not know of turns.
        cores=1 if in_turns else raw.cores,
        helpers=raw.helpers,
        in_turns=in_turns,
        scratch=raw.scratch,
    )
    chunks = {name: made() for name, made in read.chunks.items() if name not in read.writers}
    looks = {name: [table] for name, table in samples.tables(raw, sampled, in_turns).items()}
    notes = (AT_ONCE, *read.notes) if in_turns and not in_turns.are_alone else read.notes
    return Converted(tables={**chunks, **read.writers, **looks}, notes=notes)
