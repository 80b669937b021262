"""The options of Snakemake that start jobs on a cluster: ``--on NAME`` names a profile."""

import importlib.util
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from profkit.capture.base import Problem
from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.core.settings import known
from profkit.core.yaml_files import read_yaml
from profkit.dag import slurm

_COMMANDS = tuple(f"cluster-generic-{name}-cmd" for name in ("submit", "status", "cancel"))


def options(name: str, cores: int) -> Sequence[str]:
    """Return the options for the cluster of profile `name`, with `cores` for jobs that stay here.

    Raises `ConfigError` if there is no such profile, or its cluster cannot be used.
    """
    profile = known("profile", name, resources.cluster_profiles())
    for problem in problems(profile):
        if problem.stops:
            raise ConfigError(f"--on {name}: {problem.what}", hint=problem.advice)
    found = ["--profile", str(profile), "--local-cores", str(cores)]
    if _executor(_settings(profile)) != slurm.EXECUTOR:
        return found
    return [*found, "--slurm-status-command", slurm.status_command()]


def problems(profile: Path) -> Iterator[Problem]:
    """Yield what keeps jobs from starting on the cluster of `profile`."""
    settings = _settings(profile)
    executor = _executor(settings)
    package = f"snakemake-executor-plugin-{executor}"
    if executor and not importlib.util.find_spec(package.replace("-", "_")):
        what = f"Snakemake's plugin for {executor} is not installed"
        yield Problem(kind="missing", what=what, advice=f"pip install {package}")
    if executor == slurm.EXECUTOR:
        yield from slurm.problems()
    commands = [str(settings[key]) for key in _COMMANDS if settings.get(key)]
    for program in dict.fromkeys(shlex.split(command)[0] for command in commands):
        if not shutil.which(program):
            yield _missing(program, profile)


def _missing(program: str, profile: Path) -> Problem:
    own = Path("profiles", profile.name)
    if Path(program).is_relative_to(own) and (profile / Path(program).name).is_file():
        advice = f"cp -r {profile} profiles/, and write into {own} what your cluster has"
        return Problem(kind="missing", what=f"{own} is not in this folder", advice=advice)
    # A command line may name another one.
    advice = f"start profkit where the commands of {profile / resources.PROFILE_FILE} are"
    what = f"no such program: {program}"
    return Problem(kind="missing", what=what, advice=advice, stops=False)


def _executor(settings: Mapping[str, Any]) -> str:
    """Return the name of the plugin that starts the jobs of a profile, "" for none."""
    return str(settings.get("executor", ""))


def _settings(profile: Path) -> Mapping[str, Any]:
    path = profile / resources.PROFILE_FILE
    try:
        settings = read_yaml(path)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return settings if isinstance(settings, dict) else {}
