"""What is loaded in a user's process: nothing that its Python may lack."""

import subprocess
import sys
from pathlib import Path

import pytest

import profkit

ROOT = Path(profkit.__file__).parents[1]
PATH = ROOT / "profkit/capture/harness/followed/path"
# Each reads the sensors of psutil, or files by msgspec.
NEEDY = {"system", "ncu"}


def bare(program, **variables):
    """Return what Python prints that has nothing installed."""
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("what", ["capture.harness.followed.process", "tools"])
def test_what_records_a_process_needs_the_standard_library_alone(what):
    names = [path.stem for path in (ROOT / "conf/tool").glob("*.yaml")]
    tools = [f"profkit.capture.{name}" for name in sorted({*names} - NEEDY)]
    modules = tools if what == "tools" else [f"profkit.{what}"]

    program = (
        f"import sys; sys.path.append({str(ROOT)!r}); import {', '.join(modules)}; print('ok')"
    )
    assert bare(program) == ["ok"]


def test_a_sitecustomize_that_was_there_runs_as_well(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.theirs = __file__\n")
    program = "import site, sys; site.execsitecustomize(); print(sys.theirs, len(sys.path))"
    path = f"{PATH}:{tmp_path}"
    theirs, length = bare(program, PYTHONPATH=path)
    assert theirs == str(tmp_path / "sitecustomize.py")
    # Of the two folders only theirs stays.
    assert int(length) == int(bare(program, PYTHONPATH=str(tmp_path))[1])


def test_a_process_that_never_imports_torch_loads_no_profkit():
    program = "import site, sys, json; site.execsitecustomize(); print('profkit' in sys.modules)"
    assert bare(program, PYTHONPATH=str(PATH), PROFKIT_FOLLOWED="x") == ["False"]
