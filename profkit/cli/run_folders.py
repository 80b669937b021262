"""The runs of the result tree, as people name them and as their files describe them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from profkit.core.capture_record import read_capture
from profkit.core.errors import InputError
from profkit.core.formatting import counted
from profkit.core.run_manifest import read_manifest
from profkit.core.settings import nearest
from profkit.dag.overrides import last_runs

RUNS = Path("results/runs")
SELECTION = Path("results/selection")
"""Results of all runs of the last report together."""


class _Metric(msgspec.Struct):
    value: float


class _Metrics(msgspec.Struct):
    metrics: dict[str, _Metric]


class _Steps(msgspec.Struct):
    """The part of a result of the analysis ``steps`` that is shown."""

    result: _Metrics


@dataclass(frozen=True)
class RunFolder:
    """One folder of ``results/runs``."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.path.name

    @cached_property
    def captures(self) -> list[dict[str, Any]]:
        """Records of its captures."""
        return [
            read_capture(path) for path in sorted(self.path.glob("capture/*/rep*/capture.json"))
        ]

    @property
    def unread(self) -> frozenset[str]:
        """Keys of its settings that its program never gets, as far as its manifest says."""
        path = self.path / "manifest.json"
        made = read_manifest(path) if path.is_file() else None
        return frozenset(made.facts.get("unread", ()) if made else ())

    @property
    def is_imported(self) -> bool:
        """Whether it is made of files that came from elsewhere."""
        return any("imported" in record["workload"] for record in self.captures)

    @property
    def ended(self) -> str:
        """Time of its last capture, in ISO format; empty if it has none."""
        return max((str(record.get("ended", "")) for record in self.captures), default="")

    @property
    def status(self) -> str:
        """How its captures went, in a few words."""
        if not self.captures:
            return "not captured"
        bad = [record["status"] for record in self.captures if record["status"] != "ok"]
        if not bad:
            return "ok"
        kinds = ", ".join(dict.fromkeys(bad))
        return f"{len(bad)} of {counted(len(self.captures), 'capture')}: {kinds}"

    @property
    def failure(self) -> dict[str, Any]:
        """The record of the capture that failed first; {} if one is good, or there is none."""
        if any(record["status"] == "ok" for record in self.captures):
            return {}
        tried = [record for record in self.captures if record["status"] != "skipped"]
        return min(tried, key=lambda record: str(record.get("started", "")), default={})

    @property
    def left_out(self) -> int:
        """How many processes of a command made steps and are no ranks of this run."""
        return max((record.get("left_out", 0) for record in self.captures), default=0)

    @property
    def step_is(self) -> str:
        """What a step is where it is none of an optimizer, such as a forward pass, or ""."""
        found = (str(record.get("step_is", "")) for record in self.captures)
        return next(filter(None, found), "")

    def log(self, record: dict[str, Any]) -> Path:
        """Return the log of a capture, or that of its job if the command was never started."""
        name = f"{record['tool']}/rep{record['repeat']}"
        printed = self.path / f"capture/{name}/capture.log"
        job = self.path / f"logs/capture/{name.replace('/', '.')}.log"
        return printed if printed.is_file() or not job.is_file() else job

    @property
    def step_time_ns(self) -> float | None:
        """Time of a step by the analysis ``steps``; None if that is not known."""
        path = self.path / "analyze" / "steps.json"
        try:
            made = msgspec.json.decode(path.read_bytes(), type=_Steps)
        except (OSError, msgspec.MsgspecError):
            return None
        step = made.result.metrics.get("step_time_ns")
        return step.value if step else None

    def files(self) -> Iterator[Path]:
        """Yield its files."""
        return (path for path in self.path.rglob("*") if path.is_file())


def all_runs() -> list[RunFolder]:
    """Return the runs in ``results/runs``, the newest first."""
    folders = [RunFolder(path) for path in sorted(RUNS.glob("*")) if path.is_dir()]
    return sorted(folders, key=lambda run: run.ended, reverse=True)


def run_named(name: str) -> RunFolder:
    """Return the run with a name, with the one name that begins so, or in that folder."""
    if not name:
        raise InputError("the name of a run is empty", hint="profkit ls names the runs here")
    folders = {path.name: path for path in RUNS.glob("*") if path.is_dir()}
    if name in folders:
        return RunFolder(folders[name])
    if is_run(Path(name)):
        return RunFolder(Path(name).resolve())
    begun = [other for other in folders if other.startswith(name)]
    if len(begun) == 1:
        return RunFolder(folders[begun[0]])
    if begun:
        raise InputError(
            f"{len(begun)} runs have names that begin with {name!r}", hint=_listed(sorted(begun))
        )
    hint = nearest(name, folders) if folders else "there is no run here: profkit profile makes one"
    if "://" in name:
        hint = "download it first: profkit reads files of this machine"
    raise InputError(f"no run or file is called {name!r}", hint=hint)


def is_run(folder: Path) -> bool:
    """Say whether a folder is that of a run."""
    return any((folder / part).is_dir() for part in ("capture", "tables", "analyze"))


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def last_selected() -> list[RunFolder]:
    """Return the runs of the last selection in its order; all, the newest first, if none is known.

    Raises `InputError` if there is no run.
    """
    runs = all_runs()
    if not runs:
        raise InputError(
            f"{Path.cwd()}: no results here",
            hint="profkit profile -- COMMAND makes a run; profkit show FILE reads a recording",
        )
    by_name = {run.name: run for run in runs}
    return [by_name[name] for name in last_runs() if name in by_name] or runs
