import shlex
import subprocess
import sys

import pytest

from profkit import marks
from profkit.core.errors import ProfkitError
from profkit.workloads import workload_settings
from profkit.workloads.script import Workload, main, observed, run

TELLING = "import sys, os; open('told', 'w').write(repr([__name__, *sys.argv, sys.path[0]]))\n"


class Listener:
    """Counts steps."""

    def __init__(self):
        self.samples = []
        self.notes = []

    def begin(self):
        pass

    def step(self, samples):
        self.samples.append(samples)

    def note(self, text):
        self.notes.append(text)


@pytest.fixture
def listener(monkeypatch):
    listener = Listener()
    monkeypatch.setattr(marks, "_marks", marks._Marks())
    marks.listen(listener)
    return listener


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Stand in an empty folder, and take back what a script changes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["profkit"])
    monkeypatch.setattr(sys, "path", [".", *sys.path])
    known = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - known:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_script_finds_its_arguments_and_the_modules_beside_it(here):
    (here / "code").mkdir()
    (here / "code" / "beside.py").write_text("value = 1\n")
    (here / "code" / "train.py").write_text("import beside\n" + TELLING)
    run(Workload(command="code/train.py --name 'two words' 3"))
    folder = here / "code"
    told = ["__main__", "code/train.py", "--name", "two words", "3", str(folder)]
    assert (here / "told").read_text() == repr(told)


@pytest.mark.parametrize("typed", ["train.py", "./train.py", "code/../train.py", "{here}/train.py"])
def test_a_script_sees_what_python_itself_would_show_it(here, typed):
    (here / "code").mkdir()
    (here / "train.py").write_text(
        "import sys\n"
        "found = [sys.argv, __file__, __name__, __spec__, __package__, __doc__, __annotations__,\n"
        "    type(__loader__).__name__, sys.modules['__main__'].__dict__ is globals(),\n"
        "    sys.path[0], sorted(name for name in globals() if name != 'found')]\n"
        "open('told', 'w').write(repr(found))\n"
    )
    words = [typed.format(here=here), "--x", "1"]
    subprocess.run([sys.executable, *words], check=True)
    bare = (here / "told").read_text()
    run(Workload(command=shlex.join(words)))
    assert (here / "told").read_text() == bare


def test_a_script_gets_what_the_launcher_hands_in_before_its_own_arguments(here, monkeypatch):
    """As deepspeed would start it."""
    monkeypatch.setenv("PROFKIT_ARGUMENTS", '["--local_rank=1"]')
    (here / "train.py").write_text(TELLING)
    run(Workload(command="train.py --steps 3"))
    told = ["__main__", "train.py", "--local_rank=1", "--steps", "3", str(here)]
    assert (here / "told").read_text() == repr(told)


def test_a_module_gets_what_the_launcher_hands_in_behind_its_name(here, monkeypatch):
    monkeypatch.setenv("PROFKIT_ARGUMENTS", '["--local_rank=1"]')
    (here / "train.py").write_text(TELLING)
    run(Workload(command="-m train --steps 3"))
    told = ["__main__", str(here / "train.py"), "--local_rank=1", "--steps", "3", str(here)]
    assert (here / "told").read_text() == repr(told)


def test_a_module_is_run_as_python_would(here):
    (here / "package").mkdir()
    (here / "package" / "__init__.py").touch()
    (here / "package" / "train.py").write_text("from . import __name__ as package\n" + TELLING)
    run(Workload(command="-m package.train --steps 3"))
    path = str(here / "package" / "train.py")
    assert (here / "told").read_text() == repr(["__main__", path, "--steps", "3", str(here)])


@pytest.mark.parametrize("leaving", ["sys.exit()", "sys.exit(0)", "raise SystemExit"])
def test_a_script_may_leave_when_it_is_done(here, leaving):
    (here / "train.py").write_text(f"import sys\n{leaving}\n")
    run(Workload(command="train.py"))


@pytest.mark.parametrize("code", [3, "no data"])
def test_a_script_that_leaves_with_an_error_has_failed(here, code):
    (here / "train.py").write_text(f"import sys\nsys.exit({code!r})\n")
    with pytest.raises(SystemExit) as stop:
        run(Workload(command="train.py"))
    assert stop.value.code == code


def test_the_samples_of_a_step_are_what_the_settings_say(here, listener):
    (here / "train.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(9):\n"
        "    model(torch.ones(1, 2)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    observed(Workload(command="train.py", samples=4))
    assert listener.samples == [4] * 9
    listener.samples.clear()
    observed(Workload(command="train.py", stop_after=3))
    assert listener.samples == [-1] * 3


def test_a_script_without_steps_is_an_error_that_says_what_to_do(here, listener):
    (here / "train.py").write_text("print('nothing to do')\n")
    with pytest.raises(ProfkitError, match=r"ended without a step \(workload.step=auto\)") as error:
        observed(Workload(command="train.py"))
    assert "call profkit.step()" in str(error.value)
    assert listener.samples == []


def test_without_a_profiler_a_script_just_runs(here, monkeypatch):
    (here / "train.py").write_text(TELLING)
    monkeypatch.setattr(marks, "_marks", marks._Marks())
    main(["--config", '{"workload": {"name": "script", "command": "train.py"}}'])
    assert (here / "told").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "command is empty"),
        ("train.py 'open", "No closing quotation"),
        ("absent.py", "no such script: "),
        ("python train.py", "leave out 'python', the launcher starts Python"),
        ("torchrun train.py", "set launcher=torchrun, and begin with the script"),
        ("notes.txt", "notes.txt is not a Python script"),
        ("-m", "-m wants the name of a module"),
        ("-m absent.train", "no module named 'absent'"),
    ],
)
def test_a_command_that_cannot_run_is_found_before_anything_runs(here, command, message):
    (here / "notes.txt").write_text("not Python at all\n")
    assert message in Workload(command=command).check(here)


@pytest.mark.parametrize("command", ["train.py --x", "tool", "-m package.train", "folder"])
def test_a_command_that_can_run_is_left_alone(here, command):
    (here / "train.py").touch()
    (here / "tool").write_text("#!/usr/bin/env python\nprint(1)\n")
    (here / "package").mkdir()
    (here / "folder").mkdir()
    (here / "folder" / "__main__.py").touch()
    assert Workload(command=command).check(here) == ""


@pytest.mark.parametrize(
    ("command", "model", "subject"),
    [
        ("code/train_gpt.py --x 1", "none", "train_gpt"),
        ("-m package.train", "none", "package.train"),
        ("train.py", "gpt_tiny", "train-gpt_tiny"),
        ("strange name!.py", "none", "strange"),
    ],
)
def test_a_run_is_named_after_its_script(command, model, subject):
    assert Workload(command=command).name_for_run(model) == subject


def test_only_the_script_knows_how_many_steps_it_makes():
    assert Workload(command="train.py").total_steps(12) == -1
    assert Workload(command="train.py", stop_after=7).total_steps(12) == 7
    assert workload_settings({"workload": {"name": "train"}}).total_steps(12) == 12
