"""Jobs of Kubernetes: what they ask for, by its schema, and whole runs with a stand-in."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from profkit.cli import cluster, kubernetes_job
from profkit.core import resources
from profkit.core.errors import ConfigError, InputError
from tests.waiting import LIMIT_S, until

PROFILE = resources.PROFILES / "kubernetes"
TEMPLATE = yaml.safe_load((PROFILE / "job.yaml").read_text())
DATA = Path(__file__).parents[1] / "data/kubernetes"
SCHEMA = json.loads((DATA / "job.schema.json").read_text())
SMALL = ("tool=[]", "analysis=[steps]", "repeats=1", "steps=4", "warmup_steps=1", "world_size=2")
HOSTS = ("launcher.nnodes=2", "launcher.across=kubernetes")
QUOTED = "+launcher.env.QUOTED='a \"b c\" d'"
CAPTURE = {
    "threads": 1,
    "resources": {
        "nodes": 2,
        "tasks": 2,
        "mpi": "srun",
        "cpus_per_task": 4,
        "gres": "gpu:4",
        "mem_mb": 0,
        "runtime": 20,
        "slurm_extra": "--exclusive",
    },
}
CONVERSION = {"threads": 2, "resources": {"mem_mb": 2000, "runtime": 60}}


@pytest.fixture
def volume(tmp_path, monkeypatch):
    """Return a folder that the template mounts, with the profile and a stand-in for kubectl."""
    shutil.copytree(PROFILE, tmp_path / "profiles/kubernetes")
    job = tmp_path / "profiles/kubernetes/job.yaml"
    job.write_text(job.read_text().replace("/profkit", str(tmp_path)))
    (tmp_path / "bin").mkdir()
    shutil.copy(DATA / "kubectl", tmp_path / "bin")
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def filled(job, template=TEMPLATE):
    made = kubernetes_job.filled(template, Path("/profkit/job.sh"), job)
    jsonschema.validate(made, SCHEMA)
    return made, made["spec"]["template"]["spec"], made["spec"]["template"]["spec"]["containers"][0]


@pytest.fixture
def mounted(monkeypatch):
    """Stand in a folder of the shared volume."""
    monkeypatch.setattr(kubernetes_job.Path, "cwd", lambda: Path("/profkit/mine"))


@pytest.mark.parametrize(
    ("template", "said"),
    [("spec: {a: [1,\n", "line 2"), ("a: 1", "no spec.template.spec.containers with an image")],
)
def test_what_is_wrong_with_a_template_is_said(template, said, tmp_path):
    (tmp_path / "job.yaml").write_text(template)
    with pytest.raises(ConfigError, match=said):
        kubernetes_job._template(tmp_path / "job.yaml")


def test_a_script_that_is_not_there_is_said():
    with pytest.raises(InputError, match=r"nosuch\.sh: cannot be read"):
        kubernetes_job.properties(Path("nosuch.sh"))


@pytest.mark.usefixtures("mounted")
def test_a_capture_over_two_hosts_is_an_indexed_job_with_a_pod_on_each():
    job, pod, container = filled(CAPTURE)
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert (spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (1200, 0)
    assert container["resources"] == {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "4"}}
    [apart] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert container["workingDir"] == "/profkit/mine"
    assert container["command"][1:] == [
        *("-m", "profkit.capture.harness.hosts.pod_hosts", "/profkit/job.sh")
    ]
    [address] = container["env"]
    assert address["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


@pytest.mark.usefixtures("mounted")
def test_a_conversion_is_one_pod_beside_others():
    job, pod, container = filled(CONVERSION)
    assert not {"completions", "completionMode"} & set(job["spec"])
    assert "affinity" not in pod
    assert container["command"] == ["sh", "/profkit/job.sh"]
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "2000Mi"}}


@pytest.mark.usefixtures("mounted")
def test_the_template_says_of_which_kind_gpus_are():
    template = yaml.safe_load((PROFILE / "job.yaml").read_text())
    [container] = template["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"amd.com/gpu": 1, "memory": "9Gi"}}
    assert filled(CAPTURE, template)[2]["resources"]["limits"] == {
        "amd.com/gpu": "4",
        "memory": "9Gi",
    }
    assert filled(CONVERSION, template)[2]["resources"]["limits"] == {"memory": "9Gi"}


def test_a_misspelt_field_does_not_pass_the_schema():
    wrong = TEMPLATE | {"spec": TEMPLATE["spec"] | {"completion": 2}}
    with pytest.raises(jsonschema.ValidationError, match="'completion' was unexpected"):
        jsonschema.validate(wrong, SCHEMA)


def test_a_folder_that_pods_do_not_see_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="no volume of the template is mounted at or above"):
        kubernetes_job.filled(TEMPLATE, Path("job.sh"), CAPTURE)


def test_a_template_that_is_no_job_is_refused_by_name(tmp_path):
    path = tmp_path / "job.yaml"
    for text in ("", "kind: Job", "spec: {template: {spec: {containers: []}}}", "spec: [1", "- 1"):
        path.write_text(text)
        with pytest.raises(ConfigError, match="not a Job with a container"):
            kubernetes_job._template(path)


def test_without_a_copy_of_the_profile_nothing_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="profiles/kubernetes is not in this folder") as raised:
        cluster.options("kubernetes", 2)
    assert f"cp -r {PROFILE} profiles/" in str(raised.value)


def profkit(folder, *words):
    with (folder / "printed").open("w") as printed:
        return subprocess.Popen(
            [sys.executable, "-m", "profkit", *words], stdout=printed, stderr=subprocess.STDOUT
        )


QUICK = ("--", "--seconds-between-status-checks", "1", "--latency-wait", "5")


@pytest.mark.slow
def test_ranks_run_in_both_pods_and_conversions_in_one(volume):
    status = profkit(volume, "run", "--on", "kubernetes", *SMALL, *HOSTS, QUOTED, *QUICK).wait(
        LIMIT_S
    )
    assert status == 0, (volume / "printed").read_text()
    records = sorted((volume / "bin/jobs").glob("*.json"))
    jobs = [json.loads(path.read_text())["job"] for path in records]
    for job in jobs:
        jsonschema.validate(job, SCHEMA)
    assert [job["spec"].get("completions", 1) for job in jobs] == [2, 1]
    [capture] = volume.glob("results/runs/*/capture/baseline/rep0/capture.json")
    record = json.loads(capture.read_text())
    assert record["status"] == "ok"
    assert [place["node"] for place in record["places"]] == [0, 1]
    [manifest] = volume.glob("results/runs/*/manifest.json")
    assert json.loads(manifest.read_text())["behaviour"]["launcher"]["env"] == {
        "QUOTED": 'a "b c" d'
    }
    assert (volume / "results/report.html").is_file()


@pytest.mark.slow
def test_interrupted_it_removes_its_jobs_also_while_it_asks_for_their_state(volume):
    status = volume / "profiles/kubernetes/status"
    first, rest = status.read_text().split("\n", 1)
    status.write_text(f"{first}\ntouch asked\nsleep 3\n{rest}")
    endless = ("steps=100000", *SMALL[:3], "world_size=2")
    running = profkit(volume, "run", "--on", "kubernetes", *endless, *HOSTS, *QUICK)
    try:
        until(lambda: [*volume.glob("results/runs/*/capture/baseline/rep0/capture.node1.log")])
        (volume / "asked").unlink(missing_ok=True)
        until((volume / "asked").exists)
        running.send_signal(signal.SIGINT)
        assert running.wait(LIMIT_S) != 0
    finally:
        running.kill()
    until(lambda: [*(volume / "bin/jobs").glob("*.deleted")], (volume / "printed").read_text)
