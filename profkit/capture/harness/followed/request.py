"""What followed processes are asked for, and the environment that brings it to them."""

import base64
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from profkit.capture.base import Tool
from profkit.capture.harness.spec import Spec
from profkit.core.parallel_layout import Parallel
from profkit.workloads.automatic.step_ends import StepKind

VARIABLE = "PROFKIT_FOLLOWED"
"""Environment variable with the `FollowRequest`."""

TOO_OLD = "capture.too_old.log"
"""File in which a Python that is too old says so."""

_TOO_OLD_VARIABLE = "PROFKIT_TOO_OLD"
_FOLDER = Path(__file__).parent / "path"
_PYTHON_PATH = "PYTHONPATH"


@dataclass(frozen=True, kw_only=True, slots=True)
class FollowRequest:
    """Settings that have been checked where there is pydantic."""

    tool: Tool
    parallel: Parallel
    step: StepKind
    samples: int
    """Samples of a step; -1 if that is not known."""

    stop_after: int
    """Steps after which the program is ended; 0 lets it come to its own end."""


def of(spec: Spec, tool: Tool) -> FollowRequest:
    """Return what the processes of the capture `spec` are asked for."""
    workload = spec.workload["workload"]
    return FollowRequest(
        tool=tool.with_results(spec.results()),
        parallel=spec.parallel,
        step=workload.get("step", "auto"),
        samples=workload.get("samples") or -1,
        stop_after=workload.get("stop_after") or 0,
    )


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


def from_environment(environment: Mapping[str, str]) -> FollowRequest:
    """Return the request; raises ModuleNotFoundError where the tool's own packages are missing."""
    packed = base64.b64decode(environment[VARIABLE])
    return cast("FollowRequest", pickle.loads(packed))  # noqa: S301 - profkit's own
