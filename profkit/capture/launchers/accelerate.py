"""accelerate launch: the ranks of Hugging Face's accelerate, by its configuration or by flags."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import NonNegativeInt

from profkit.capture.launchers.base import DistributedLauncher, Node

# Device files of the drivers of NVIDIA's, AMD's and Intel's GPUs, and of GPUs in WSL.
_GPUS = tuple(map(Path, ("/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128", "/dev/dxg")))

# Flags that say how ranks work together: accelerate refuses a second one.
_CHOSEN = {
    *("--multi_gpu", "--cpu", "--tpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm"),
    "--use_parallelism_config",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher(DistributedLauncher):
    """Start the ranks with ``accelerate launch``, which sets what ``Accelerator()`` reads."""

    config_file: str = ""
    """File that ``accelerate config`` wrote (DeepSpeed, FSDP, ...); empty starts plain ranks."""

    cpu: bool | None = None
    """Whether ``Accelerator()`` takes CPUs; null does where there is no GPU, as it would else
    take each rank for one that is alone."""

    mixed_precision: Literal["", "no", "fp16", "bf16", "fp8"] = ""
    """Precision that ``Accelerator()`` takes; empty leaves it to the file, or to accelerate."""

    num_cpu_threads_per_process: NonNegativeInt = 0
    """Threads of each rank; 0 leaves it to accelerate, which takes 1."""

    main_process_ip: str = ""
    """Name of the first host; empty takes MASTER_ADDR of the environment."""

    main_process_port: NonNegativeInt = 0
    """Port where ranks meet; 0 takes MASTER_PORT, and on a single host a free one."""

    @property
    def environment_variables(self) -> dict[str, str]:
        """See `RankLauncher.environment_variables`."""
        cpu = self.cpu if self.cpu is not None else not any(path.exists() for path in _GPUS)
        return {"ACCELERATE_USE_CPU": "true", **self.env} if cpu else self.env

    def command(self, program: Sequence[str], world_size: int, node: Node) -> list[str]:
        """See `RankLauncher.command`."""
        _, module, *arguments = program
        flags = [f"--num_processes={world_size}", f"--num_machines={self.host_count}"]
        flags += self._rendezvous_flags(node)
        if self.config_file:
            flags += [f"--config_file={self.config_file}"]
        elif world_size > 1 and not _CHOSEN & {word.partition("=")[0] for word in self.extra}:
            # Without it, accelerate starts a single process where it sees no two GPUs.
            flags += ["--multi_gpu"]
        elif world_size == 1 and self.cpu:
            flags += ["--cpu"]
        if self.mixed_precision:
            flags += [f"--mixed_precision={self.mixed_precision}"]
        if self.num_cpu_threads_per_process:
            flags += [f"--num_cpu_threads_per_process={self.num_cpu_threads_per_process}"]
        launch = [self.interpreter, "-m", "accelerate.commands.launch"]
        return [*launch, *flags, *self.extra, "--module", module, *arguments]

    def _rendezvous_flags(self, node: Node) -> list[str]:
        address, port = self.rendezvous(self.main_process_ip, self.main_process_port, node)
        flags = [f"--machine_rank={node.rank}", f"--main_process_port={port}"]
        return [*flags, f"--main_process_ip={address}"] if self.host_count > 1 else flags
