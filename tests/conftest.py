"""Fixtures that several tests share."""

import atexit
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings
from playwright.sync_api import sync_playwright

from tests import warm
from tests.canary import CANARIES
from tests.warm_ranks import warm_rank_python

# A run is many processes: modules are compiled by the first of them, whatever the machine says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What is collected stays: going through it again and again takes a fifth of that time.
gc.disable()
# Times are printed as the clock on the wall has them.
os.environ["TZ"] = "UTC"
time.tzset()
# Answers are as wide as that says.
os.environ.pop("COLUMNS", None)
# Secrets of configurations are kept there.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="profkit-state-")
# Of profkit alone: what torch has compiled is to be found by the captures.
os.environ["PROFKIT_CACHE"] = f"{os.environ['XDG_STATE_HOME']}/cache"
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
# What is started in the background ignores an interrupt, and so would all that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
_OF_A_LIBRARY = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""Set by Accelerate when it looks for GPUs, and left."""

# No limit in seconds, which would fail on a busy machine alone.
_UNTIMED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("profkit", deadline=None, suppress_health_check=_UNTIMED)
settings.load_profile("profkit")
# Ranks of several threads each would wait for one another on few cores, and waiting takes time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parent.parent
SMALL = "world_size=1 launcher=python model.layers=1 steps=8 warmup_steps=1 repeats=1"
SMALL += " tools.torch_profiler.schedule=early"


NEEDS = {
    "arguments_of": "starts a capture",
    "capture": "makes a capture",
    "chromium": "draws a report in a browser",
    "default_tree": "runs the pipeline",
    "farm": "runs the pipeline",
    "followed": "trains in processes of its own",
    "hanging": "runs the pipeline",
    "nsys_profile": "records with nsys",
    "of_modes": "trains on two ranks",
    "real_data": "reads real captures",
    "recorded": "trains in a process of its own",
    "started_on_each": "makes captures",
    "tree": "runs the pipeline",
    "wheel": "installs profkit",
}
"""Fixtures whose tests are not among those of ``make test-fast``, and what such a test does.

Other tests that are slow are marked where they are.
"""


LONGEST = {
    "tests/slurm/test_slurm.py": "together",
    "tests/test_real_traces.py": "apart",
    "tests/dag/test_staleness.py": "together",
    "tests/test_plugins.py": "together",
    "tests/faults/test_kills.py": "together",
    "tests/faults/test_ranks.py": "apart",
    "tests/capture/test_nsys.py": "apart",
    "tests/test_samplers.py": "together",
    "tests/faults/test_resources.py": "apart",
    "tests/workloads/zero/test_modes.py": "together",
    "tests/faults/test_out_of_memory.py": "apart",
    "tests/capture/test_memory_layers.py": "together",
    "tests/capture/harness/followed/test_followed.py": "apart",
    "tests/capture/test_scripts.py": "apart",
    "tests/test_real_nsys.py": "apart",
    "tests/test_installed.py": "together",
    "tests/capture/harness/hosts/test_host_reports.py": "apart",
    "tests/capture/harness/test_failures.py": "apart",
    "tests/report/test_browser.py": "together",
    "tests/analyze/test_hta.py": "together",
    "tests/convert/torch_profiler/test_damage.py": "apart",
    "tests/convert/torch_profiler/test_real_traces.py": "together",
    "tests/planning/test_build.py": "together",
    "tests/planning/test_mistakes.py": "together",
    "tests/test_analyses_contract.py": "together",
    "tests/planning/test_imported_runs.py": "together",
}
"""The files that take the longest, which begin: at the end no worker is left alone with one.

The tests of a file go to one worker together, or apart if they share nothing that takes long.
"""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Hand out files, but of some single tests."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return nodeid if LONGEST.get(file) == "apart" else file

    return Scheduling(config, log)


def pytest_collection_modifyitems(items):
    """Mark what is slow, and begin with the files that have it, the longest first."""
    for item in items:
        if any(name in NEEDS for name in item.fixturenames):
            item.add_marker("slow")
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    turns = {ROOT / file: turn for turn, file in enumerate(LONGEST)}
    items.sort(key=lambda item: (turns.get(item.path, len(turns)), item.path not in slow_files))


def pytest_collection_finish():
    """Spare what is there now the garbage collector, and the tools that go through all objects."""
    gc.collect()
    gc.freeze()
    gc.enable()
    # Seldom: most of what tests make is gone without it, and it is a twelfth of a plan's time.
    gc.set_threshold(50_000)


@pytest.fixture(scope="module", autouse=True)
def _spared():
    """Spare them too what the tests before have loaded and keep, such as plans."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Begin without what a library set in a test before: a capture would have changed since."""
    os.environ.pop(_OF_A_LIBRARY, None)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real captures, or skip where it is not there."""
    folder = Path(os.environ.get("PROFKIT_REAL_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real captures at {folder}; set PROFKIT_REAL_DATA to have them")
    return folder


@pytest.fixture(scope="module")
def chromium():
    """Start Chromium; skip where there is none, unless the tools are required.

    One for each module: a capture in the process of a test ends all that this process has started.
    """
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        reason = "no chromium on PATH: envs/install-system-tools chromium"
        if os.environ.get("PROFKIT_REQUIRE_TOOLS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


ENVIRONMENT = dict(os.environ)
"""As it was before a test imported a package that sets variables, as DeepSpeed does."""


@pytest.fixture
def small_disk():
    """Return a function that makes a folder a file system of so many MiB."""
    mounted = []

    def mount(folder, mebibytes):
        folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        # Lazily: what is still open in it must not keep the others mounted.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def copy_project(folder):
    """Copy what a run needs of the project into `folder`."""
    shutil.copy(ROOT / "Snakefile", folder)
    for name in ("profkit", "conf", "workflow", "profiles", "envs"):
        # With what is compiled; another process may be compiling now, and its file goes away.
        skipped = shutil.ignore_patterns("*.pyc.*", "node_modules")
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)


class Tree:
    """A copy of the project with results of its own, of what `overrides` select.

    Each dry run, tool and analysis takes a second or more: choose those that a test is about.
    """

    def __init__(self, folder, overrides=SMALL):
        self.folder = folder
        self.overrides = f"{overrides} launcher.python={warm_rank_python()}".strip()

    def copied(self, folder, overrides):
        """Copy the tree with its results, as fresh as they are; return that of `overrides`."""
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        return Tree(folder, overrides)

    def run(self, *command):
        environment = ENVIRONMENT | CANARIES | {"PYTHONPATH": str(self.folder)}
        return warm.run(*command, cwd=self.folder, env=environment)

    def snakemake(self, overrides, *options, status=0):
        config = f"overrides={self.overrides} {overrides}".rstrip()
        command = ("--cores", "2", "results/report.html", "--config", config, *options)
        done = self.run("snakemake", *command)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def jobs(self, overrides=""):
        """Return the rules that Snakemake would run now."""
        output = self.snakemake(overrides, "--dry-run")
        return sorted(set(re.findall(r"^(?:local)?rule (\w+):", output, flags=re.MULTILINE)))

    def why(self, path, *overrides):
        done = self.run("profkit", "why", path, *self.overrides.split(), *overrides)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def edited(self, path, old, new):
        """Replace `old`, which must be there, in the file at `path`."""
        file = self.folder / path
        text = file.read_text()
        assert old in text, f"{old!r} is not in {path}"
        file.write_text(text.replace(old, new, 1))
        return text


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """Return a folder that the workers of pytest-xdist have in common."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def default_tree(shared_folder, tmp_path_factory):
    """Return a tree in which all that is on by default was run; tests work on copies of it.

    The first worker of pytest-xdist that wants it makes it for all.
    """
    finished = shared_folder / "default_tree.path"
    with FileLock(shared_folder / "default_tree.lock"):
        if finished.is_file():
            return Tree(Path(finished.read_text()))
        tree = Tree(tmp_path_factory.mktemp("default"))
        copy_project(tree.folder)
        tree.snakemake("")
        finished.write_text(str(tree.folder))
    return tree
