"""What followed processes are asked for, and the environment that brings it to them."""

import base64
import os
import pickle
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from profkit.capture.base import Tool
from profkit.capture.harness.spec import Spec
from profkit.core.parallel_layout import Parallel
from profkit.workloads.automatic.step_ends import Round, StepKind

VARIABLE = "PROFKIT_FOLLOWED"
"""Environment variable with the `FollowRequest`."""

TOO_OLD = "capture.too_old.log"
"""File in which a Python that is too old says so."""

_TOO_OLD_VARIABLE = "PROFKIT_TOO_OLD"
_FOLDER = Path(__file__).parent / "path"
_PYTHON_PATH = "PYTHONPATH"
_SETS_PATH = f"{_PYTHON_PATH}="
_SET_IN_TEXT = re.compile(rf"(?<![\w.$]){_SETS_PATH}")
# An assignment in a shell or in Python that does not hold the earlier value.
_REPLACES = re.compile(
    rf"""(?!\s*\#)(?!.*\$\{{?{_PYTHON_PATH})(?!.*environ.*environ)"""
    rf"""(?:.*[^\w.$])?{_PYTHON_PATH}(?:["']\])?\s*=(?!=)"""
)
_SCRIPT_BYTES = 1 << 20
_BASELINE, _FIRST = "baseline", "rep0"
# Others record all of the steps, or as many as they have memory for.
_TIMED = (_BASELINE, "torch_profiler")


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowRequest:
    """Settings that have been checked where there is pydantic."""

    tool: Tool
    parallel: Parallel
    step: StepKind
    samples: int
    """Samples of a step; -1 if that is not known."""

    round: Round | None
    """What a step of several optimizers is, if that was found out."""

    has_several_threads: bool
    """Whether it was found out that several threads call the model."""

    stop_after: int
    """Steps after which the program is ended; 0 lets it come to its own end."""

    stop_after_s: float
    """Seconds of steps before which the only rank is not ended."""

    note: str
    """What readers of the capture should know of the tool's settings, "" if nothing."""


def of(spec: Spec, tool: Tool) -> FollowRequest:
    """Return what the processes of the capture `spec` are asked for."""
    # Late, as in what followed processes import.
    from profkit.capture.harness.followed.slow_beginning import slow_first_steps

    workload = spec.workload["workload"]
    known = _of_baseline(spec)
    step = workload.get("step", "auto")
    slow = slow_first_steps(_baseline(spec), *tool.traced_steps) if known else 0
    later = tool.after(slow)
    note = (
        f"The first {slow} steps take longer than others, and were not traced: skip_first={slow}."
    )
    return FollowRequest(
        tool=later,
        note="" if later == tool else note,
        parallel=spec.parallel,
        step=_found(known) if step == "auto" else step,
        samples=workload.get("samples") or -1,
        round=_round(known),
        has_several_threads=bool(known.get("has_several_threads")),
        stop_after=workload.get("stop_after") or 0,
        stop_after_s=workload.get("stop_after_s", 0.0) if spec.tool in _TIMED else 0.0,
    )


def _of_baseline(spec: Spec) -> dict[str, Any]:
    """Return what the first capture without a tool found out, if it was another one."""
    # Late: what followed processes import is there without msgspec.
    from profkit.capture.harness.record import capture_json
    from profkit.core.capture_record import read_capture

    path = _baseline(spec) / capture_json.NAME
    return {} if path.parent == spec.folder or not path.is_file() else read_capture(path)


def _baseline(spec: Spec) -> Path:
    return spec.folder.parents[1] / _BASELINE / _FIRST


def _found(known: Mapping[str, Any]) -> StepKind:
    """Return what the steps are, if that is `known`."""
    if known.get("first_passes"):
        return "optimizer"
    return "forward" if known.get("unstepped_passes") else "auto"


def _round(known: Mapping[str, Any]) -> Round | None:
    """Return what a step of several optimizers is, if that is `known`."""
    found = known.get("round")
    return Round(tuple(found["calls"]), found["last"]) if found else None


def to_environment(
    request: FollowRequest, spec: Spec, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return what is added to `environment`, or replaced, so that its processes are followed."""
    packed = base64.b64encode(pickle.dumps(request, protocol=4)).decode()
    path = [str(_FOLDER), *filter(None, [environment.get(_PYTHON_PATH)])]
    return {
        VARIABLE: packed,
        _TOO_OLD_VARIABLE: str(spec.folder / TOO_OLD),
        _PYTHON_PATH: os.pathsep.join(path),
    }


def reaching(words: Sequence[str]) -> list[str]:
    """Return the words of a command with profkit's folder in each PYTHONPATH that they set.

    What they say goes on to hold: it stands behind, as in ``env PYTHONPATH=src python train.py``.
    """
    return [_reaching(word) for word in words]


def _reaching(word: str) -> str:
    if word.startswith(_SETS_PATH):
        return f"{_SETS_PATH}{_FOLDER}{os.pathsep}{word.removeprefix(_SETS_PATH)}"
    # Text of a shell, or a list of assignments, in which a folder with a space would need quotes.
    is_plain = shlex.quote(str(_FOLDER)) == str(_FOLDER)
    return _SET_IN_TEXT.sub(rf"\g<0>{_FOLDER}{os.pathsep}", word) if is_plain else word


def replacing_line(words: Sequence[str], folder: Path) -> str:
    """Return the line of a script among `words` that replaces PYTHONPATH, as ``name:3``, or ""."""
    for path in (folder / word for word in words if word):
        # Text of a shell is longer than a name of a file may be.
        if os.path.isfile(path) and path.stat().st_size < _SCRIPT_BYTES:  # noqa: PTH113
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
                if _REPLACES.match(line):
                    return f"{path.name}:{number}"
    return ""


def from_environment(environment: Mapping[str, str]) -> FollowRequest:
    """Return the request; raises ModuleNotFoundError where the tool's own packages are missing."""
    packed = base64.b64decode(environment[VARIABLE])
    return cast("FollowRequest", pickle.loads(packed))  # noqa: S301 - profkit's own
