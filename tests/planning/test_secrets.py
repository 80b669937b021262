"""A plan leaves the main process with references in the place of secrets."""

import json

import msgspec
import pytest

from profkit.core import secret_store
from profkit.core.errors import ConfigError
from profkit.dag import inputs as dags
from profkit.dag.overrides import last_overrides
from profkit.dag.staleness import Wildcards
from profkit.planning import cache
from tests.canary import CANARIES, FORMS, of_every_form

SECRET = CANARIES["MY_CANARY_SECRET"]
FEW = ["analysis=[steps]", "tool=[]"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_CANARY_SECRET", SECRET)
    (tmp_path / "t.py").touch()


def test_no_file_and_no_param_has_a_secret_and_a_capture_gets_all_back(tmp_path):
    dag = dags.load(of_every_form("t.py"))
    wildcards = Wildcards(dag.plan.runs[0].name)
    params = [dag.workload(wildcards), dag.about(wildcards), json.dumps(dag.plan.report)]
    dag.selection()
    files = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    written = "\n".join([*params, *files])
    assert [canary for canary in (*FORMS, SECRET) if canary in written] == []
    asked = json.dumps(secret_store.resolved(params))
    assert [canary for canary in (*FORMS, SECRET) if canary not in asked] == []
    again = dags.load(list(last_overrides()))
    assert msgspec.json.encode(again.plan) == msgspec.json.encode(dag.plan)


def test_another_secret_is_another_run():
    def name(secret):
        return cache.load([f"+launcher.env.DB_PASSWORD={secret}", *FEW]).runs[0].name

    assert name("one") != name("two")


def test_a_secret_is_hidden_in_other_words_as_well():
    given = "--password s3cret77 --out runs/s3cret77/x --word=s3cret77-b"
    words = ["workload=script", f"workload.command='t.py {given}'", "launcher=python"]
    plan = cache.load([*words, "world_size=1", *FEW])
    assert "s3cret77" not in msgspec.json.encode(plan).decode()
    command = secret_store.resolved(plan.runs[0].behaviour)["workload"]["command"]
    assert command == f"t.py {given}"


def test_a_plan_whose_secrets_were_deleted_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    words = [f"+launcher.env.DB_PASSWORD={SECRET}", *FEW]
    kept = cache.load(words)
    for path in secret_store.folder().glob("[0-9a-f]*"):
        path.unlink()
    assert cache.load(words) == kept
    assert SECRET in secret_store.resolved(kept.runs[0].behaviour)["launcher"]["env"].values()


def test_what_is_no_secret_stays_as_it_was(monkeypatch):
    monkeypatch.setenv("OWN_PASSWORD", "python")
    arguments = "--max_new_tokens=20 --tokenizer=gpt2 --token-budget 512 --sort_key name"
    words = ["workload=script", f"workload.command='t.py {arguments} --auth-type none'"]
    words += ["+launcher.env={OMP_NUM_THREADS:1,MODE:fast,SORT_KEY:name}", "hardware=h100_sxm"]
    words += ["launcher=python", "world_size=1"]
    plan = cache.load([*words, "report.title='Tokens: key results'", *FEW])
    assert "profkit-secret" not in msgspec.json.encode(plan).decode()


@pytest.mark.parametrize("value", ["[{}]", "{{password:{}}}"])
def test_a_value_that_does_not_fit_is_shown_without_its_secret(value):
    with pytest.raises(ConfigError) as caught:
        cache.load([f"+launcher.env.DB_PASSWORD={value.format('hunter2')}", *FEW])
    assert "launcher.env.DB_PASSWORD" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_word_is_hidden_where_it_comes_from_a_secret_variable(monkeypatch):
    monkeypatch.setenv("OWN_PASSWORD", "postgres")
    (run,) = cache.load(["+launcher.env.MODE=${oc.env:OWN_PASSWORD}", *FEW]).runs
    reference = run.behaviour["launcher"]["env"]["MODE"]
    assert secret_store.resolved(reference) == "postgres" != reference
