from dataclasses import dataclass
from typing import ClassVar

import pytest

from profkit.capture.base import Session
from profkit.capture.harness.record import mask_outputs


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording(Session):
    """A tool that keeps the environment."""

    files_with_environment: ClassVar = ("*.rep",)


@pytest.fixture(autouse=True)
def canary(monkeypatch):
    monkeypatch.setenv("MY_CANARY_SECRET", "canary-123")


def test_texts_of_a_capture_are_masked_and_it_is_said(tmp_path):
    (tmp_path / "capture.log").write_text("token canary-123\n")
    (tmp_path / "rank0_dp0_tp0_pp0.error.txt").write_text("ValueError: canary-123\n")
    (tmp_path / "rank0_dp0_tp0_pp0.txt").write_text("fine\n")
    assert mask_outputs.mask_files(tmp_path, Recording()) == [
        "what looks like a secret was masked in capture.log",
        "what looks like a secret was masked in rank0_dp0_tp0_pp0.error.txt",
    ]
    assert (tmp_path / "capture.log").read_text() == "token [masked]\n"
    assert (tmp_path / "rank0_dp0_tp0_pp0.error.txt").read_text() == "ValueError: [masked]\n"


def test_files_that_hold_the_environment_are_named_with_the_secrets_in_it(tmp_path, monkeypatch):
    for name in ("HF_TOKEN", "MY_CANARY_SECRET"):
        monkeypatch.setenv(name, "canary-123")
    for name in ("b.rep", "a.rep", "c.txt"):
        (tmp_path / name).write_text("")
    (warning,) = mask_outputs.mask_files(tmp_path, Recording())
    assert warning.startswith("a.rep, b.rep: holds all environment variables of the run, ")
    assert "HF_TOKEN, MY_CANARY_SECRET" in warning
    assert warning.endswith("among them; mind whom you give it to")


def test_a_record_is_masked_everywhere_and_warns_of_what_was_asked_for():
    record = {
        "command": ["python", "train.py", "--api-key", "abc"],
        "git": {"project": {"remote": "https://me:pass@example.org/x", "diff": "+canary-123"}},
        "elapsed_s": 1.5,
        "warnings": ["slow"],
    }
    assert mask_outputs.mask_record(record) == {
        "command": ["python", "train.py", "--api-key", "[masked]"],
        "git": {"project": {"remote": "https://[masked]@example.org/x", "diff": "+[masked]"}},
        "elapsed_s": 1.5,
        "warnings": [
            "slow",
            "what looks like a secret was masked in command",
        ],
    }
