"""The override grammar, through to plain configurations."""

import pytest

from profkit.core import resources
from profkit.core.errors import ConfigError
from profkit.planning.compose import compose_all


def composed(*overrides):
    return compose_all(resources.CONF, overrides)


def values(*overrides):
    (one,) = composed(*overrides)
    return one.values


DEFAULT = ["baseline", "torch_profiler", "memory_snapshot", "memory_layers"]


def test_the_default_has_the_tools_of_time_and_memory_and_every_analysis():
    default = values()
    assert list(default["tools"]) == DEFAULT
    assert {"steps", "operators", "breakdown"} <= set(default["analyses"])
    assert (default["batch"], default["world_size"], default["repeats"]) == (2, 2, 3)


@pytest.mark.parametrize(
    ("overrides", "tools"),
    [
        (["+tool=py_spy"], [*DEFAULT, "py_spy"]),
        (["tool=[py_spy]"], ["baseline", "py_spy"]),
        (["tool=py_spy"], ["baseline", "py_spy"]),
        (["~tools.memory_layers"], DEFAULT[:-1]),
        (["toolset=sampling"], ["baseline", "py_spy"]),
        (["+toolset=minimal"], ["baseline"]),
    ],
)
def test_tools_are_added_replaced_and_removed(overrides, tools):
    assert list(values("analysis=[steps]", *overrides)["tools"]) == tools


def test_a_field_of_a_tool_is_set():
    assert values("analysis=[steps]", "tools.torch_profiler.with_stack=true")["tools"][
        "torch_profiler"
    ]["with_stack"]


def test_a_sweep_is_the_product_of_its_axes_in_order():
    runs = composed("analysis=[steps]", "batch=1,2", "model=gpt_tiny,cnn_small", "seed=range(0,2)")
    found = [(run.values["batch"], run.values["model"]["name"], run.values["seed"]) for run in runs]
    assert found == [
        (batch, model, seed)
        for batch in (1, 2)
        for model in ("gpt_tiny", "cnn_small")
        for seed in (0, 1)
    ]
    assert runs[-1].overrides == ("analysis=[steps]", "batch=2", "model=cnn_small", "seed=1")


def test_glob_selects_every_option_of_a_group():
    names = {
        run.values["model"]["name"] for run in composed("analysis=[steps]", "model=glob(gpt*)")
    }
    assert names == {"gpt_tiny", "gpt_125m"}


def test_an_experiment_sweeps_unless_the_command_line_says_otherwise():
    assert [run.values["batch"] for run in composed("+experiment=batch_sweep")] == [1, 2, 4, 8]
    assert [run.values["batch"] for run in composed("experiment=batch_sweep", "batch=3")] == [3]


def test_a_swept_value_reaches_interpolations():
    runs = composed("warmup_steps=1,2")
    assert [run.values["analyses"]["steps"]["skip_first"] for run in runs] == [1, 2]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["bach=3"], "no such key: bach\n  hint: did you mean 'batch'"),
        (["launcher.env={A: b}"], "new keys are added, not set\n  hint: write +launcher.env=VALUE"),
        (["+tool=nsys,ncu"], "hint: name them in one list: +tool=[nsys,ncu]"),
        (["bach=3,4"], "no such key: bach\n  hint: did you mean 'batch'"),
        (["tools.torch_profiler.with_stak=true"], "did you mean 'tools.torch_profiler.with_stack'"),
        (["+tool=nsis"], "no tool named 'nsis'"),
        (["model=gpt_tny"], "no model named 'gpt_tny'\n  hint: did you mean 'gpt_tiny'"),
        (["batch=[1"], "cannot read 'batch=[1': "),
        (["tool=[torch_profiler]", "+tool=py_spy"], "has no effect beside tool="),
        (["tool=[nsys]", "+tool=nysy"], "no tool named 'nysy'\n  hint: did you mean 'nsys'"),
        (["+analysis=stepz"], "no analysis named 'stepz'\n  hint: did you mean 'steps'"),
        (["batch=interval(1,3)"], "continuous interval"),
        (["hydra.run.dir=x"], "hydra.run.dir=x: has no effect, as Hydra only composes"),
        (["hydra/launcher=joblib"], "has no effect, as Hydra only composes"),
        (
            ["+tool=ncu", "+tool=nsys"],
            "tool: added more than once\n  hint: name them in one list: +tool=[ncu,nsys]",
        ),
        (["model=cnn_small", "model.layers=1"], "no such key: model.layers\n  hint: choose from"),
    ],
)
def test_mistakes_are_named(overrides, message):
    with pytest.raises(ConfigError) as caught:
        composed("analysis=[steps]", *overrides)
    assert message in str(caught.value)


def test_options_of_ones_own_go_before_those_of_profkit_whatever_else_lies_there(
    tmp_path, monkeypatch
):
    model = tmp_path / "conf/model"
    model.mkdir(parents=True)
    (model / "gpt_tiny.yaml").write_text("name: gpt_tiny\nfamily: gpt\nlayers: 7\n")
    (model / "mine.yaml").write_text("defaults: [gpt_tiny]\nname: mine\n")
    # The configuration of a program that uses Hydra itself.
    (tmp_path / "conf/config.yaml").write_text("optimizer: adam\n")
    monkeypatch.chdir(tmp_path)
    composed = compose_all(resources.CONF, ["analysis=[steps]", "model=gpt_tiny,mine,cnn_small"])
    models = [run.values["model"] for run in composed]
    assert [model["name"] for model in models] == ["gpt_tiny", "mine", "cnn_small"]
    assert [model.get("layers") for model in models[:2]] == [7, 7]
    assert "optimizer" not in composed[0].values
