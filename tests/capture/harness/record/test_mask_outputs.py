from dataclasses import dataclass
from typing import ClassVar

from profkit.capture.base import Session
from profkit.capture.harness.record.mask_outputs import OutputMask
from profkit.core import secret_store


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording(Session):
    """A tool that keeps the environment."""

    files_with_environment: ClassVar = ("*.rep",)


MASK = OutputMask(
    environment={"HF_TOKEN": "canary-123", "LAUNCHED_TOKEN": "canary-456"}, secrets=["canary-789"]
)


def test_texts_of_a_capture_are_masked_and_it_is_said(tmp_path):
    (tmp_path / "capture.log").write_text("token canary-123, canary-789\n")
    (tmp_path / "rank0_dp0_tp0_pp0.error.txt").write_text("ValueError: canary-456\n")
    (tmp_path / "rank0_dp0_tp0_pp0.txt").write_text("fine\n")
    assert MASK.files(tmp_path, Recording()) == [
        "what looks like a secret was masked in capture.log",
        "what looks like a secret was masked in rank0_dp0_tp0_pp0.error.txt",
    ]
    assert (tmp_path / "capture.log").read_text() == "token [masked], [masked]\n"
    assert (tmp_path / "rank0_dp0_tp0_pp0.error.txt").read_text() == "ValueError: [masked]\n"


def test_files_that_hold_the_environment_are_named_with_the_secrets_in_it(tmp_path):
    for name in ("b.rep", "a.rep", "c.txt"):
        (tmp_path / name).write_text("")
    (warning,) = MASK.files(tmp_path, Recording())
    assert warning.startswith("a.rep, b.rep: holds all environment variables of the run, ")
    assert "HF_TOKEN, LAUNCHED_TOKEN" in warning
    assert warning.endswith("among them; share it with people who may see them only")


def test_a_record_is_masked_everywhere_and_keeps_references_in_what_was_asked_for():
    record = {
        "command": ["python", "train.py", "--api-key", "abc"],
        "workload": {"launcher": {"env": {"MYSQL_PWD": "xyz", "SIZE": "7"}}},
        "git": {"project": {"remote": "https://me:pass@example.org/x", "diff": "+canary-123"}},
        "elapsed_s": 1.5,
        "warnings": ["slow"],
    }
    assert MASK.record(record) == {
        "command": ["python", "train.py", "--api-key", secret_store.reference("abc")],
        "workload": {
            "launcher": {"env": {"MYSQL_PWD": secret_store.reference("xyz"), "SIZE": "7"}}
        },
        "git": {"project": {"remote": "https://[masked]@example.org/x", "diff": "+[masked]"}},
        "elapsed_s": 1.5,
        "warnings": [
            "slow",
            "what looks like a secret was masked in command",
            "what looks like a secret was masked in workload",
        ],
    }
