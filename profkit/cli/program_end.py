"""How the program of a run ended, as the records of its captures say."""

from collections.abc import Iterator, Sequence
from typing import Any

from profkit.core.capture_record import FAILED_AFTER

_UNPROFILED = "baseline"
_INTERRUPTED = "was interrupted"
_EARLY = ", maybe as profkit ended a part of it early (--all lets it run to its end)"
_SIGNALS = 128
"""What shells add to the number of the signal that ended a program."""


def exit_status(records: Sequence[dict[str, Any]]) -> int:
    """Return the status that the program ended with, in the first of the runs where it is not 0.

    `records` are those of its captures, in the order in which they were made. What failed under a
    tool alone may have failed for that, and what took too long was ended by profkit.
    """
    ended = (record for record in records if record["status"] == "ok" or _is_own_failure(record))
    status = next(filter(None, (record.get("exit_code") for record in ended)), 0)
    return status if status >= 0 else _SIGNALS - status


def _is_own_failure(record: dict[str, Any]) -> bool:
    return record.get("tool") == _UNPROFILED and record["status"] != "timeout"


def failures(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield how the program failed after what was recorded, each way once, and in which runs."""
    ways: dict[str, tuple[tuple[str, str], list[str]]] = {}
    for record in records:
        for text in record.get("warnings", ()):
            if text.startswith(FAILED_AFTER):
                rank, words = _by_rank(text.removeprefix(FAILED_AFTER), record["ranks"])
                status = f"exit status {exit_status([record])}"
                # Without an exception, the words end with the last line of its output.
                is_plain = words.startswith((status, "killed by signal"))
                key = rank + (status if is_plain else words)
                early = _EARLY if record.get("ended_early") else ""
                what = words.removeprefix(f"{status}: ")
                how = "ended", f" with {status}{early}: {rank}{what}"
                if record.get("interrupted"):
                    key, how = _INTERRUPTED, (_INTERRUPTED, "")
                ways.setdefault(key, (how, []))[1].append(record.get("tool", ""))
    good = [record.get("tool", "") for record in records if record["status"] == "ok"]
    for (verb, said), tools in ways.values():
        where = "" if tools == good else f" under {', '.join(dict.fromkeys(tools))}"
        yield f"The program {verb}{where}{said}"


def _by_rank(text: str, ranks: Sequence[str]) -> tuple[str, str]:
    """Return the label that `text` begins with, "" where there is only one rank, and the rest."""
    label = next((f"{rank}: " for rank in ranks if text.startswith(f"{rank}: ")), "")
    return label if len(ranks) > 1 else "", text.removeprefix(label)
