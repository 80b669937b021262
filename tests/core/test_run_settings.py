"""Settings of the whole run, on their way to a job."""

import argparse
import json

import pytest

from profkit.core import run_settings
from profkit.core.errors import ConfigError
from profkit.core.run_settings import RunSettings


def read(*argv):
    parser = argparse.ArgumentParser()
    run_settings.add_argument(parser)
    return parser.parse_args(argv).run_settings


def test_a_job_reads_what_the_plan_says():
    settings = RunSettings(timeout_s=9, exclusive=False, imports=("a", "b"))
    assert read(run_settings.FLAG, run_settings.as_argument(settings)) == settings


def test_settings_that_are_left_out_have_their_defaults():
    assert read() == RunSettings()
    assert read(run_settings.FLAG, '{"timeout_s": 9}') == RunSettings(timeout_s=9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "--run-settings is not JSON"),
        (
            '{"timeout": 9}',
            "no setting of the whole run named 'timeout'\n  hint: did you mean 'time",
        ),
        ('{"timeout_s": 0}', "--run-settings: Expected `int` >= 1 - at `$.timeout_s`"),
        ('{"memory_limit_mb": -1}', "--run-settings: Expected `int` >= 0 - at `$.memory_limit_mb`"),
        ('{"exclusive": 1}', "--run-settings: Expected `bool`, got `int` - at `$.exclusive`"),
    ],
)
def test_a_mistake_in_them_is_named(text, message):
    with pytest.raises(ConfigError) as caught:
        read(run_settings.FLAG, text)
    assert message in str(caught.value)


def test_the_text_of_equal_settings_is_equal():
    text = run_settings.as_argument(RunSettings())
    assert list(json.loads(text)) == sorted(run_settings.NAMES)
    assert text == run_settings.as_argument(run_settings.from_argument(text))
