"""An analysis that somebody else wrote: listed, run and shown with no other edit."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

ANALYSIS = '''
    """Counted steps: how many steps every tool saw."""

    from dataclasses import dataclass

    import pandas as pd

    from profkit.analyze.base import ByTool, analysis
    from profkit.result import Metric, Result
    from profkit.settings import Settings


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


@pytest.fixture(autouse=True)
def up_to_date(tree):
    """Begin with nothing left to do, whatever other tests did to the tree."""
    tree.snakemake("")


def appears(tree, name):
    """Check that the analysis is in the list, the DAG and the report, and that it ran."""
    assert re.search(
        rf"^ *{name} +Counted steps: how many", tree.run("profkit", "list").stdout, re.MULTILINE
    )
    assert tree.jobs() == [f"analyze_{name}", "report"]
    tree.snakemake("")
    assert "Counted steps of a plugin" in (tree.folder / "results/report.html").read_text()
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
        tree.snakemake("")


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


def test_the_analysis_in_the_readme_works(tree):
    text = (ROOT / "README.md").read_text()
    (code,) = re.findall(r"```python\n# profkit/analyze/longest.py\n(.*?)```", text, re.DOTALL)
    (settings,) = re.findall(r"```yaml\n# conf/analysis/longest.yaml\n(.*?)```", text, re.DOTALL)
    module = tree.folder / "profkit/analyze/longest.py"
    yaml = tree.folder / "conf/analysis/longest.yaml"
    module.write_text(code)
    yaml.write_text(settings)
    try:
        tree.snakemake("")
        (result,) = tree.folder.glob("results/runs/*/analyze/longest.json")
        assert "no device work was recorded" in result.read_text()
    finally:
        module.unlink()
        yaml.unlink()
        tree.snakemake("")
