import json
import sys
from importlib.metadata import distributions

import torch

from profkit.capture.base import Rank
from profkit.capture.harness.ranks import software
from profkit.capture.harness.ranks.software import Software

FIRST = Rank(rank=0, world_size=2, local_rank=0)
SECOND = Rank(rank=1, world_size=2, local_rank=1)


def test_a_process_says_its_python_its_torch_and_all_its_packages():
    found = Software.of_this_process()
    assert found.python == "{}.{}.{}".format(*sys.version_info)
    assert found.version("torch") == torch.__version__
    assert found.builds["cuda"] == (torch.version.cuda or "")
    known = {}
    for one in distributions():
        # Of two, Python imports the first.
        known.setdefault(one.name, one.version)
    assert {name: found.version(name) for name in known} == known


def test_of_a_torch_that_is_not_imported_its_file_says_the_same(monkeypatch):
    imported = Software.of_this_process()
    monkeypatch.delitem(sys.modules, "torch.version")
    assert Software.of_this_process() == imported


def test_of_two_versions_the_one_that_python_imports_is_named(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "My_Package-2.0.dist-info").mkdir(parents=True)
    (second / "my.package-1.0.dist-info").mkdir(parents=True)
    (second / "old_one-0.3-py3.11.egg-info").mkdir()
    (tmp_path / "archive.zip").touch()
    others = [str(tmp_path / name) for name in ("none", "archive.zip")]
    monkeypatch.setattr(sys, "path", [*others, str(first), str(second)])
    found = Software.of_this_process()
    assert (found.version("my-package"), found.version("old-one")) == ("2.0", "0.3")


def test_the_software_is_that_of_the_first_rank(tmp_path):
    assert software.collect(tmp_path) is None
    for rank in (FIRST, SECOND):
        software.write(tmp_path, rank)
    assert software.collect(tmp_path) == Software.of_this_process()
    (tmp_path / f"{FIRST.label}.software.json").write_text(
        json.dumps({"python": "3.12.4", "packages": {}, "builds": {"cuda": ""}})
    )
    assert software.collect(tmp_path).python == "3.12.4"
    assert not [*tmp_path.iterdir()]
