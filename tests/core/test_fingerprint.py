"""What counts as a change of code."""

import sys
import textwrap
from pathlib import Path

import pytest

import profkit
from profkit.convert import converters
from profkit.core import registry, source_hash
from profkit.core.fingerprint import closure, imports

PLUGIN = '''
"""A plugin."""
import numpy
from {package}.inner import helper

def run(x):
    """Do it."""
    return helper(x) + 1
'''
INNER = "def helper(x):\n    return x * 2\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a function that writes a package and returns the closure of its plugin."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"pkg_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")

    def hashes(plugin=PLUGIN, inner=INNER, assets=()):
        for path, text in dict(assets).items():
            (folder / "assets" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "assets" / path).write_text(text)
        (folder / "plugin.py").write_text(textwrap.dedent(plugin).replace("{package}", name))
        (folder / "inner.py").write_text(inner)
        source_hash.syntax.cache_clear()
        imports.cache_clear()
        sys.modules.pop(name, None)
        modules, packages = closure("profkit.analyze", f"{name}.plugin")
        own = {key: value for key, value in modules.items() if name in key}
        return {key[len(name) + 1 :]: value for key, value in own.items()}, packages

    return hashes


def test_the_closure_follows_imports_of_the_same_package(package):
    modules, packages = package()
    assert sorted(modules) == ["inner", "plugin"]
    assert list(packages) == ["numpy"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Do it."""', '"""Do it better."""'),
        ("def run(x):", "# why\ndef run(x):"),
        ("return helper(x) + 1", "return (helper(x)\n            + 1)"),
        ('"""A plugin."""', ""),
    ],
    ids=["docstring", "comment", "layout", "module docstring"],
)
def test_what_does_nothing_changes_nothing(package, old, new):
    assert old in PLUGIN
    assert package() == package(plugin=PLUGIN.replace(old, new))


def test_a_changed_constant_changes_the_plugin_only(package):
    before, _ = package()
    after, _ = package(plugin=PLUGIN.replace("+ 1", "+ 2"))
    assert [name for name in before if before[name] != after[name]] == ["plugin"]


def test_a_changed_import_is_seen_where_it_is(package):
    before, _ = package()
    after, _ = package(inner=INNER.replace("* 2", "* 3"))
    assert [name for name in before if before[name] != after[name]] == ["inner"]


ASSETS = {"page.js": "draw();", "vendor/plot.js": "plot();"}


@pytest.mark.parametrize(
    "reads",
    [
        'Path(__file__).parent / "assets" / "page.js"',
        'Path(__file__).with_name("assets/page.js")',
        'files("package").joinpath(f"assets/{name}.js")',
    ],
    ids=["folder", "file", "chosen file"],
)
def test_a_module_that_names_its_assets_counts_with_each_of_them(package, reads):
    inner = f"{INNER}\n\ndef script(name):\n    return {reads}\n"
    before, _ = package(inner=inner, assets=ASSETS)
    assert sorted(before) == ["assets/page.js", "assets/vendor/plot.js", "inner", "plugin"]
    after, _ = package(inner=inner, assets=ASSETS | {"vendor/plot.js": "plot(1);"})
    assert [name for name in before if before[name] != after[name]] == ["assets/vendor/plot.js"]


def test_a_module_that_names_no_assets_counts_without_those_beside_it(package):
    inner = f'"""Not a reader of assets/."""\n{INNER}'
    modules, _ = package(inner=inner, assets=ASSETS)
    assert sorted(modules) == ["inner", "plugin"]


def test_every_asset_counts_for_a_module_beside_it():
    top = Path(profkit.__file__).parent
    assets = {path for path in top.rglob("assets/**/*") if path.is_file()}
    covered = set()
    for folder in {path for path in top.rglob("assets") if path.is_dir()}:
        room = ".".join(["profkit", *folder.parent.relative_to(top).parts])
        for module in folder.parent.glob("*.py"):
            covered |= set(closure("profkit.report", f"{room}.{module.stem}")[0])
    assert {path.relative_to(top.parent).as_posix() for path in assets} <= covered


FLAME_GRAPHS = {"host_memory", "memory_snapshot", "py_spy", "pyinstrument"}


@pytest.mark.parametrize(
    ("asset", "tools"),
    [
        ("drawing/assets/flamegraph.js", FLAME_GRAPHS),
        ("drawing/assets/flamegraph.svg", FLAME_GRAPHS),
        ("memory_snapshot/assets/timeline.css", {"memory_snapshot"}),
        ("memory_layers/assets/sunburst.js", {"memory_layers"}),
    ],
)
def test_an_asset_counts_for_the_conversions_that_draw_with_it_alone(asset, tools):
    closures = {
        tool: closure("profkit.convert", registry.converter_module(tool))[0]
        for tool in converters()
    }
    drawn = {tool for tool, modules in closures.items() if f"profkit/convert/{asset}" in modules}
    assert drawn == tools


@pytest.mark.parametrize(
    ("stage", "plugin", "read_by_the_edge"),
    [
        ("convert", "py_spy", ["_join_parts", "_part_tables", "_parts_of_ranks", "_parquet"]),
        ("analyze", "steps", ["shared.read_tables", "shared.mapped_frames"]),
        ("timeline", "merge_ranks", ["perfetto_archive"]),
    ],
)
def test_a_result_depends_on_the_edge_and_on_what_the_edge_imports_of_its_stage(
    stage, plugin, read_by_the_edge
):
    modules, packages = closure(f"profkit.{stage}", f"profkit.{stage}.{plugin}")
    assert {f"profkit.{stage}.{name}" for name in ("__main__", *read_by_the_edge)} < set(modules)
    assert not {"profkit.core.progress_events", "profkit.core.fingerprint"} & set(modules)
    assert "msgspec" in packages


def test_captures_are_in_no_closure_of_later_stages():
    for module in ("profkit.convert.torch_profiler", "profkit.analyze.operators"):
        modules, _ = closure(module.rpartition(".")[0], module)
        assert not [name for name in modules if name.startswith("profkit.capture")]
        assert "profkit.marks" not in modules


FACADE = """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from {package}.inner import helper as given
    from {package}.other import different
"""


@pytest.mark.parametrize(
    ("statement", "behind"),
    [
        ("from {package}.facade import given", ["inner", "plugin"]),
        ("from .facade import different", ["other", "plugin"]),
        ("from {package}.second import passed_on", ["inner", "plugin"]),
        ("from {package} import facade", ["facade", "inner", "other", "plugin"]),
        ("from {package}.second import own", ["inner", "other", "plugin", "second"]),
        ("from {package}.second import late", ["inner", "other", "plugin", "second"]),
    ],
    ids=["renamed", "relative", "twice", "as a whole", "defined there", "imported in a function"],
)
def test_of_a_module_that_passes_names_on_only_what_is_behind_a_name_counts(
    package, tmp_path, statement, behind
):
    package()
    (folder,) = tmp_path.glob("pkg_*")
    second = "from .facade import given as passed_on\nfrom .facade import different\nown = 1\n"
    second += "def late():\n    from .inner import late\n"
    for name, text in {"facade": FACADE, "second": second, "other": "different = 2\n"}.items():
        (folder / f"{name}.py").write_text(text.replace("{package}", folder.name))
    modules, _ = package(plugin=statement)
    assert sorted(modules) == behind


def test_an_analysis_that_uses_the_api_is_not_stale_when_another_stage_changes(
    tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"plugin_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text("from profkit.api import Result, analysis, table\n")
    modules, packages = closure("profkit.analyze", name)
    assert {"profkit.analyze.base", "profkit.core.result"} < set(modules)
    strange = ("profkit.api", "profkit.capture", "profkit.convert", "profkit.workloads")
    assert [module for module in modules if module.startswith(strange)] == []
    assert "pandas" in packages


def test_what_was_found_in_a_file_is_kept_and_is_the_same(package, tmp_path, monkeypatch):
    alone = package()
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    first, kept = package(), sorted(source_hash.kept().iterdir())
    monkeypatch.setattr(source_hash, "_parsed", None)
    assert first == alone
    assert package() == alone
    assert sorted(source_hash.kept().iterdir()) == kept


def test_what_was_kept_and_is_damaged_is_found_again(package, tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    first = package()
    for path in source_hash.kept().iterdir():
        path.write_text("{")
    assert package() == first


def test_a_folder_where_commands_run_keeps_nothing(package, tmp_path, monkeypatch):
    monkeypatch.setenv("PROFKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    package()
    assert [*(tmp_path / "empty").iterdir()] == []
