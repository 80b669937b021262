"""The command lines of containers, and what a container must be handed."""

import json
import sys

import pytest

from profkit.capture.launchers._container import Container, ContainerSetup

SETUP = ContainerSetup(
    name="profkit-t-0",
    cwd="/work",
    folders=("/results/rep0", "/work"),
    package="/site/profkit",
    variables=("PROFKIT_CAPTURE", "HF_TOKEN"),
    user="1000:100",
)
COMMAND = ["python", "-m", "torch.distributed.run"]

# Notes how it was called, and runs what follows the image as docker and apptainer would.
ENGINE = """#!{python}
import json, os, subprocess, sys
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(sys.argv) + "\\n")
if sys.argv[1] in ("run", "exec"):
    command = sys.argv[sys.argv.index("image:1") + 1:]
    sys.exit(subprocess.run([sys.executable, *command[1:]]).returncode)
"""


def test_without_an_engine_the_command_stays_as_it_is():
    assert Container().command_inside(COMMAND, SETUP) == COMMAND
    assert Container().stop_command(SETUP) == []


def test_docker_gets_gpus_shared_memory_network_and_mounts():
    container = Container(
        engine="docker",
        image="pytorch:2.13",
        shm_size="16g",
        mounts=("/data:/data:ro",),
        capabilities=("SYS_PTRACE", "SYS_ADMIN"),
        extra=("--ulimit=memlock=-1",),
    )
    assert container.command_inside(COMMAND, SETUP) == [
        "docker",
        "run",
        "--rm",
        "--init",
        "--name=profkit-t-0",
        "--workdir=/work",
        "--user=1000:100",
        "--shm-size=16g",
        "--gpus",
        "all",
        "--network=host",
        "--cap-add=SYS_PTRACE",
        "--cap-add=SYS_ADMIN",
        "--volume=/results/rep0:/results/rep0",
        "--volume=/work:/work",
        "--volume=/site/profkit:/opt/profkit/profkit:ro",
        "--volume=/data:/data:ro",
        "--env=PROFKIT_CAPTURE",
        "--env=HF_TOKEN",
        "--env=USER=profkit",
        "--env=HOME=/tmp",
        "--env=PYTHONPATH=/opt/profkit",
        "--ulimit=memlock=-1",
        "pytorch:2.13",
        *COMMAND,
    ]
    assert container.stop_command(SETUP) == ["docker", "kill", "profkit-t-0"]


def test_docker_can_have_some_gpus_or_none_and_a_network_of_its_own():
    some = Container(engine="docker", image="i", gpus="0,2").command_inside(COMMAND, SETUP)
    assert some[some.index("--gpus") + 1] == '"device=0,2"'
    none = Container(engine="docker", image="i", gpus="", host_network=False, profkit="image")
    command = none.command_inside(COMMAND, SETUP)
    assert [word for word in command if "gpus" in word or "network" in word] == []
    assert [word for word in command if "/opt/profkit" in word] == []


def test_apptainer_has_the_environment_and_the_processes_of_the_host():
    container = Container(
        engine="apptainer", image="profkit.sif", gpus="1", mounts=("/data:/data:ro",)
    )
    assert container.command_inside(COMMAND, SETUP) == [
        "apptainer",
        "exec",
        "--pwd=/work",
        "--nv",
        "--env",
        "CUDA_VISIBLE_DEVICES=1",
        "--bind=/results/rep0:/results/rep0",
        "--bind=/work:/work",
        "--bind=/site/profkit:/opt/profkit/profkit:ro",
        "--bind=/data:/data:ro",
        "--env",
        "PYTHONPATH=/opt/profkit",
        "profkit.sif",
        *COMMAND,
    ]
    assert container.stop_command(SETUP) == []


def test_an_engine_needs_an_image():
    expected = "container.engine=docker needs container.image"
    assert Container(engine="docker").check() == expected


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """Put an engine on PATH that notes its calls; return a function that reads them."""
    calls = tmp_path / "calls.jsonl"

    def installed(name):
        path = tmp_path / "bin" / name
        path.parent.mkdir()
        path.write_text(ENGINE.format(python=sys.executable, calls=str(calls)))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(path.parent), prepend=":")
        return lambda: [json.loads(line) for line in calls.read_text().splitlines()]

    return installed


@pytest.mark.parametrize("name", ["docker", "apptainer"])
def test_a_capture_runs_its_launcher_in_the_container(capture, misbehaving, engine, tmp_path, name):
    called = engine(name)
    launcher = {
        "name": "python",
        "env": {"HF_HUB_OFFLINE": "1"},
        "container": {"engine": name, "image": "image:1", "gpus": ""},
    }
    made = capture("baseline", tmp_path, {}, **misbehaving("nothing") | {"launcher": launcher})
    assert made.record["status"] == "ok", made.record
    first, *others = called()
    assert made.record["command"] == [name, *first[1:]]
    assert first[-3:] == ["python", "-m", "profkit.capture.harness.rank"]
    mount = {"docker": "--volume", "apptainer": "--bind"}[name]
    assert f"{mount}={made.folder}:{made.folder}" in first
    if name == "docker":
        for variable in ("PROFKIT_CAPTURE", "HF_HUB_OFFLINE"):
            assert f"--env={variable}" in first
        container = next(word for word in first if word.startswith("--name=profkit-"))
        assert others == [[first[0], "kill", container.removeprefix("--name=")]]


def test_an_engine_that_is_not_installed_is_told_before_anything_runs(
    capture, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    launcher = {"name": "torchrun", "container": {"engine": "docker", "image": "image:1"}}
    made = capture("baseline", tmp_path, {}, launcher=launcher)
    assert made.result.returncode == 1
    assert "launcher.container.engine: docker is not installed" in made.result.stderr
    assert "Traceback" not in made.result.stderr
    assert not list(made.folder.iterdir())
