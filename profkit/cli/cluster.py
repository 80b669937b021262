"""The options of Snakemake that start jobs on a cluster: ``--on NAME`` names a profile."""

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from profkit.capture.base import Problem
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
    for problem in problems(profile):
        if problem.stops:
            raise ConfigError(f"--on {name}: {problem.what}", hint=problem.advice)
    found = ["--profile", str(profile), "--local-cores", str(cores)]
    if _executor(profile) != slurm.EXECUTOR:
        return found
    return [*found, "--slurm-status-command", slurm.status_command()]


def problems(profile: Path) -> Iterator[Problem]:
    """Yield what keeps jobs from starting on the cluster of `profile`."""
    executor = _executor(profile)
    package = f"snakemake-executor-plugin-{executor}"
    if executor and not importlib.util.find_spec(package.replace("-", "_")):
        what = f"Snakemake's plugin for {executor} is not installed"
        yield Problem(kind="missing", what=what, advice=f"pip install {package}")
    if executor == slurm.EXECUTOR:
        yield from slurm.problems()


def _executor(profile: Path) -> str:
    """Return the name of the plugin that starts the jobs of `profile`, "" for none."""
    path = profile / resources.PROFILE_FILE
    try:
        settings = read_yaml(path)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return str(settings.get("executor", "")) if isinstance(settings, dict) else ""
