"""``profkit kubernetes-job SCRIPT``: print the Job of Kubernetes that runs a script of Snakemake.

What all Jobs of a cluster have in common stands in a template, which this fills in. A capture over
several hosts has a pod for each; `pod_hosts` brings its command to them.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from profkit.capture.harness.hosts import pod_hosts
from profkit.core.errors import ConfigError, InputError
from profkit.core.yaml_files import read_yaml

_PROPERTIES = "# properties = "
_GPU = "nvidia.com/gpu"
_POD_ADDRESS = {"fieldRef": {"fieldPath": "status.podIP"}}
# A pod beside no other of ours: what else runs on a host is up to the cluster.
_ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"app": "profkit"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
}


def main(argv: Sequence[str]) -> None:
    """Print the Job as YAML."""
    parser = argparse.ArgumentParser(prog="profkit kubernetes-job", description=__doc__)
    parser.add_argument("script", type=Path, help="script of a job, as Snakemake writes it")
    about = "Job with the image and the volumes of the cluster"
    parser.add_argument("--template", type=Path, required=True, help=about)
    args = parser.parse_args(argv)
    job = filled(_template(args.template), args.script.absolute(), properties(args.script))
    yaml.safe_dump(job, sys.stdout, sort_keys=False)


def properties(script: Path) -> Mapping[str, Any]:
    """Return what Snakemake says of a job in its script."""
    try:
        lines = script.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{script}: cannot be read: {error}") from None
    for line in lines:
        if line.startswith(_PROPERTIES):
            found: Mapping[str, Any] = json.loads(line.removeprefix(_PROPERTIES))
            return found
    raise InputError(f"{script}: not a script of Snakemake: no line begins with {_PROPERTIES!r}")


def filled(template: Mapping[str, Any], script: Path, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return `template` with what `job`, the properties of `script`, asks for.

    Raises `ConfigError` where the pods would not see this folder.
    """
    made: dict[str, Any] = deepcopy(dict(template))
    asked = job["resources"]
    pods = asked.get("nodes", 1)
    pod = made["spec"]["template"]["spec"]
    container = pod["containers"][0]
    folder = Path.cwd()
    mounts = [Path(mount["mountPath"]) for mount in container.get("volumeMounts", ())]
    if not any(folder.is_relative_to(path) for path in mounts):
        raise ConfigError(
            f"no volume of the template is mounted at or above {folder}",
            hint="start profkit in the shared volume, at the path that it has in the pods:"
            f" {', '.join(map(str, mounts)) or 'none'}",
        )
    container["workingDir"] = str(folder)
    container["command"] = ["sh", str(script)]
    container["resources"] = _with_resources(container.get("resources", {}), job)
    made["spec"]["activeDeadlineSeconds"] = 60 * asked["runtime"]
    if asked.get("slurm_extra"):
        pod["affinity"] = _ALONE
    if pods > 1:
        made["spec"] |= {"completionMode": "Indexed", "completions": pods, "parallelism": pods}
        container["command"] = [sys.executable, "-m", pod_hosts.__name__, str(script)]
        address = {"name": pod_hosts.ADDRESS, "valueFrom": _POD_ADDRESS}
        container["env"] = [*container.get("env", ()), address]
    return made


def _with_resources(given: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources of a container, `given` those of the template."""
    asked = job["resources"]
    requests = {"cpu": str(asked.get("cpus_per_task") or job["threads"])}
    if memory := asked.get("mem_mb"):
        requests["memory"] = f"{memory}Mi"
    limits = dict(given.get("limits", {}))
    # Of which kind its GPUs are, the template says.
    gpu = next((name for name in limits if name.endswith("/gpu")), _GPU)
    limits.pop(gpu, None)
    if gres := asked.get("gres"):
        limits[gpu] = gres.removeprefix("gpu:")
    made = {**given, "requests": {**given.get("requests", {}), **requests}}
    return made | {"limits": limits} if limits else made


def _template(path: Path) -> Mapping[str, Any]:
    try:
        template = read_yaml(path)
        template["spec"]["template"]["spec"]["containers"][0]["image"]
    except (OSError, yaml.YAMLError, KeyError, IndexError, TypeError) as error:
        # Errors of YAML say themselves where they are; those of a lookup are only a key.
        is_lookup = isinstance(error, LookupError | TypeError)
        reason = "it has no spec.template.spec.containers with an image" if is_lookup else error
        raise ConfigError(
            f"{path}: not a Job with a container: {reason}",
            hint="begin with a copy of profkit's own, profiles/kubernetes/job.yaml",
        ) from None
    found: Mapping[str, Any] = template
    return found
