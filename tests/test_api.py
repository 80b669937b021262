"""What ``profkit.api`` gives to authors of plugins, and what it costs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from profkit import api

ROOT = Path(__file__).parent.parent
# What a capture must not load, and what takes a second.
HEAVY = ("pandas", "pyarrow", "hydra", "omegaconf", "snakemake", "torch")


def loaded_by(code):
    """Return which of `HEAVY` a new Python has loaded after `code`."""
    program = (
        f"{code}\nimport json, sys; print(json.dumps(sorted({set(HEAVY)} & set(sys.modules))))"
    )
    return json.loads(subprocess.check_output([sys.executable, "-c", program], text=True))


@pytest.mark.parametrize("name", api.__all__)
def test_every_name_is_there(name):
    assert getattr(api, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'profkit\.api' has no attribute 'Reslut'"):
        _ = api.Reslut


def test_names_are_listed_and_kept():
    assert dir(api) == sorted(api.__all__)
    assert api.Result is vars(api)["Result"]


@pytest.mark.parametrize(
    "names",
    [
        "Wrapper, Session, Rank, Recorder, NullRecorder, Problem",
        "ModelFamily, Settings, InputError",
    ],
)
def test_what_runs_inside_a_capture_loads_nothing_heavy(names):
    assert loaded_by("import profkit.api") == []
    assert loaded_by(f"from profkit.api import {names}") == []


def test_what_analyses_need_loads_pandas():
    assert {"pandas", "pyarrow"} <= set(loaded_by("from profkit.api import analysis"))


@pytest.mark.slow  # takes a minute without the cache of `make lint`
def test_type_checkers_see_every_name_and_no_other(tmp_path):
    plugin = tmp_path / "plugin.py"
    plugin.write_text("from profkit.api import Result, Reslut\nreveal_type(Result())\n")
    # With the options of `make lint`, and where its cache of all of profkit counts.
    command = [sys.executable, "-m", "mypy", str(plugin)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    code = done.stdout
    assert 'has no attribute "Reslut"' in code
    assert 'Revealed type is "profkit.core.result.Result"' in code
    assert code.count("error:") == 1


@pytest.mark.parametrize("path", ["README.md", "examples/README.md"])
def test_documentation_uses_nothing_else(path):
    text = (ROOT / path).read_text()
    imported = re.findall(r"^ *(?:from|import) (profkit[\w.]*)", text, re.MULTILINE)
    assert imported
    assert set(imported) <= {"profkit", "profkit.api"}
