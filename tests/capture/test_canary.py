"""A secret of a run, in its environment or its configuration, is in no file that profkit writes."""

import json
import re
import shlex

import pytest

from tests.canary import CANARIES, FORMS, inside, of_every_form
from tests.conftest import Tree, copy_project
from tests.core.secret_forms import SECRETS, lines_of

PRINTING = """
import os, re, sys, profkit
profkit.step(), profkit.step(), profkit.step(), profkit.step(), profkit.step(), profkit.step()
for number, form in enumerate(open("forms.txt").read().split("\\0")):
    print(form.replace("hunter2", f"pr1nted{number:03}f0b0"))
print("seen:", len(set(re.findall("c4n4ry..f0b0", f"{sys.argv} {os.environ}"))))
print(" ".join(sys.argv))
print(sys.argv)
print(dict(os.environ))
print(*(f"{name}={value}" for name, value in os.environ.items()), sep="\\n")
"""


@pytest.mark.parametrize("how", ["tell", "tell and raise"])
def test_a_program_that_prints_its_environment_leaves_no_secret_of_it(
    capture, misbehaving, tmp_path, monkeypatch, how
):
    monkeypatch.setenv("MY_CANARY_SECRET", "canary-5f0b0c3e")
    made = capture("baseline", tmp_path, {}, **misbehaving(how))
    files = [path for path in made.folder.iterdir() if path.is_file()]
    assert [path.name for path in files if b"canary-5f0b0c3e" in inside(path)] == []
    assert "MY_CANARY_SECRET" in (made.folder / "capture.log").read_text()
    assert "what looks like a secret was masked in capture.log" in made.record["warnings"]
    if "raise" in how:
        assert made.record["reason"].endswith("ValueError: bad token [masked]")
    assert "[masked]" in json.dumps(made.record) or made.record["status"] == "ok"


@pytest.mark.slow  # runs the pipeline
def test_what_is_written_below_the_folder_of_a_run_holds_no_secret_of_its_configuration(tmp_path):
    (tmp_path / "t.py").write_text(PRINTING)
    forms = [form for form in lines_of(SECRETS) if "hunter2" in form]
    (tmp_path / "forms.txt").write_text("\0".join(forms))
    copy_project(tmp_path)
    tree = Tree(tmp_path)
    overrides = shlex.join([*of_every_form("t.py"), "repeats=1"])
    command = ("--cores", "2", "results/report.html", "--config", f"overrides={overrides}")
    done = tree.run("snakemake", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    secrets = (*FORMS, CANARIES["MY_CANARY_SECRET"])
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"capture.log", "manifest.json", "report.html"} <= {path.name for path in files}
    assert any(".snakemake" in path.parts for path in files)
    contents = {path: inside(path) for path in files}
    found = [
        (str(path.relative_to(tmp_path)), secret)
        for path, content in contents.items()
        for secret in secrets
        if secret.encode() in content
    ]
    assert found == []
    printed = {str(path) for path, content in contents.items() if re.search(rb"pr1nted\d", content)}
    assert printed == set()
    (log,) = [content for path, content in contents.items() if path.name == "capture.log"]
    assert log.count(b"[masked]") > len(forms)
    assert f"seen: {len(FORMS)}".encode() in log
    assert "is fresh" in tree.run("profkit", "why", "results/report.html").stdout
