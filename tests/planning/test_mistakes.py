"""Mistakes in overrides and YAML files: each is said with what, where and what to do."""

import subprocess
import sys

import pytest

from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.planning import own_files
from profkit.planning.build import make
from profkit.planning.compose import compose_all
from profkit.planning.mistakes import repeated

FEW = "analysis=[steps]"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["batch=1,2", "batch=4"], "batch is set to 1,2 and to 4\n  hint: a run for each is b"),
        (["zero=none", "zero=zero2,zero3"], "a run for each is zero=none,zero2,zero3"),
        (["batch=range(1,9,0)"], "batch=range(1,9,0): range() arg 3 must not be zero\n  hint: as"),
        (
            ["tools=[]"],
            "tools=[]: tools is a section\n  hint: set one of its keys, as in tools.KEY",
        ),
        (["launcher.env=[A]"], "launcher.env=[A]: launcher.env is a section"),
        (["=3"], "=3: no key before the =\n  hint: write key=value"),
        (["batch"], "cannot read 'batch'\n  hint: write batch=VALUE"),
        (["batch=2 steps=5"], "hint: these are several overrides: quote each alone, batch=2 step"),
        (
            ["report.title=it's"],
            """hint: put the text in further quotes: 'report.title="it'"'"'s"'""",
        ),
        (["model=3"], "model=3: model is chosen by name\n  hint: choose from: cnn_small, "),
        (["model=null"], "model=null: model is chosen by name"),
        (
            ["model=[gpt_tiny,hf]"],
            "a run has one model\n  hint: a run for each is model=gpt_tiny,hf",
        ),
        (["tool=[torch_profiler,nsis]"], "no tool named 'nsis'\n  hint: did you mean 'nsys'?"),
        (["tool=[nosuch]"], "no tool named 'nosuch'\n  hint: choose from: baseline, host_memory, "),
        (["analysis=[stepz]"], "no analysis named 'stepz'\n  hint: did you mean 'steps'?"),
        (
            ["hardware=h100"],
            "no hardware named 'h100'\n  hint: did you mean 'h100_nvl', 'h100_pcie' or 'h100_sxm'?",
        ),
        (["~tools.nosuch"], "no such key: tools.nosuch\n  hint: choose from: baseline, memory_la"),
        (["bach=2"], "no such key: bach\n  hint: did you mean 'batch'?"),
        (["+nosuch=2"], "no such key: nosuch\n  hint: choose from: analyses, analysis, batch, "),
        (["launcher.env.NEW=2"], "a new variable\n  hint: write +launcher.env.NEW=VALUE"),
        (
            ["tool=nsys", "tools.py_spy.rate=50"],
            "hint: py_spy is none of the tools of this run; add it: +tool=py_spy",
        ),
        (["model.layrs=2"], "no such key: model.layrs\n  hint: did you mean 'model.layers'?"),
        (["~model"], "~model: a run has one model\n  hint: choose from: cnn_small, "),
        (["~workload"], "~workload: a run has one workload\n  hint: choose from: infer, script, "),
        (
            ["~batch"],
            "~batch: a setting has to have a value\n  hint: write batch=VALUE, or leave it",
        ),
        (["~model.layers"], "~model.layers: a setting has to have a value"),
        (["~tools"], "~tools: a setting has to have a value\n  hint: write tool=[]"),
        (
            ["batch=${steps"],
            "mismatched input '{' expecting <EOF>\n  hint: close each ${ by a }",
        ),
        (["~nosuch"], "no such key: nosuch\n  hint: choose from: analyses, analysis, batch, "),
        (["~tool=nsys"], "~tool=nsys: tool is a list\n  hint: leave one out with ~tools.nsys"),
        ([f"batch={'9' * 5000}"], "... (5,006 characters)\n  hint: look at the quotes and brack"),
        ([f"ranks={'[' * 3000}{']' * 3000}"], "[[[... (6,006 characters)\n  hint: look at the q"),
        (["steps=${batch}", "batch=${steps}"], "batch: its ${...} leads back to itself"),
        (["batch=${bach}"], "batch: no such key: bach\n  hint: did you mean 'batch'?"),
        (["batch=${nosuch:1}"], "batch: ${nosuch:...}: no such resolver"),
        (["seed=range(0,100000)"], "seed=range(0,100000): selects more than 10,000 runs"),
        (["seed=range(0,10**12)"], "cannot read 'seed=range(0,10**12)'"),
        (["seed=range(0,1000)", "batch=range(1,1000)"], "selects more than 10,000 runs"),
    ],
)
def test_a_mistake_in_an_override_is_named(overrides, message):
    with pytest.raises(ConfigError) as caught:
        compose_all(resources.CONF, [FEW, *overrides])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["parallel.tp=2"], "parallel: the ranks of workload=train are data-parallel replicas"),
        (["world_size=1e9"], "launcher: 1000000000 ranks on one host: 1024 at most"),
        (["report.title=a, b"], "report: cannot be swept, as all runs have one report"),
        (["batch=true"], "batch: Input should be a number, got True"),
        (
            ["keep_raw=none"],
            "keep_raw: without a scratch all raw files are written",
        ),
        (["ranks=4,5"], "ranks: there is no rank 4 of 2"),
        (["max_bytes=-1"], "max_bytes: Input should be greater than or equal to 0"),
        (["ranks=[true]"], "ranks: Input should be a number, got True"),
        (["model.layers=true"], "model.layers: Input should be a number, got True"),
        (
            ["analysis=[verdict]", "analyses.verdict.small=true"],
            "analyses.verdict.small: Input should be a number",
        ),
        (["steps=1000000000000000000"], "steps: Input should be less than or equal to 1000000000"),
        (["steps=1e19"], "steps: Unable to parse input string as an integer"),
        (["seed=99999999999999999999"], "seed: Input should be less than 9223372036854775808"),
        (["repeats=1e6"], "repeats: Input should be less than or equal to 1000"),
        (["model.layers=9999999999"], "its parameters take 7,213 TiB in fp32, more than any"),
        (["model.width=1000000000"], "in fp32, more than any machine has"),
        (["hardware=t4,l4"], "hardware: two for the same run"),
    ],
)
def test_a_mistake_that_only_the_whole_plan_shows_is_named(overrides, message):
    with pytest.raises(ConfigError) as caught:
        make(resources.CONF, ["tool=[]", FEW, *overrides])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: [a\nfamily: gpt\n", "mine.yaml:2: expected ',' or ']', but got ':'\n  hint: "),
        (b"name:\n\tfoo: x\n", "mine.yaml:2: found character '\\t' that cannot start any token"),
        (b"name: !foo bar\n", "mine.yaml:1: could not determine a constructor for the tag '!foo'"),
        (b"name: !!python/object/apply:os.system [ls]\n", "mine.yaml:1: could not determine a con"),
        (b"name: a\nname: b\n", "mine.yaml:2: found duplicate key name"),
        (b"name: a\n---\nname: b\n", "mine.yaml:2: "),
        (b"name: &a [*a]\n", "mine.yaml: its aliases (*NAME) stand for more than 100,000 values"),
        (
            b"".join(
                b"%c: &%c [%s]\n" % (i, i, b",".join([b"*%c" % (i - 1)] * 9)) for i in b"bcdefg"
            ).replace(b"*a", b"x"),
            "mine.yaml: its aliases (*NAME) stand for more than 100,000 values",
        ),
        (b"name: *x\n", "mine.yaml:1: found undefined alias 'x'"),
        (b"name: caf\xe9\n", "mine.yaml: not UTF-8: "),
        (b"\xff\xfen\x00", "mine.yaml: not UTF-8: "),
        (b"defaults: [nosuch]\n", "no model named 'nosuch'\n  hint: choose from: cnn_small, "),
        (b"defaults: [mine]\n", "the options of conf/ include one another without an end"),
        (b"7\n", "conf/model/mine.yaml: Invalid loaded object type: int"),
        (b"true\n", "conf/model/mine.yaml: Invalid loaded object type: bool"),
        (b"layers: ${nosuch.key}\n", "model.layers: no such key: nosuch.key"),
    ],
)
def test_a_file_of_the_users_that_cannot_be_read_is_named(tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf/model").mkdir(parents=True)
    (tmp_path / "conf/model/mine.yaml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        compose_all(resources.CONF, [FEW, "model=mine"])
    assert message in str(caught.value)


IN_FILES = {
    "model": [
        ("- a\n", "model: Input should be a valid dictionary, got ['a'] (conf/model/mine.yaml:1)"),
        ("", "model.name: must be a word that can name a folder (conf/model/mine.yaml:1)"),
        ("name: a\nfamily: gpt\nlayers: two\n", "got 'two' (conf/model/mine.yaml:3)"),
        ("layers: ${batch\n", "conf/model/mine.yaml:1: model.layers: '${batch': cannot be read"),
    ],
    "launcher": [
        ("name: python\nenv: [A]\n", "got ['A'] (conf/launcher/mine.yaml:2)"),
        ("name: python\nenv: {A: '${oc.env:B'}\n", "mine.yaml:2: launcher.env.A: '${oc.env:B': "),
    ],
    "experiment": [
        ("model: [a]\n", "conf/experiment/mine.yaml:2: model is a list and has to be a section (n"),
        ("tools: 3\n", "tools: Input should be a valid dictionary, got 3 (conf/experiment/mine"),
        ("batch: [2]\n", "got [2] (conf/experiment/mine.yaml:2)"),
        ("defaults: model\n", "conf/experiment/mine.yaml: defaults must be a list"),
        (
            "hydra:\n  sweeper:\n    params:\n      batch: '1,${st'\n",
            "conf/experiment/mine.yaml:5: hydra.sweeper.params.batch: '1,${st': cannot be read",
        ),
    ],
}


def mistake_in(folder, group, content, *overrides):
    """Return what is said of the option `mine` of `group` with `content`."""
    (folder / "conf" / group).mkdir(parents=True)
    header = "# @package _global_\n" if group == "experiment" else ""
    (folder / "conf" / group / "mine.yaml").write_text(header + content)
    with pytest.raises(ConfigError) as caught:
        make(resources.CONF, [f"{group}=mine", *overrides, "tool=[]", FEW])
    return str(caught.value)


@pytest.mark.parametrize(
    ("group", "content", "message"),
    [(group, *case) for group, cases in IN_FILES.items() for case in cases],
)
def test_a_mistake_in_a_file_of_the_users_is_named_with_its_line(
    tmp_path, monkeypatch, group, content, message
):
    monkeypatch.chdir(tmp_path)
    assert message in mistake_in(tmp_path, group, content)


def test_a_mistake_in_an_override_is_none_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = "name: a\nfamily: gpt\nlayers: 2\n"
    assert mistake_in(tmp_path, "model", good, "model.layers=two").endswith("got 'two'")


def test_an_analysis_brings_along_those_whose_results_it_reads():
    (one,) = compose_all(resources.CONF, ["analysis=[verdict]", "warmup_steps=5"])
    assert {"verdict", "causes"} <= set(one.values["analyses"])
    (alone,) = compose_all(resources.CONF, ["analysis=[causes]", "warmup_steps=5"])
    assert one.values["analyses"]["causes"] == alone.values["analyses"]["causes"]


@pytest.mark.parametrize(
    ("overrides", "note"),
    [
        ("batch=1 steps=3 batch=2", "batch is set 2 times, and the last counts: 2; a run for each"),
        ("++batch=1 batch=2", "a run for each is batch=1,2"),
        ("tool=nsys tool=[ncu,py_spy]", "[ncu,py_spy]; all of them are tool=[nsys,ncu,py_spy]"),
    ],
)
def test_a_key_that_is_set_twice_is_noted(overrides, note):
    (found,) = repeated(overrides.split())
    assert note in found


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("batch: 7\nseed: 1\n", True),
        ("batch: 7\nlr: 1\n", False),
        ("hydra: {}\n", False),
        ("- batch\n", False),
    ],
)
def test_a_main_file_of_the_users_is_noted_as_not_read(tmp_path, monkeypatch, text, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text(text)
    notes = list(own_files.unread_main())
    assert [note.startswith("conf/config.yaml is not read (batch, seed)") for note in notes] == [
        True
    ] * told


@pytest.mark.parametrize(
    "word", ["analysis=['']", "tool=['']", "analysis=[steps,'']", "tool=[' ']"]
)
def test_a_blank_name_in_a_list_is_refused(word):
    with pytest.raises(ConfigError, match="is chosen by name"):
        compose_all(resources.CONF, [word])


def test_what_is_added_or_said_again_is_not_noted():
    assert not list(repeated(["batch=2", "+tool=ncu", "+tool=nsys", "~x", "~y", "batch=2"]))


_LOADED = """
import sys
from profkit.cli import main
assert main(sys.argv[1:]) == 1
print(*{"pandas", "pyarrow"} & set(sys.modules))
"""


@pytest.mark.parametrize(
    "words",
    [
        ["run", "batch=0"],
        ["run", "world_size=1e9"],
        ["run", "model=gtp_tiny"],
        ["run", "imports=[nosuch]"],
        ["run", "report.title=a,b"],
        ["compare", "--a", "batch=0", "--b", "batch=2"],
    ],
    ids=" ".join,
)
def test_a_mistake_is_named_before_all_analyses_are_loaded(words, tmp_path):
    command = [sys.executable, "-c", _LOADED, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [], done.stderr
