"""The command lines that make the captures of a plan, as a person would type them."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from profkit.capture.harness.hosts import start_hosts
from profkit.capture.harness.job import Job, prepare
from profkit.capture.harness.spec import Spec
from profkit.core.formatting import counted
from profkit.core.secret_masking import Masker
from profkit.planning.model import Plan, Run


def command_lines(plan: Plan, run: Run) -> Iterator[str]:
    """Yield how each tool of `run` is started, also one that is not installed here."""
    for tool in run.tools:
        spec = _spec(run, tool)
        job = prepare(spec, plan.run_settings)
        repeats = plan.tools[tool].repeats
        yield f"  {tool}, {counted(repeats, 'time')}:" if repeats > 1 else f"  {tool}:"
        if reason := job.unavailable_reason():
            yield f"    cannot run here: {reason}"
        if starting := start_hosts.starting_command(spec):
            yield f"    on each host, by {shlex.join(starting)}; on the first:"
        yield from (f"    {line}" for line in _lines(job))


def _lines(job: Job) -> Iterator[str]:
    masker = Masker(job.environment)
    given = masker.document(job.given_variables)
    assignments = [f"{name}={shlex.quote(value)}" for name, value in given.items()]
    own = job.tool_commands
    first = own.pop(0) if job.wraps_launcher else job.command
    yield " ".join([*assignments, shlex.join(masker.document(first))])
    where = "meanwhile" if job.wraps_launcher else "each rank"
    yield from (f"{where}: {shlex.join(masker.document(words))}" for words in own)


def _spec(run: Run, tool: str) -> Spec:
    folder = Path("results/runs", run.name, "capture", tool, "rep0").resolve()
    results = (f"results/runs/{run.name}/analyze/{name}.json" for name in run.reads.get(tool, ()))
    return Spec(
        token="",
        tool=tool,
        out=str(folder),
        settings=run.tools[tool],
        reads=[path for path in results if Path(path).is_file()],
        workload=run.behaviour,
    )
