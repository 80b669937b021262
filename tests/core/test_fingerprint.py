"""What counts as a change of code."""

import sys
import textwrap

import pytest

from profkit.core import source_hash
from profkit.core.fingerprint import closure

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

    def hashes(plugin=PLUGIN, inner=INNER):
        (folder / "plugin.py").write_text(textwrap.dedent(plugin).replace("{package}", name))
        (folder / "inner.py").write_text(inner)
        source_hash.syntax.cache_clear()
        sys.modules.pop(name, None)
        modules, packages = closure("profkit.analyze", f"{name}.plugin")
        inner = {key.removeprefix(f"{name}."): each for key, each in modules.items() if name in key}
        return inner, packages

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


def test_an_analysis_depends_on_the_edge_but_not_on_what_the_edge_imports():
    modules, packages = closure("profkit.analyze", "profkit.analyze.steps")
    assert "profkit.analyze.__main__" in modules
    assert "profkit.core.progress_events" not in modules
    assert "pandas" in packages


def test_captures_are_in_no_closure_of_later_stages():
    for module in ("profkit.convert.torch_profiler", "profkit.analyze.operators"):
        modules, _ = closure(module.rpartition(".")[0], module)
        assert not [name for name in modules if name.startswith("profkit.capture")]
        assert "profkit.marks" not in modules


def test_what_was_found_in_a_file_is_kept_beside_results_and_is_the_same(
    package, tmp_path, monkeypatch
):
    alone = package()
    monkeypatch.chdir(tmp_path)
    source_hash.KEPT.parent.mkdir(parents=True)
    first, kept = package(), sorted(source_hash.KEPT.iterdir())
    monkeypatch.setattr(source_hash, "_parsed", None)
    assert first == alone
    assert package() == alone
    assert sorted(source_hash.KEPT.iterdir()) == kept


def test_what_was_kept_and_is_damaged_is_found_again(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source_hash.KEPT.parent.mkdir(parents=True)
    first = package()
    for each in source_hash.KEPT.iterdir():
        each.write_text("{")
    assert package() == first


def test_without_results_nothing_is_kept(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    package()
    assert not source_hash.KEPT.exists()
