"""``profkit doctor [OVERRIDES]``: what works on this machine, what does not, and what to do."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from profkit.capture import tools
from profkit.capture.base import Problem, Tool, executable
from profkit.capture.harness.machine import compatibility, permissions, software_and_hardware
from profkit.cli import cluster
from profkit.cli.terminal import Terminal
from profkit.core import registry, resources
from profkit.core.settings import known
from profkit.planning.compose import compose_all

_WIDTH = 200
_GIB = 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """The problems of one tool on this machine."""

    name: str
    is_selected: bool
    program: str
    path: str
    """Where the executable lies; empty for a distribution of Python."""

    version: str
    problems: tuple[Problem, ...]

    @property
    def is_usable(self) -> bool:
        """Whether nothing keeps the tool from running."""
        return not any(problem.stops for problem in self.problems)

    def answer(self, kind: str) -> str:
        """Return yes, partly or no for whether there is no problem of `kind`; "" if unknown."""
        stopping = [problem.stops for problem in self.problems if problem.kind == kind]
        if stopping:
            return "no" if any(stopping) else "partly"
        is_missing = any(problem.kind == "missing" and problem.stops for problem in self.problems)
        return "" if is_missing else "yes"


def main(argv: Sequence[str]) -> int:
    """Print the machine and the tools; return 0 if all tools that are selected can be used."""
    parser = argparse.ArgumentParser(prog="profkit doctor", description=__doc__)
    parser.add_argument("overrides", nargs="*", help="which tools have to work; the default set")
    about = "profile of a cluster that has to work as well"
    parser.add_argument("--on", default="", metavar="PROFILE", help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_intermixed_args(argv)
    of_cluster = _cluster_problems(args.on) if args.on else []
    selected = {
        tool
        for composed in compose_all(resources.CONF, args.overrides)
        for tool in composed.values["tools"]
    }
    found = [diagnosed(name, kind, selected) for name, kind in tools().items()]
    machine = software_and_hardware.machine() | _permissions()
    machine_problems = [*compatibility.of_machine(machine), *of_cluster]
    are_usable = all(tool.is_usable for tool in found if tool.is_selected)
    takes_jobs = not any(problem.stops for problem in of_cluster)
    is_usable = are_usable and takes_jobs
    if args.json:
        report = _as_json(machine, machine_problems, found) | {"usable": is_usable}
        sys.stdout.write(json.dumps(report, indent=1) + "\n")
    else:
        _print(machine, machine_problems, found)
        names = ", ".join(sorted(selected))
        sys.stdout.write(f"\nThe tools {names} can {'' if are_usable else 'not all '}be used.\n")
        if not takes_jobs:
            sys.stdout.write(f"No job can be sent to {args.on} from here: see above.\n")
    return 0 if is_usable else 1


def _cluster_problems(name: str) -> list[Problem]:
    """Return why the cluster of profile `name` cannot be used, or less well."""
    profile = known("profile", name, resources.cluster_profiles())
    return [*cluster.problems(profile)]


def diagnosed(name: str, kind: type[Tool], selected: set[str]) -> Diagnosis:
    """Return the problems that one tool finds on this machine."""
    problems = tuple(kind.problems())
    reason = kind.unavailable_reason()
    if reason and not any(problem.stops for problem in problems):
        # A plugin may answer in its own words only.
        problems += (Problem(kind="missing", what=reason, advice=""),)
    return Diagnosis(
        name=name,
        is_selected=name in selected,
        program=kind.profiler_name(),
        path=executable(kind.profiler_name()),
        version=kind.version(),
        problems=problems,
    )


def _permissions() -> dict[str, Any]:
    """Return the permissions that the kernel and the driver give to profilers."""
    return {
        "ptrace_scope": permissions.ptrace_scope(),
        "perf_event_paranoid": permissions.perf_event_paranoid(),
        "gpu_counters_restricted": permissions.are_counters_restricted(),
    }


def _as_json(
    machine: Mapping[str, Any], machine_problems: Sequence[Problem], found: Sequence[Diagnosis]
) -> dict[str, Any]:
    return {
        "machine": machine,
        "problems": [asdict(problem) for problem in machine_problems],
        "tools": [
            {
                **asdict(tool),
                "found": tool.answer("missing"),
                "permitted": tool.answer("forbidden"),
                "compatible": tool.answer("incompatible"),
                "usable": tool.is_usable,
            }
            for tool in found
        ],
    }


def _print(
    machine: Mapping[str, Any], machine_problems: Sequence[Problem], found: Sequence[Diagnosis]
) -> None:
    # Wide enough for advice to stay in one line, so that it can be pasted.
    console = Terminal(sys.stdout, markup=False, width=_WIDTH)
    about = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, value in _machine_rows(machine):
        about.add_row(name, value)
    console.print(about)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("", "tool", "program", "version", "found", "permitted", "compatible", "about"):
        table.add_column(heading)
    modules = registry.module_names("profkit.capture")
    for tool in found:
        answers = map(tool.answer, ("missing", "forbidden", "incompatible"))
        marked = "*" if tool.is_selected else ""
        row = (marked, tool.name, tool.program, tool.version, *answers)
        table.add_row(*row, registry.first_line(modules[tool.name]))
    console.print()
    console.print(table)
    problems = [("machine", problem) for problem in machine_problems]
    problems += [(tool.name, problem) for tool in found for problem in tool.problems]
    for name, problem in problems:
        console.print(f"\n{name}: {problem.what}", soft_wrap=True)
        if problem.advice:
            console.print(f"  {problem.advice}", soft_wrap=True)


def _machine_rows(machine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    shared, level = machine["shared_memory_bytes"], machine["perf_event_paranoid"]
    yield "CPU", f"{machine['cpu']}, {machine['cpu_count']} usable"
    yield "memory", f"{machine['memory_bytes'] / _GIB:.1f} GiB"
    yield "shared memory", f"{shared / _GIB:.1f} GiB" if shared >= 0 else "not of a fixed size"
    yield "system", f"{machine['os']}, Python {machine['python']}"
    for gpu in machine["gpus"]:
        memory = f", {gpu['memory_bytes'] / _GIB:.1f} GiB" if "memory_bytes" in gpu else ""
        yield "GPU", f"{gpu.get('name', 'without a name')}{memory}"
    if not machine["gpus"]:
        yield "GPU", "none that NVIDIA's driver knows"
    yield "driver", machine["driver"] or "none"
    yield "CUDA of torch", machine["cuda"] or "none"
    yield "CUDA of the driver", machine["cuda_driver"] or "none"
    yield "ptrace_scope", str(machine["ptrace_scope"]) if machine["ptrace_scope"] >= 0 else "none"
    yield "perf_event_paranoid", "no events" if level is None else str(level)
    if machine["driver"]:
        is_restricted = machine["gpu_counters_restricted"]
        yield "GPU counters", "for administrators" if is_restricted else "for everybody"
