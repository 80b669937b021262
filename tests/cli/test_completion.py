"""What completes profkit's command lines in a shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

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
        ("profkit export g", ["gpt-1", "gpt-2"]),
        ("profkit history gpt-1", ["gpt-1"]),
        ("profkit open g", ["gpt-1", "gpt-2"]),
        ("profkit baseline s", ["save"]),
        ("profkit baseline save g", []),
        ("profkit baseline save main g", ["gpt-1", "gpt-2"]),
        ("profkit what-if --without ", []),
        ("profkit what-if --", ["--halve", "--help", "--json", "--without"]),
        ("profkit query --format ", ["csv", "json", "table"]),
        ("profkit query --format=", []),
        ("profkit import ", ["ncu", "nsys", "snapshot", "trace"]),
        ("profkit run precision=", ["precision=bf16", "precision=fp16", "precision=fp32"]),
        ("profkit run device=c", ["device=cpu", "device=cuda"]),
        ("profkit run keep_raw=", ["keep_raw=all", "keep_raw=none"]),
        ("profkit run tools.nsys.per=", ["tools.nsys.per=host", "tools.nsys.per=rank"]),
        ("profkit run '+tool=nc", ["+tool=ncu"]),
        ("profkit help que", ["query"]),
        ("profkit nothing ", []),
    ],
)
def test_a_line_is_completed_by_what_may_stand_there(line, words):
    assert completions(line) == words


def test_files_are_offered_beside_what_else_may_stand_there(folder):
    for name in ("trace0.json.gz", "gpt-trace.json", ".hidden", "sub/trace1.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    assert completions("profkit show gpt") == ["gpt-1", "gpt-2", "gpt-trace.json"]
    assert completions("profkit import trace tra") == ["trace0.json.gz", "trace_block_mb="]
    assert completions("profkit open s") == ["sub/"]
    assert completions("profkit show sub/") == ["sub/trace1.json"]
    assert completions("profkit show .h") == [".hidden"]
    assert completions("profkit profile -- python tra") == ["trace0.json.gz"]


def test_what_is_profiled_is_completed_as_a_command(folder, monkeypatch):
    for name, mode in (("pytrain", 0o755), ("pytext", 0o644)):
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).touch(mode)
    monkeypatch.setenv("PATH", f"{folder}/bin:{folder}/gone")
    assert completions("profkit profile --all -- pyt") == ["pytrain"]
    assert completions("profkit profile --all -- ./pyt") == []


def test_names_with_spaces_are_escaped_and_overrides_are_not(folder, capsys):
    (folder / "a b.json").touch()
    for shell in ("bash", "zsh", "fish"):
        main(["completion", shell, "--line", "profkit show a"])
        main(["completion", shell, "--line", "profkit run tool=[ncu,ns"])
    escaped = "a\\ b.json \n"
    assert capsys.readouterr().out == (
        f"{escaped}[ncu,nsys\n{escaped}tool=[ncu,nsys\na b.json\ntool=[ncu,nsys\n"
    )


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


_ASKED = {
    "bash": """COMP_LINE='profkit show tra' COMP_POINT=16
_profkit; printf '%s\\n' "${COMPREPLY[@]}" """,
    # As zsh sets them, whatever stands before the command on the line.
    "zsh": """compadd() { print -rl -- "${@[5,-1]}" }; BUFFER='cd .; profkit show tra'
words=(profkit show tra) CURRENT=3 PREFIX=tra; _profkit""",
    "fish": "complete -C 'cd .; profkit show tra'",
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_offers_what_profkit_answers(shell, folder, capsys, monkeypatch):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (folder / "trace0.json").touch()
    program = folder / "bin/profkit"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m profkit "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    main(["completion", shell])
    script = capsys.readouterr().out
    if shell == "zsh":
        script = f"compdef() {{ : }}\n{script}"
    done = subprocess.run(
        [shell, "-c", script + _ASKED[shell]], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["trace0.json"]


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
