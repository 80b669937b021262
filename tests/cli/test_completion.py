"""What completes profkit's command lines in a shell."""

import shutil
import subprocess
import sys

import pytest

from profkit.cli import COMMANDS, completion, main
from profkit.cli.completion import completions


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Return an empty folder with two runs, in which the commands are typed."""
    for name in ("gpt-1", "gpt-2"):
        (tmp_path / "results/runs" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("profkit re", ["reproduce"]),  # and no job of the workflow, as "report" is
        ("profkit --v", ["--version"]),
        ("profkit run mode", ["model.", "model="]),
        ("profkit run batch=2 model=gpt", ["model=gpt_125m", "model=gpt_tiny"]),
        ("profkit plan +tool=n", ["+tool=ncu", "+tool=nsys"]),
        ("profkit plan tool=[ncu,n", ["tool=[ncu,ncu", "tool=[ncu,nsys"]),
        ("profkit run ~tools.nc", ["~tools.ncu."]),
        ("profkit run tools.nsys.tr", ["tools.nsys.trace="]),
        ("profkit run parallel.t", ["parallel.tp="]),
        ("profkit run tools.nothing.tr", []),
        ("profkit run batch.x.y", []),
        ("profkit run imports=", ["imports=[gpt-1]", "imports=[gpt-2]"]),
        ("profkit reproduce gpt", ["gpt-1", "gpt-2"]),
        ("profkit list mod", ["models"]),
        ("profkit completion z", ["zsh"]),
        ("profkit run -- --dry", []),
        ("profkit nothing ", []),
    ],
)
def test_a_line_is_completed_by_what_may_stand_there(line, words):
    assert completions(line) == words


def test_options_of_the_users_own_are_completed(folder):
    (folder / "conf/model").mkdir(parents=True)
    (folder / "conf/model/mine.yaml").write_text("name: mine\nsize: 3\n")
    assert completions("profkit run model=m") == [
        "model=mine",
        *completions("profkit run model=mo"),
    ]
    assert completions("profkit run model.siz") == ["model.size="]


@pytest.mark.parametrize("command", ["completion", "import", "list", "ls", "run", "why"])
def test_the_options_of_a_command_are_those_of_its_help(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out.replace("[", " ").replace("]", " ").replace(",", " ").split()
    for option in completions(f"profkit {command} -"):
        assert option in said
    listed = {word for word in said if word.startswith("--") and word != "--"}
    assert listed == set(completions(f"profkit {command} --"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_it_can_read(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"completion {shell} --line" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_bash_gets_the_part_of_a_word_behind_the_last_sign(capsys):
    main(["completion", "bash", "--line", "profkit run model=gpt_t"])
    main(["completion", "zsh", "--line", "profkit run model=gpt_t"])
    main(["completion", "bash", "--line", "profkit run mode"])
    assert capsys.readouterr().out == "gpt_tiny \nmodel=gpt_tiny \nmodel.\nmodel=\n"


def test_completing_imports_nothing_that_takes_long():
    code = (
        "import sys; from profkit.cli.completion import completions;"
        "assert completions('profkit run tools.nsys.tr') and completions('profkit run --v');"
        "print(sorted({'hydra', 'torch', 'pandas', 'numpy', 'pydantic', 'rich'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_command_that_takes_overrides_is_one():
    names = (*completion._OVERRIDES, *completion._NAMES_OF_RUNS)
    assert [name for name in names if name not in COMMANDS] == []
