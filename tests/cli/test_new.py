"""``profkit new`` says what is wrong with a name, and overwrites nothing."""

import pytest

from profkit.cli.new import main
from profkit.core.errors import ConfigError, InputError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["analisis", "x"], "no kind of plugin named 'analisis'\n  hint: did you mean 'analysis'?"),
        (["tool", "my-tool"], "'my-tool' cannot name a module of Python"),
        (["tool", "3d"], "'3d' cannot name a module"),
        (["model", "lambda"], "'lambda' cannot name a module"),
        (["tool", "nsys"], "there is tool 'nsys' already"),
        (["model", "gpt"], "there is model 'gpt' already"),
        (["model", "gpt_tiny"], "there is model 'gpt_tiny' already"),
        (["analysis", "base"], "there is analysis 'base' already"),
    ],
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(argv, message, folder):
    with pytest.raises(ConfigError) as raised:
        main(argv)
    assert message in str(raised.value)
    assert list(folder.iterdir()) == []


def test_what_is_there_stays_as_it_is(folder, capsys):
    main(["model", "mine"])
    module = folder / "profkit-mine/profkit_mine/mine.py"
    assert "profkit-mine/profkit_mine/mine.py\n" in capsys.readouterr().out
    module.write_text("# changed\n")
    (folder / "profkit-mine/pyproject.toml").unlink()
    with pytest.raises(InputError, match=r"mine\.py.*: there already, nothing is written"):
        main(["model", "mine"])
    assert module.read_text() == "# changed\n"
    assert not (folder / "profkit-mine/pyproject.toml").exists()


def test_a_folder_that_cannot_be_written_to_is_an_error_for_people(folder):
    (folder / "profkit-mine").write_text("a file")
    with pytest.raises(InputError, match=r"profkit-mine/pyproject\.toml: "):
        main(["model", "mine"])
