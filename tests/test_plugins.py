"""An analysis that somebody else wrote: listed, run and shown with no other edit."""

import json
import os
import pstats
import re
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests import warm
from tests.conftest import SMALL
from tests.page_text import page_text

ROOT = Path(__file__).parent.parent

ANALYSIS = '''
    """Counted steps: how many steps every tool saw."""

    from dataclasses import dataclass

    import pandas as pd

    from profkit.api import ByTool, Metric, Result, Settings, analysis


    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(Settings):
        """Settings."""

        factor: int = 1
        """What the count is multiplied with."""


    @analysis(title="Counted steps of a plugin")
    def analyze(steps: ByTool, config: Config) -> Result:
        """How many steps every tool saw."""
        count = sum(len(rows) for rows in steps.values()) * config.factor
        return Result(metrics={"count": Metric(value=count, unit="count", title="Steps")})
'''


ACROSS = '''
    """Compared steps: the steps of the runs side by side."""

    from dataclasses import dataclass

    import pandas as pd

    from profkit.api import ByRun, Result, Settings, analysis, table


    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(Settings):
        """Settings."""


    @analysis(title="Steps of a plugin across runs", across="runs")
    def analyze(steps: pd.DataFrame, observer_tax: ByRun, config: Config) -> Result:
        """The steps of the runs side by side."""
        counts = steps.groupby("run", observed=False).size().reset_index(name="step_count")
        counts["known"] = [str(run in observer_tax) for run in counts["run"]]
        if len(counts) < 2:
            return Result.abstain("differences between runs", "there is one run")
        return Result(tables={"counts": table(counts, title="Steps")})
'''


@pytest.fixture(scope="module")
def tree(default_tree, tmp_path_factory):
    """Return a copy of the project in which all analyses of the steps alone were run."""
    alone = SMALL.replace(" tools.torch_profiler.schedule=early", "")
    tree = default_tree.copied(tmp_path_factory.mktemp("tree"), f"{alone} tool=[]")
    tree.snakemake("")
    return tree


def appears(tree, name):
    """Check that the analysis is in the list, the DAG and the report, and that it ran."""
    assert re.search(
        rf"^ *{name} +Counted steps: how many", tree.run("profkit", "list").stdout, re.MULTILINE
    )
    assert tree.jobs() == [f"analyze_{name}", "report"]
    tree.snakemake("")
    assert "Counted steps of a plugin" in page_text(tree.folder / "results/report.html")
    assert tree.jobs() == []


def test_a_file_dropped_into_place_appears_everywhere(tree):
    module = tree.folder / "profkit/analyze/dropped.py"
    settings = tree.folder / "conf/analysis/dropped.yaml"
    module.write_text(textwrap.dedent(ANALYSIS))
    settings.write_text("# @package analyses.dropped\n# Counts steps.\nfactor: 1\n")
    try:
        appears(tree, "dropped")
    finally:
        module.unlink()
        settings.unlink()


def test_an_installed_package_with_an_entry_point_appears_everywhere(tree):
    package = tree.folder / "thirdparty"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "counting.py").write_text(textwrap.dedent(ANALYSIS))
    installed = tree.folder / "thirdparty-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: thirdparty\nVersion: 1.0\n")
    points = "[profkit.analyze]\ncounted = thirdparty.counting\n"
    (installed / "entry_points.txt").write_text(points)
    try:
        appears(tree, "counted")
        path = package / "counting.py"
        path.write_text(path.read_text().replace("* config.factor", "* config.factor * 2"))
        assert tree.jobs() == ["analyze_counted", "report"]
        assert tree.jobs("analyses.counted.factor=3") == ["analyze_counted", "report"]
    finally:
        (installed / "entry_points.txt").write_text("")


@pytest.fixture
def from_readme(tree):
    """Return a function that has ``profkit new`` write the plugin of a section of the README."""
    written = []

    def new(kind, name):
        done = tree.run("profkit", "new", kind, name)
        assert done.returncode == 0, done.stderr
        files = [line for line in done.stdout.splitlines() if not line.startswith("try: ")]
        written.extend(tree.folder / file for file in files)
        assert len(files) == 3
        text = (ROOT / "README.md").read_text()
        printed = re.findall(r"```(?:python|yaml)\n# (\S+/\S+)\n(.*?)```", text, re.DOTALL)
        for file in files[:2]:
            assert dict(printed)[file] == (tree.folder / file).read_text()

    yield new
    for path in written:
        path.unlink()


def test_the_analysis_in_the_readme_is_what_new_writes_and_works(tree, from_readme):
    from_readme("analysis", "longest_kernel")
    tree.snakemake(
        "tool=[torch_profiler] tools.torch_profiler.schedule=early analysis=[longest_kernel]"
    )
    (result,) = tree.folder.glob("results/runs/*/analyze/longest_kernel.json")
    assert "no kernel was recorded" in result.read_text()


def test_the_tool_in_the_readme_is_what_new_writes_and_works(tree, from_readme):
    from_readme("tool", "cprofile")
    tree.snakemake("tool=[cprofile] analysis=[observer_tax]")
    (folder,) = tree.folder.glob("results/runs/*/capture/cprofile/rep0")
    assert json.loads((folder / "capture.json").read_text())["reason"] == ""
    (profile,) = folder.glob("rank0_dp0_tp0_pp0.prof")
    functions = {function for _, _, function in pstats.Stats(str(profile)).stats}
    # Python 3.12.1 loses those that it was in when a generator was closed.
    assert "backward" in functions
    (taxed,) = tree.folder.glob("results/runs/*/analyze/observer_tax.json")
    assert "cprofile_slowdown_ratio" in taxed.read_text()


@pytest.mark.parametrize(
    ("kind", "name", "listed"),
    [
        ("analysis", "slowest_kernel", "analyses"),
        ("tool", "calls", "tools"),
        ("model", "perceptron", "models"),
    ],
)
def test_a_package_that_new_writes_passes_its_tests_and_is_there_once_installed(
    tree, kind, name, listed
):
    folder = tree.folder / "own"
    folder.mkdir(exist_ok=True)
    # Options of this pytest are not for the one that is started here.
    environment = os.environ | {"PYTHONPATH": str(tree.folder), "PYTEST_ADDOPTS": ""}

    def python(*words, cwd=folder):
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )

    def profkit(*words):
        return warm.run("profkit", *words, cwd=folder, env=environment)

    done = profkit("new", kind, name)
    assert done.returncode == 0, done.stderr
    package = folder / f"profkit-{name.replace('_', '-')}"
    build = "import hatchling.build; print(hatchling.build.build_wheel('.'))"
    wheel = python("-c", build, cwd=package)
    assert wheel.returncode == 0, wheel.stderr
    with zipfile.ZipFile(package / wheel.stdout.split()[-1]) as file:
        file.extractall(tree.folder)
        (info,) = {Path(path).parts[0] for path in file.namelist() if ".dist-info/" in path}
    try:
        tested = python("-m", "pytest", "-q", "-p", "no:cacheprovider", package / "tests")
        assert tested.returncode == 0, tested.stdout
        assert name in profkit("list", listed).stdout
        chosen = {
            "analysis": f"analysis=[{name}]",
            "tool": f"+tool={name}",
            "model": f"model={name}",
        }
        planned = profkit("plan", chosen[kind])
        assert planned.returncode == 0, planned.stderr
    finally:
        shutil.rmtree(tree.folder / info)


# The last, as it leaves the tree with another selection.
def test_an_analysis_across_runs_works_once_on_all_of_them(tree):
    module = tree.folder / "profkit/analyze/compared.py"
    settings = tree.folder / "conf/analysis/compared.yaml"
    module.write_text(textwrap.dedent(ACROSS))
    settings.write_text("# @package analyses.compared\n# Compares steps.\n{}\n")
    path = "results/selection/analyze/compared.json"
    try:
        tree.snakemake("")
        assert "there is one run" in (tree.folder / path).read_text()
        tree.snakemake("batch=1,2")
        assert tree.jobs("batch=1,2") == []
        (table,) = json.loads((tree.folder / path).read_text())["result"]["tables"].values()
        runs = [run for run, *_ in table["rows"]]
        assert [run.partition("-b")[2][0] for run in runs] == ["1", "2"]
        assert [row[1:] for row in table["rows"]] == [[8, "True"], [8, "True"]]
        page = page_text(tree.folder / "results/report.html")
        assert page.splitlines().count("Steps of a plugin across runs") == 1
        assert tree.why(path, "batch=1,2") == f"{path} is fresh\n"
        assert f"{path}: input results/runs/{runs[0]}" in tree.why(path)
        tree.edited("profkit/analyze/compared.py", "len(counts) < 2", "len(counts) <= 1")
        assert tree.jobs("batch=1,2") == ["analyze_compared", "report"]
        assert "module profkit.analyze.compared" in tree.why(path, "batch=1,2")
    finally:
        module.unlink()
        settings.unlink()
        for run in (tree.folder / "results/runs").glob("*-b1-*"):
            shutil.rmtree(run)
