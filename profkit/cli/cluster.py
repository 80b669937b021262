"""The options of Snakemake that start jobs on a cluster: ``--on NAME`` names a profile."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.core.settings import known
from profkit.core.yaml_files import read_yaml
from profkit.dag import slurm


def options(name: str, cores: int) -> Sequence[str]:
    """Return the options for the cluster of profile `name`, with `cores` for jobs that stay here.

    Raises `ConfigError` if there is no such profile, or its cluster cannot be used.
    """
    profile = known("profile", name, resources.cluster_profiles())
    found = ["--profile", str(profile), "--local-cores", str(cores)]
    if not uses_slurm(profile):
        return found
    for problem in slurm.problems():
        if problem.stops:
            raise ConfigError(f"--on {name}: {problem.what}", hint=problem.advice)
    return [*found, "--slurm-status-command", slurm.status_command()]


def uses_slurm(profile: Path) -> bool:
    """Say whether `profile` starts jobs of Slurm."""
    path = profile / resources.PROFILE_FILE
    try:
        settings = read_yaml(path)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return isinstance(settings, dict) and settings.get("executor") == slurm.EXECUTOR
