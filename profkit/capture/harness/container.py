"""Run the ranks of a capture in a container, and stop it at the end of the capture."""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import profkit
from profkit.capture.harness.spec import VARIABLE, Spec
from profkit.capture.launchers._container import ContainerSetup
from profkit.capture.launchers.base import Node, RankLauncher
from profkit.core import progress_events
from profkit.core.errors import ConfigError
from profkit.process import bounded_command, caller_environment

_STOP_S = 30
# Variables that ranks read; docker passes none by itself. Its flags name variables without their
# values, which lists of processes would show.
_PASSED_VARIABLES = re.compile(
    r"CUDA_VISIBLE_DEVICES|(NCCL|GLOO|UCX|FI|TORCH|PYTORCH|OMP|MKL|DS|HF)_\w+"
    r"|PROFKIT_(DP|TP|PP|EP)_RANK"
)


def setup(launcher: RankLauncher, spec: Spec, node: Node) -> ContainerSetup:
    """Return folders, variables and user that the ranks need inside."""
    cwd = str(launcher.working_folder)
    # The folder of progress events is not the folder of the capture.
    watched = os.environ.get(progress_events.VARIABLE)
    mounted = [str(Path(watched).parent)] if watched else []
    names = [
        VARIABLE,
        *([progress_events.VARIABLE] if watched else []),
        *launcher.environment_variables,
    ]
    names += sorted(filter(_PASSED_VARIABLES.fullmatch, caller_environment.restored()))
    return ContainerSetup(
        name=f"profkit-{spec.token}-{node.rank}",
        cwd=cwd,
        folders=tuple(dict.fromkeys([spec.out, cwd, *mounted, str(spec.raw_folder)])),
        package=str(Path(profkit.__file__).parent.resolve()),
        variables=tuple(dict.fromkeys(names)),
        user=f"{os.getuid()}:{os.getgid()}",
    )


def command_inside(
    command: Sequence[str], launcher: RankLauncher, spec: Spec, node: Node
) -> list[str]:
    """Return the command line that runs `command` in the launcher's container, if it has one."""
    return launcher.container.command_inside(command, setup(launcher, spec, node))


@contextmanager
def stopped_on_exit(launcher: RankLauncher, spec: Spec, node: Node) -> Iterator[None]:
    """Stop the container on exit; raises `ConfigError` if its engine is not installed."""
    engine = launcher.container.engine
    if engine == "none":
        yield
        return
    if shutil.which(engine) is None:
        raise ConfigError(
            f"launcher.container.engine: {engine} is not installed",
            hint="install it, or set launcher.container.engine=none",
        )
    try:
        yield
    finally:
        if stop := launcher.container.stop_command(setup(launcher, spec, node)):
            # After a good capture the container is gone, and the failure of this is expected.
            bounded_command.ask(stop, timeout_s=_STOP_S)
