"""References to secrets: nobody can look them up, and the values are for the user alone."""

import hashlib

import pytest

from profkit.core import secret_store
from profkit.core.errors import ConfigError


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.mark.parametrize("secret", ["hunter2", "a b\n'\"${x}", "ключ", "\udcff", "-" * 5000])
def test_a_secret_comes_back_from_its_reference(secret):
    reference = secret_store.reference(secret)
    asked = {"env": {"X": f"before {reference} after"}, "steps": 3, "words": [reference, None]}
    expected = {"env": {"X": f"before {secret} after"}, "steps": 3, "words": [secret, None]}
    assert secret_store.resolved(asked) == expected
    assert secret_store.secrets_of(f"-{reference}-", "none") == [secret]


def test_equal_secrets_have_one_reference_that_tells_nothing_of_them(state, monkeypatch):
    reference = secret_store.reference("hunter2")
    assert reference == secret_store.reference("hunter2")
    assert reference != secret_store.reference("hunter3")
    assert hashlib.sha256(b"hunter2").hexdigest()[:16] not in reference
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "of another"))
    assert secret_store.reference("hunter2") != reference


def test_only_the_user_can_read_what_is_kept(state):
    secret_store.reference("hunter2")
    files = [path for path in state.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert secret_store.folder().stat().st_mode & 0o777 == 0o700


def test_hiding_twice_is_hiding_once():
    text = "t.py --api-key hunter2 https://me:pass@h/x -u me:pass DB_PASSWORD=abc"
    hidden = secret_store.hiding({}).text(text)
    assert hidden.count("profkit-secret-") == 4
    assert secret_store.hiding({"MY_PASSWORD": "hunter2"}).text(hidden) == hidden
    assert secret_store.resolved(hidden) == text


def test_a_reference_from_elsewhere_is_named():
    reference = "profkit-secret-0123456789abcdef"
    assert secret_store.states(f"x {reference}") == {reference: False}
    with pytest.raises(ConfigError, match=f"{reference}: stands for a secret whose value is not"):
        secret_store.resolved(reference)


def test_a_folder_that_cannot_be_written_is_named(state):
    state.write_text("a file")
    with pytest.raises(ConfigError, match="XDG_STATE_HOME"):
        secret_store.reference("hunter2")
