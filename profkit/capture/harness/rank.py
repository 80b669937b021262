"""The program of each rank: the workload, with the tool around it or inside it."""

import faulthandler
import functools
import gc
import io
import json
import os
import runpy
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

from profkit import marks
from profkit.capture.base import Rank, Tool, Wrapper
from profkit.capture.harness import tool_supervisor
from profkit.capture.harness.ranks import rank_files, software
from profkit.capture.harness.ranks.clock import StepClock
from profkit.capture.harness.ranks.collective_timeouts import extend_timeouts
from profkit.capture.harness.ranks.coordinates import CoordinatesListener
from profkit.capture.harness.ranks.opened_files import OpenedFiles
from profkit.capture.harness.ranks.recording import recording, step_markers
from profkit.capture.harness.ranks.sources import SourcesListener
from profkit.capture.harness.record import last_words, rank_warnings
from profkit.capture.harness.record.rank_errors import has_failed, write_error
from profkit.capture.harness.spec import Spec, from_environment, rank_of
from profkit.core import registry
from profkit.core.errors import ProfkitError
from profkit.process import process_tree
from profkit.workloads.base import EXTRA_ARGUMENTS

PROGRAM = ("-m", "profkit.capture.harness.rank")
"""Arguments of Python that the launcher starts on each rank."""

_WRAPPED = "PROFKIT_WRAPPED"
# A rank that hangs prints its stacks this long before it is killed.
_STACKS_BEFORE_KILL_S = 1.0
_PERIOD_S = 0.1


def main() -> None:
    """Run this rank of the capture in the environment."""
    process_tree.die_with_parent()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # As on a terminal, so that the log has the last words of a process that was killed.
        sys.stdout.reconfigure(line_buffering=True)
    spec = from_environment(os.environ)
    rank = rank_of(os.environ, spec.parallel)
    last_words.hand_over(spec.folder, spec.token, rank)
    if note := tool_supervisor.report_program_started():
        rank_warnings.add(spec.folder, rank, note)
    # Kept for the workload, also through a wrapper: deepspeed adds --local_rank.
    os.environ.setdefault(EXTRA_ARGUMENTS, json.dumps(sys.argv[1:]))
    try:
        tool = spec.load_tool().with_results(spec.results())
        is_wrapped = isinstance(tool, Wrapper) and not tool.wraps_launcher
        is_wrapped = is_wrapped and spec.records_rank(rank, tool)
        if isinstance(tool, Wrapper) and is_wrapped and _WRAPPED not in os.environ:
            os.environ[_WRAPPED] = "1"
            program = [sys.executable, *PROGRAM]
            command = tool.found_command(program, spec.raw_folder, rank)
            command = tool_supervisor.supervised_command(tool, command, program)
            # Replaced, not started: signals and exit status pass between launcher and tool.
            os.execv(command[0], command)  # noqa: S606 - no shell
        observe(spec, rank, tool)
    except SystemExit as stop:
        if stop.code not in (None, 0):
            text = stop.code if isinstance(stop.code, str) else f"exit status {stop.code}"
            write_error(spec.folder, rank, text, "")
        raise
    except ProfkitError as error:
        write_error(spec.folder, rank, str(error), "")
        sys.exit(str(error))
    except BaseException as error:
        summary = "".join(traceback.format_exception_only(error))
        write_error(spec.folder, rank, summary, traceback.format_exc())
        raise


def observe(spec: Spec, rank: Rank, tool: Tool) -> None:
    """Run the workload with the step clock, and with `tool` if it records from inside."""
    left_s = spec.deadline_s - time.time() - _STACKS_BEFORE_KILL_S
    faulthandler.dump_traceback_later(max(left_s, 0.1))
    progress = {"run": spec.run, "tool": spec.tool, "repeat": spec.repeat, "total": spec.steps}
    is_profiled = spec.records_rank(rank, tool)
    has_markers = tool.opens_step_ranges and is_profiled
    coordinates = CoordinatesListener(rank, spec.parallel, lambda: extend_timeouts(spec, tool))
    sources = SourcesListener(spec, rank, OpenedFiles())
    software.write(spec.folder, rank)
    with ExitStack() as parts:
        recorder = parts.enter_context(
            recording(spec.raw_folder, rank, tool, is_profiled=is_profiled)
        )
        clock = parts.enter_context(StepClock(spec.folder, rank, recorder, progress, spec.node))
        marks.listen(sources, coordinates, clock, markers=step_markers() if has_markers else ())
        # A process that the workload forks, such as a DataLoader's worker, is not a rank.
        os.register_at_fork(after_in_child=marks.listen)

        def finish() -> None:
            sources.write()
            located = coordinates.located()
            parts.close()
            if located.doubt:
                rank_warnings.add(spec.folder, rank, located.doubt)
            rank_files.write_coordinates(spec.folder, rank, located)
            if not is_profiled:
                _wait_for_profiled(spec, tool)

        with _finished_before_exit(spec, rank, finish):
            run_workload(spec)
        finish()
    faulthandler.cancel_dump_traceback_later()
    # Saves a last walk of the interpreter over torch's objects: half a second of each capture.
    gc.freeze()


@contextmanager
def _finished_before_exit(spec: Spec, rank: Rank, finish: Callable[[], None]) -> Iterator[None]:
    """Let ``os._exit`` in this process, and none that it forks, call `finish` before it ends."""
    process, exit_now = os.getpid(), os._exit

    @functools.wraps(exit_now)
    def finish_and_exit(status: int) -> NoReturn:
        if os.getpid() == process:
            finish()
            if status:
                write_error(spec.folder, rank, f"exit status {status}", "")
        exit_now(status)

    os._exit = finish_and_exit
    try:
        yield
    finally:
        os._exit = exit_now


def _wait_for_profiled(spec: Spec, tool: Tool) -> None:
    """Wait for the ranks that are recorded, which write their files after the last step.

    The ranks hold connections to one another, and one of them has the store of all addresses: a
    rank that ends earlier breaks these for the others.
    """
    awaited = [rank for rank in spec.ranks() if spec.records_rank(rank, tool)]
    while not all(rank_files.has_finished(spec.folder, rank) for rank in awaited):
        if has_failed(spec.folder):
            return
        time.sleep(_PERIOD_S)


def run_workload(spec: Spec) -> None:
    """Run the workload's module as ``python -m`` would, with its configuration as argument."""
    name = str(spec.workload["workload"]["name"])
    module = registry.module_name("workload", "profkit.workloads", name)
    sys.argv = [module, "--config", spec.workload_text]
    # Its settings were read from it; runpy would warn of a module that is there already.
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
