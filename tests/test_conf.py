"""``conf/`` and the dataclasses that read it say the same thing."""

from dataclasses import fields

import pytest
from omegaconf import OmegaConf
from pydantic import TypeAdapter

from profkit.capture import tools
from profkit.capture.launchers import launchers
from profkit.core import resources
from profkit.core.hardware import Hardware
from profkit.planning.build import settings_class
from profkit.planning.configuration import Configuration
from profkit.testing.settings_contract import described
from profkit.workloads.runtime.request import Request, without_choices

GROUPS = ("workload", "model", "zero", "launcher")
FILES = {
    f"{group}/{path.stem}": path
    for group in GROUPS
    for path in sorted((resources.CONF / group).glob("*.yaml"))
}


def written(path):
    return OmegaConf.to_container(OmegaConf.load(path), resolve=False)


def defaults(kind):
    dumped = TypeAdapter(kind).dump_python(kind(), mode="json")
    # A key may be left out of what identifies a run, while it has its empty default.
    left_out = {field.name for field in fields(kind)} - set(dumped)
    return {name: list(getattr(kind(), name)) for name in left_out} | dumped


@pytest.mark.parametrize("name", tools())
def test_a_tool_spells_out_every_default(name):
    values = written(resources.CONF / "tool" / f"{name}.yaml")
    # The top-level key of this name sets it for all tools.
    assert {"ranks": "all"} | values == defaults(tools()[name])


@pytest.mark.parametrize("name", launchers())
def test_a_launcher_spells_out_every_default(name):
    values = written(resources.CONF / "launcher" / f"{name}.yaml")
    assert values == {"name": name, **defaults(launchers()[name])}


@pytest.mark.parametrize("name", FILES)
def test_a_choice_names_itself_and_every_setting_of_its_kind(name):
    group, choice = name.split("/")
    values = written(FILES[name])
    # One that also chooses in other groups is written from the top.
    values = values.get(group, values)
    assert values["name"] == choice
    kind = settings_class(group, values.get("family", choice))
    assert set(without_choices(values)) == set(defaults(kind))


@pytest.mark.parametrize("path", sorted((resources.CONF / "hardware").glob("*.yaml")), ids=str)
def test_hardware_spells_out_every_field(path):
    assert set(written(path)) == set(defaults(Hardware))


def test_the_top_spells_out_every_field_and_default():
    values = written(resources.CONF / "config.yaml")
    values.pop("defaults")
    expected = {key: value for key, value in defaults(Configuration).items() if key in values}
    assert values | {"world_size": 1} == expected
    assert set(defaults(Configuration)) - set(values) == {*GROUPS, "hardware", "report"}


@pytest.mark.parametrize(
    "kind", [Request, Configuration, Hardware, *tools().values(), *launchers().values()], ids=str
)
def test_every_setting_has_a_default_and_a_description(kind):
    schema = described(kind)
    assert schema.get("required", []) == []
    own = [field.name for field in fields(kind) if field.name in kind.__annotations__]
    properties = {key: schema["properties"][key] for key in own}
    assert [key for key, value in properties.items() if "description" not in value] == []


@pytest.mark.parametrize("path", sorted(resources.CONF.rglob("*.yaml")), ids=str)
def test_every_file_says_in_a_comment_what_it_is(path):
    comments = [line for line in path.read_text().splitlines()[:2] if line.startswith("#")]
    assert [line for line in comments if "@package" not in line]
