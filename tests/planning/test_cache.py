"""Plans that were made before: used again only while all that they depend on stays."""

import pytest

from profkit.core.errors import ConfigError, InputError
from profkit.planning import build, cache
from profkit.planning.model import Plan

SMALL = ("tool=[]", "analysis=[]", "world_size=1", "launcher=python")


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Return a function that loads a plan in a folder of its own, and a list of those made."""
    monkeypatch.chdir(tmp_path)
    made, make = [], build.make

    def counted(conf, overrides) -> Plan:
        made.append(overrides)
        return make(conf, overrides)

    monkeypatch.setattr(build, "make", counted)
    load = lambda *overrides: cache.load((*SMALL, *overrides)).runs[0]  # noqa: E731
    return load, made


def steps_in(folder, text):
    experiment = folder / "conf/experiment"
    experiment.mkdir(parents=True, exist_ok=True)
    (experiment / "mine.yaml").write_text(f"# @package _global_\nsteps: {text}\n")


def test_another_value_of_an_environment_variable_is_another_plan(loaded, tmp_path, monkeypatch):
    load, made = loaded
    steps_in(tmp_path, "${oc.decode:${oc.env:MM,${oc.env:NN}}}")
    monkeypatch.setenv("NN", "5")
    first = load("experiment=mine")
    assert first.behaviour["steps"] == 5
    assert load("experiment=mine") == first
    assert len(made) == 1, "the same plan is made once"
    monkeypatch.setenv("NN", "6")
    assert load("experiment=mine").behaviour["steps"] == 6
    assert load("experiment=mine").name != first.name
    monkeypatch.setenv("MM", "7")
    assert load("experiment=mine").behaviour["steps"] == 7, "a default holds while it is not set"


def test_a_file_behind_a_link_to_a_folder_counts_and_what_is_no_file_does_not(loaded, tmp_path):
    load, _ = loaded
    steps_in(tmp_path / "elsewhere", "7")
    (tmp_path / "conf/dir.yaml").mkdir(parents=True)
    (tmp_path / "conf/dangling.yaml").symlink_to("nowhere")
    (tmp_path / "conf/experiment").symlink_to(tmp_path / "elsewhere/conf/experiment")
    assert load("experiment=mine").behaviour["steps"] == 7
    steps_in(tmp_path / "elsewhere", "8")
    assert load("experiment=mine").behaviour["steps"] == 8


def test_a_plan_of_a_script_that_is_gone_is_a_mistake(loaded, tmp_path):
    load, _ = loaded
    (tmp_path / "train.py").write_text("")
    script = ("workload=script", "workload.command=train.py")
    load(*script)
    (tmp_path / "train.py").unlink()
    with pytest.raises(ConfigError, match="no such script"):
        load(*script)


@pytest.mark.parametrize("content", [b'{"plan": {"runs', b"\xff"])
def test_a_damaged_plan_is_made_again(loaded, tmp_path, content):
    load, made = loaded
    first = load()
    (path,) = (tmp_path / cache.CACHE).iterdir()
    path.write_bytes(content)
    assert load() == first
    assert len(made) == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "steps=${oc.env:NOSUCH}",
            "steps: the environment variable NOSUCH is not set\n  hint: set",
        ),
        ("model=${oc.env:NOSUCH}", "the environment variable NOSUCH is not set\n  hint: set it"),
        ("batch=${oc.env:NOSUCH},2", "batch: the environment variable NOSUCH is not set"),
        ("seed=${now:%S}", "seed: ${now:%S}: each job reads the plan, which must be the same at"),
    ],
)
def test_a_variable_that_is_not_set_and_the_time_are_refused(loaded, override, message):
    load, _ = loaded
    with pytest.raises(ConfigError) as caught:
        load(override)
    assert message in str(caught.value)


def test_compiled_code_that_another_process_writes_is_no_source(tmp_path):
    source, half = tmp_path / "a.py", tmp_path / "__pycache__/a.cpython-311.pyc.139774651201328"
    half.parent.mkdir()
    for path in (source, half):
        path.touch()
    assert cache._sources(tmp_path) == [source]


def test_jobs_elsewhere_read_a_plan_by_the_hash_of_its_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = cache.load(SMALL)
    name = cache.keep_for_jobs(plan)
    assert cache.of_job(name) == plan
    assert cache.keep_for_jobs(plan) == name


@pytest.mark.parametrize("name", ["0" * 24, "../plans/x"])
def test_a_plan_that_a_job_cannot_find_is_named(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"no plan '{name}'"):
        cache.of_job(name)
