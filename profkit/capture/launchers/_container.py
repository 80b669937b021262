"""Containers: the same command line, run inside an image by docker or apptainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from profkit.core.settings import Settings

# Folder inside the image for the profkit of the host: alone, so that no other package comes in.
_MOUNTED = "/opt/profkit"


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerSetup:
    """What a container shares with its host for one command."""

    name: str
    """Name of the container, to stop it by."""

    cwd: str
    """Folder to start in."""

    folders: tuple[str, ...]
    """Folders that are mounted under their own paths: results and scripts."""

    package: str
    """Folder of the profkit that runs outside."""

    variables: tuple[str, ...]
    """Names of environment variables to pass on; values stay out of command lines."""

    user: str
    """User and group ids that files are written with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Container(Settings):
    """How to run a command in an image; part of every launcher."""

    engine: Literal["none", "docker", "apptainer"] = "none"
    """Program that runs the image; none starts the ranks directly on the host."""

    image: str = ""
    """Image to run: a name for docker, a file or ``docker://name`` for apptainer."""

    python: str = "python"
    """Python inside the image."""

    profkit: Literal["mount", "image"] = "mount"
    """Mount the profkit that runs outside, or use the one that the image has; what profkit
    imports on a rank (pydantic, psutil) has to be in the image either way."""

    gpus: str = "all"
    """GPUs to show inside: all, numbers with commas, or empty for none."""

    shm_size: str = "8g"
    """Size of /dev/shm for docker, whose own 64 MB are too few for DataLoader workers and NCCL;
    apptainer shows the host's."""

    host_network: bool = True
    """Use the host's network, which several hosts need to meet."""

    mounts: tuple[str, ...] = ()
    """Further folders, as ``outside:inside`` or ``outside:inside:ro``; data sets for one."""

    capabilities: tuple[str, ...] = ("SYS_PTRACE",)
    """Linux capabilities to add under docker; py-spy needs SYS_PTRACE, ncu SYS_ADMIN."""

    extra: tuple[str, ...] = ()
    """Flags of the engine passed through unread."""

    def check(self) -> str:
        """Return why these settings do not fit, or ""."""
        if self.engine != "none" and not self.image:
            return f"container.engine={self.engine} needs container.image"
        return ""

    def command_inside(self, command: Sequence[str], setup: ContainerSetup) -> list[str]:
        """Return the command line that runs `command` in the image."""
        if self.engine == "docker":
            return self._docker(command, setup)
        if self.engine == "apptainer":
            return self._apptainer(command, setup)
        return list(command)

    def stop_command(self, setup: ContainerSetup) -> list[str]:
        """Return the command that stops the container, or [] if none is needed.

        Killing docker's client leaves the container alone; apptainer's processes are children.
        """
        return ["docker", "kill", setup.name] if self.engine == "docker" else []

    def _docker(self, command: Sequence[str], setup: ContainerSetup) -> list[str]:
        # --init: a first process that reaps children and passes signals on.
        flags = ["--rm", "--init", f"--name={setup.name}", f"--workdir={setup.cwd}"]
        flags += [f"--user={setup.user}", f"--shm-size={self.shm_size}"]
        if self.gpus:
            # The inner quotes are docker's own way to tell a list of GPUs from a list of options.
            flags += ["--gpus", self.gpus if self.gpus == "all" else f'"device={self.gpus}"']
        flags += ["--network=host"] if self.host_network else []
        flags += [f"--cap-add={name}" for name in self.capabilities]
        flags += [f"--volume={volume}" for volume in self._volumes(setup)]
        flags += [f"--env={name}" for name in setup.variables]
        # The user's id has no name inside, and PyTorch's caches need one.
        flags += ["--env=USER=profkit", "--env=HOME=/tmp"]
        flags += [f"--env=PYTHONPATH={_MOUNTED}"] if self.profkit == "mount" else []
        return ["docker", "run", *flags, *self.extra, self.image, *command]

    def _apptainer(self, command: Sequence[str], setup: ContainerSetup) -> list[str]:
        flags = [f"--pwd={setup.cwd}"]
        if self.gpus:
            flags += ["--nv"]
        if self.gpus not in ("", "all"):
            flags += ["--env", f"CUDA_VISIBLE_DEVICES={self.gpus}"]
        flags += [] if self.host_network else ["--net"]
        flags += [f"--bind={volume}" for volume in self._volumes(setup)]
        flags += ["--env", f"PYTHONPATH={_MOUNTED}"] if self.profkit == "mount" else []
        return ["apptainer", "exec", *flags, *self.extra, self.image, *command]

    def _volumes(self, setup: ContainerSetup) -> list[str]:
        own = [f"{folder}:{folder}" for folder in setup.folders]
        if self.profkit == "mount":
            own += [f"{setup.package}:{_MOUNTED}/profkit:ro"]
        return [*own, *self.mounts]
