from pathlib import Path

import yaml
from pydantic import TypeAdapter

from profkit.report.settings import Settings

CONF = Path(__file__).parents[2] / "conf" / "report" / "default.yaml"


def test_the_yaml_spells_out_every_default():
    assert yaml.safe_load(CONF.read_text()) == TypeAdapter(Settings).dump_python(
        Settings(), mode="json"
    )


def test_the_yaml_says_where_it_belongs():
    assert CONF.read_text().splitlines()[0] == "# @package report"
