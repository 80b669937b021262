"""profkit as people have it: installed from its wheel, in a folder of their own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from pyarrow import parquet

ROOT = Path(__file__).parent.parent
OVERRIDES = "world_size=1 launcher=python model.layers=1 steps=4 warmup_steps=1 repeats=1"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Build the wheel, with the build backend that is installed here: nothing is downloaded."""
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def built(source, folder):
    code = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=source, check=True)
    (path,) = folder.glob("profkit-*.whl")
    return path


def test_the_image_is_built_of_all_that_the_wheel_needs(wheel, tmp_path):
    lines = (ROOT / "envs/Dockerfile").read_text().splitlines()
    copied = [line.split()[1:] for line in lines if line.startswith("COPY ")]
    for *sources, target in copied:
        # Docker copies what is in a folder, and files into one that ends in a slash.
        place = tmp_path / target.lstrip("/")
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, place)
    rebuilt = built(tmp_path / "opt/source", tmp_path)
    assert set(zipfile.ZipFile(rebuilt).namelist()) == set(zipfile.ZipFile(wheel).namelist())
    ignored = (ROOT / "envs/Dockerfile.dockerignore").read_text().splitlines()
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    for source in (source for *sources, _ in copied for source in sources):
        assert any(Path(source).match(pattern) for pattern in kept), source


def files(folder):
    """Return what git would keep of `folder`, without what running it leaves."""
    return {
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_the_package_its_assets_the_configuration_and_the_workflow(wheel):
    names = {Path(name) for name in zipfile.ZipFile(wheel).namelist()}
    shipped = Path("profkit/_shipped")
    expected = {Path("profkit") / name for name in files(ROOT / "profkit")}
    expected.add(shipped / "Snakefile")
    for folder in ("conf", "workflow", "profiles"):
        expected |= {shipped / folder / name for name in files(ROOT / folder)}
    # The rules name these, for Snakemake's --software-deployment-method conda.
    expected |= {shipped / "envs" / path.name for path in (ROOT / "envs").glob("*.yaml")}
    assert Path("profkit/report/assets/styles/print.css") in expected
    assert {name for name in names if ".dist-info" not in name.parts[0]} == expected


def without_path():
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


class Installed:
    """An environment with the wheel in it; what profkit needs comes from that of the tests."""

    def __init__(self, folder, wheel):
        self.python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        # A path file adds folders after this one, in which the wheel's profkit comes first.
        (self.site / "tests.pth").write_text(sysconfig.get_path("purelib"))
        flags = ["--no-deps", "--no-index", "--ignore-installed", "--disable-pip-version-check"]
        command = [str(self.python), "-m", "pip", "install", "--quiet", *flags, str(wheel)]
        subprocess.run(command, check=True)

    def profkit(self, cwd, *words):
        """Run the installed command in `cwd`, with no other profkit in sight."""
        environment = without_path()
        command = [str(self.python.with_name("profkit")), *words]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("venv"), wheel)


def test_a_run_from_an_empty_folder_ends_in_a_report_there(installed, tmp_path):
    code = "import profkit; print(profkit.__file__)"
    output = subprocess.check_output(
        [installed.python, "-P", "-c", code], cwd=tmp_path, env=without_path(), text=True
    )
    assert Path(output.strip()) == installed.site / "profkit/__init__.py"
    done = installed.profkit(tmp_path, "run", *OVERRIDES.split(), "tool=[]", "analysis=[steps]")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "results/report.html").stat().st_size > 100_000
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == [
        "results"
    ]
    (manifest,) = tmp_path.glob("results/runs/*/manifest.json")
    assert '"status": "ok"' in manifest.read_text()


SCRIPT = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--zero", type=int)
args = parser.parse_args()
assert (args.batch_size, args.zero) == (3, 0), args
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters())
for _ in range(6):
    model(torch.ones(args.batch_size, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_script_in_a_folder_of_its_own_is_profiled_as_it_is(installed, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = "train.py --batch-size ${batch} --zero ${zero.stage}"
    words = [f'workload.command="{command}"', "batch=3", "world_size=1", "launcher=python"]
    few = ["repeats=1", "warmup_steps=1", "tool=[]", "analysis=[steps]"]
    done = installed.profkit(tmp_path, "run", "workload=script", *words, *few)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "results/report.html").stat().st_size > 100_000
    (steps,) = tmp_path.glob("results/runs/train-script-b3-*/tables/baseline/steps.parquet")
    assert parquet.read_metadata(steps).num_rows == 6
    assert (tmp_path / "train.py").read_text() == SCRIPT


def test_a_starting_point_is_written_found_and_never_overwritten(installed, tmp_path):
    first = installed.profkit(tmp_path, "init")
    assert first.returncode == 0, first.stderr
    study = tmp_path / "conf/experiment/first_study.yaml"
    assert str(study.relative_to(tmp_path)) in first.stdout
    planned = installed.profkit(tmp_path, "plan", "+experiment=first_study")
    assert planned.returncode == 0, planned.stderr
    assert "runs: 2, repeats of each capture: 3" in planned.stdout
    assert "first_study" in installed.profkit(tmp_path, "list", "experiments").stdout
    study.write_text("# mine\n")
    second = installed.profkit(tmp_path, "init")
    assert second.returncode == 1
    assert "conf/experiment/first_study.yaml: there already" in second.stderr
    assert study.read_text() == "# mine\n"
