"""Containers: the same command line, run inside an image by docker or apptainer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from profkit.core.settings import Settings

# Where the profkit from outside is found inside: alone, so that no package of the host's comes in.
_MOUNTED = "/opt/profkit"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What the command must find inside as it is outside."""

    name: str
    """Name of the container, by which it is ended."""

    cwd: str
    """Folder to start in."""

    folders: tuple[str, ...]
    """Folders that are mounted under their own paths: results and scripts."""

    package: str
    """Folder of the profkit that runs outside."""

    variables: tuple[str, ...]
    """Names of environment variables to hand in; values stay out of command lines."""

    user: str
    """User and group ids that files are written with."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Container(Settings):
    """How to run a command in an image; part of every launcher."""

    engine: Literal["none", "docker", "apptainer"] = "none"
    """Who runs the image; none starts the ranks right on the host."""

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

    def wrapped(self, command: Sequence[str], place: Place) -> list[str]:
        """Return the command line that runs `command` in the image."""
        if self.engine == "docker":
            return self._docker(command, place)
        if self.engine == "apptainer":
            return self._apptainer(command, place)
        return list(command)

    def stop(self, place: Place) -> list[str]:
        """Return the command that ends what still runs inside, or nothing if none is needed.

        Killing docker's client leaves the container alone; apptainer's processes are children.
        """
        return ["docker", "kill", place.name] if self.engine == "docker" else []

    def _docker(self, command: Sequence[str], place: Place) -> list[str]:
        # --init: a first process that reaps children and passes signals on.
        flags = ["--rm", "--init", f"--name={place.name}", f"--workdir={place.cwd}"]
        flags += [f"--user={place.user}", f"--shm-size={self.shm_size}"]
        if self.gpus:
            # The inner quotes are docker's own way to tell a list of GPUs from a list of options.
            flags += ["--gpus", self.gpus if self.gpus == "all" else f'"device={self.gpus}"']
        flags += ["--network=host"] if self.host_network else []
        flags += [f"--cap-add={name}" for name in self.capabilities]
        flags += [f"--volume={each}" for each in self._volumes(place)]
        flags += [f"--env={name}" for name in place.variables]
        # The user's number has no name inside, which PyTorch's caches ask for.
        flags += ["--env=USER=profkit", "--env=HOME=/tmp"]
        flags += [f"--env=PYTHONPATH={_MOUNTED}"] if self.profkit == "mount" else []
        return ["docker", "run", *flags, *self.extra, self.image, *command]

    def _apptainer(self, command: Sequence[str], place: Place) -> list[str]:
        flags = [f"--pwd={place.cwd}"]
        if self.gpus:
            flags += ["--nv"]
        if self.gpus not in ("", "all"):
            flags += ["--env", f"CUDA_VISIBLE_DEVICES={self.gpus}"]
        flags += [] if self.host_network else ["--net"]
        flags += [f"--bind={each}" for each in self._volumes(place)]
        flags += ["--env", f"PYTHONPATH={_MOUNTED}"] if self.profkit == "mount" else []
        return ["apptainer", "exec", *flags, *self.extra, self.image, *command]

    def _volumes(self, place: Place) -> list[str]:
        own = [f"{folder}:{folder}" for folder in place.folders]
        if self.profkit == "mount":
            own += [f"{place.package}:{_MOUNTED}/profkit:ro"]
        return [*own, *self.mounts]
