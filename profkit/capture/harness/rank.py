"""What runs on each rank: the workload, with the tool around it or inside it."""

import faulthandler
import gc
import os
import runpy
import sys
import time
import traceback
from contextlib import AbstractContextManager, nullcontext

from profkit import marks, registry
from profkit.capture.base import Bystander, Rank, Recorder, Session, Tool, Wrapper, executable
from profkit.capture.harness import lifetime
from profkit.capture.harness.clock import StepClock
from profkit.capture.harness.outcome import leave_error
from profkit.capture.harness.spec import Spec, rank_of, received
from profkit.errors import ProfkitError
from profkit.settings import known

PROGRAM = ("-m", "profkit.capture.harness.rank")
"""Arguments of Python that the launcher starts on each rank."""

_WRAPPED = "PROFKIT_WRAPPED"
# A rank that hangs says where, just before it is killed.
_LAST_WORDS_S = 1.0


def main() -> None:
    """Run this rank of the capture that the environment describes."""
    lifetime.die_with_parent()
    spec, rank = received(os.environ), rank_of(os.environ)
    try:
        tool = spec.load_tool()
        if isinstance(tool, Wrapper) and _WRAPPED not in os.environ:
            os.environ[_WRAPPED] = "1"
            binary, *arguments = tool.command([sys.executable, *PROGRAM], spec.folder, rank)
            # Replaced, not started: signals and exit status pass between launcher and tool.
            os.execv(executable(binary) or binary, [binary, *arguments])  # noqa: S606 - no shell
        observe(spec, rank, tool)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            text = stop.code if isinstance(stop.code, str) else f"exit status {stop.code}"
            leave_error(spec.folder, rank, " ".join(text.split()), "")
        raise
    except ProfkitError as error:
        leave_error(spec.folder, rank, " ".join(str(error).split()), "")
        sys.exit(str(error))
    except BaseException as error:
        summary = "".join(traceback.format_exception_only(error))
        leave_error(spec.folder, rank, summary, traceback.format_exc())
        raise


def observe(spec: Spec, rank: Rank, tool: Tool) -> None:
    """Run the workload with the step clock, and with `tool` if it records from inside."""
    faulthandler.dump_traceback_later(max(spec.deadline_s - time.time() - _LAST_WORDS_S, 0.1))
    progress = {"run": spec.run, "tool": spec.tool, "repeat": spec.repeat, "total": spec.steps}
    with (
        _recording(spec, rank, tool) as recorder,
        StepClock(spec.folder, rank, recorder, progress) as clock,
    ):
        marks.listen(clock, markers=_markers() if tool.markers else ())
        # A process that the workload forks, such as a DataLoader's worker, is no rank.
        os.register_at_fork(after_in_child=marks.listen)
        run_workload(spec)
    faulthandler.cancel_dump_traceback_later()
    # Spares the interpreter a last walk over torch's objects: half a second of each capture.
    gc.freeze()


def _recording(spec: Spec, rank: Rank, tool: Tool) -> AbstractContextManager[Recorder]:
    if isinstance(tool, Session):
        return tool.record(spec.folder, rank)
    return nullcontext(Bystander())


def _markers() -> tuple[marks.Marker, ...]:
    # Late: it imports torch, which the outer process of a wrapper has no use for.
    from profkit.capture.harness.markers import markers

    return markers()


def run_workload(spec: Spec) -> None:
    """Run the workload's module as ``python -m`` would, with its configuration as argument."""
    name = str(spec.workload["workload"]["name"])
    module = known("workload", name, registry.module_names("profkit.workloads"))
    sys.argv = [module, "--config", spec.workload_text]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
