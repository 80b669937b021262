"""Settings that a script never reads are told, and how often it runs."""

import pytest

from profkit.core import resources
from profkit.planning.compose import compose_all
from profkit.planning.model import Run, ToolPlan
from profkit.planning.script_notes import repeated, unread, without_effect
from profkit.workloads.script import Workload as Script
from profkit.workloads.train import Workload as Train


def told(command, *overrides, workload=None):
    """Return the settings of which a note says that they have no effect."""
    words = ["analysis=[steps]", "workload=script", f"workload.command='{command}'", *overrides]
    found = [
        note.partition(" has no effect")[0]
        for composed in compose_all(resources.CONF, words)
        for note in without_effect(composed, unread(composed, workload or Script(command=command)))
    ]
    return set(found)


@pytest.mark.parametrize(
    ("command", "overrides", "names"),
    [
        ("s.py", ["batch=4", "zero=zero2", "steps=20"], "batch zero steps"),
        ("s.py --b ${batch}", ["batch=2,4", "seed=1,2"], "seed"),
        ("s.py --stage ${zero.stage}", ["zero=zero2", "zero.offload=cpu"], ""),
        ("s.py", ["batch=4", "+launcher.env.B=${batch}"], ""),
        ("s.py", ["batch=4", "workload.samples=${batch}"], "batch"),
        ("s.py ${mine}", ["+mine=${batch}", "batch=4", "seed=2"], "seed"),
        ("s.py ${..batch}", ["batch=4", "seed=2"], "seed"),
        ("s.py", ["batch=4", "+launcher.env.HOME=${oc.env:HOME}"], "batch"),
        ("s.py", ["world_size=4", "model=none", "zero=none", "timeout_s=9"], ""),
    ],
)
def test_a_setting_is_read_by_a_script_through_its_command_or_environment(
    command, overrides, names
):
    assert told(command, *overrides) == set(names.split())


def test_a_program_that_reads_the_configuration_needs_no_note():
    assert told("s.py", "batch=4", workload=Train()) == set()


def test_what_a_script_repeats_in_each_capture_is_said_once():
    plans = {
        "baseline": ToolPlan(tables=(), code="", repeats=3),
        "nsys": ToolPlan(tables=(), code="", repeats=1),
    }
    of_script = run({"workload": {"name": "script", "command": "s.py"}}, plans)
    of_train = run({"workload": {"name": "train"}}, plans)
    (note,) = repeated([of_script, of_script, of_train], plans)
    assert note == (
        "the script runs once for each of the 8 captures: it writes its files, such as"
        " checkpoints, and asks for input each time"
    )
    assert list(repeated([of_train], plans)) == []
    assert list(repeated([run({"imported": "trace"}, plans)], plans)) == []


def run(behaviour, plans):
    tools = {name: {} for name in plans}
    return Run(name="r", behaviour=behaviour, hardware={}, tools=tools, analyses={}, overrides=())


def test_the_note_says_what_to_write():
    (composed,) = compose_all(resources.CONF, ["analysis=[steps]", "workload=script", "zero=zero3"])
    (note,) = without_effect(composed, unread(composed, Script(command="s.py")))
    assert note == (
        "zero has no effect: the script gets its command and its environment alone; write"
        " ${zero.stage} into the command, or leave zero out"
    )
