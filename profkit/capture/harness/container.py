"""Running the ranks of a capture in a container, and ending it with the capture."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import profkit
from profkit.capture.harness.spec import VARIABLE, Spec
from profkit.capture.launchers._container import Place
from profkit.capture.launchers.base import Node, RankLauncher
from profkit.core import progress_events
from profkit.core.errors import ConfigError

_STOP_S = 30
# What ranks read of the environment; docker hands in nothing by itself. Its flags name variables
# without their values, which would else be seen in lists of processes.
_HANDED = re.compile(
    r"PYTHONUNBUFFERED|CUDA_VISIBLE_DEVICES|(NCCL|GLOO|UCX|FI|TORCH|PYTORCH|OMP|MKL|DS|HF)_\w+"
    r"|PROFKIT_(DP|TP|PP)_RANK"
)


def place(launcher: RankLauncher, spec: Spec, node: Node) -> Place:
    """Return what the ranks must find inside."""
    cwd = str(launcher.folder)
    # The folder of the events is another one than that of the capture.
    watched = os.environ.get(progress_events.VARIABLE)
    told = [str(Path(watched).parent)] if watched else []
    names = [VARIABLE, *([progress_events.VARIABLE] if watched else []), *launcher.variables]
    names += sorted(filter(_HANDED.fullmatch, {*os.environ, "PYTHONUNBUFFERED"}))
    return Place(
        name=f"profkit-{spec.token}-{node.rank}",
        cwd=cwd,
        folders=tuple(dict.fromkeys([spec.out, cwd, *told])),
        package=str(Path(profkit.__file__).parent.resolve()),
        variables=tuple(dict.fromkeys(names)),
        user=f"{os.getuid()}:{os.getgid()}",
    )


def wrapped(command: Sequence[str], launcher: RankLauncher, spec: Spec, node: Node) -> list[str]:
    """Return `command` as it runs in the launcher's container, if it has one."""
    return launcher.container.wrapped(command, place(launcher, spec, node))


@contextmanager
def ended(launcher: RankLauncher, spec: Spec, node: Node) -> Iterator[None]:
    """End the container with the context; raises `ConfigError` if its engine is not installed."""
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
        if stop := launcher.container.stop(place(launcher, spec, node)):
            # It has ended by itself when all went well, and then there is nothing to say.
            subprocess.run(stop, capture_output=True, check=False, timeout=_STOP_S)
