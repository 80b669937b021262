"""A bound on the bytes that a rank records: its first recorded step says how many steps fit."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from profkit.capture.base import Rank
from profkit.core import progress_events
from profkit.core.formatting import counted, size

_VARIABLE = "PROFKIT_CAPTURE"
_SUFFIX = ".bytes.json"
_ANNOUNCED = "capture.predicted"
# What a few steps of a rank have never taken is not predicted: that costs a recording.
_LARGE_BYTES = 4 << 30


class BytesBound:
    """What one rank may record, and what it was predicted to."""

    def __init__(self, rank: Rank, asked: dict[str, Any] | None = None) -> None:
        # As text: followed programs have nothing that could check it.
        spec = json.loads(os.environ.get(_VARIABLE, "{}")) if asked is None else asked
        self.rank = rank
        self.share = int(spec.get("rank_bytes", 0))
        self.out = Path(spec.get("out", "."))
        self.about = {"run": Path(spec.get("out", "a/b/c/d")).parents[2].name}
        self.about |= {"name": spec.get("tool", ""), "repeat": spec.get("repeat", 0)}
        self.said: dict[str, float] = {}

    @property
    def is_close(self) -> bool:
        """Whether a few steps could take more than there is, so that it is worth predicting."""
        return 0 < self.share < _LARGE_BYTES

    def most(self, bytes_per_step: float, steps: int) -> int:
        """Return how many steps fit, at least one; `steps` are wanted, -1 if that is not known.

        The prediction is written down, and that of the first rank shown.
        """
        most = max(int(self.share / bytes_per_step), 1)
        self.said |= {"bytes_per_step": bytes_per_step, "steps": steps}
        self.said["kept_steps"] = min(steps, most)
        self._write()
        self._announce()
        return most

    def ended(self, made: int, kept: int) -> None:
        """Correct the prediction by how many steps there were, and how many were recorded."""
        if self.said:
            self.said |= {"steps": made, "kept_steps": kept}
            self._write()

    def _write(self) -> None:
        """Write the prediction beside the other files of the rank."""
        (self.out / f"{self.rank.label}{_SUFFIX}").write_text(json.dumps(self.said))

    def _announce(self) -> None:
        """Show the prediction, if this is the first rank that has one."""
        try:
            (self.out / _ANNOUNCED).open("x").close()
        except FileExistsError:
            return
        per_step, steps = self.said["bytes_per_step"], self.said["steps"]
        whole = f", {size(per_step * steps)} in {counted(int(steps), 'step')}" if steps > 0 else ""
        text = f"{size(per_step)} a step and rank predicted{whole}; {size(self.share)} fit"
        progress_events.emit("predicted", stage="capture", **self.about, text=text)


def collect(out: Path, max_bytes: int, recorded_bytes: int) -> dict[str, Any]:
    """Return what the ranks predicted, and what they recorded; removes their files."""
    (out / _ANNOUNCED).unlink(missing_ok=True)
    said = []
    for path in sorted(out.glob(f"*{_SUFFIX}")):
        said.append(json.loads(path.read_text()))
        path.unlink()
    found: dict[str, Any] = {"max_bytes": max_bytes, "recorded_bytes": recorded_bytes}
    if said:
        steps = max(one["steps"] for one in said)
        found["bytes_per_step_and_rank"] = round(max(one["bytes_per_step"] for one in said))
        if steps > 0:
            found["predicted_bytes"] = round(sum(one["bytes_per_step"] for one in said) * steps)
            found |= {"steps": steps, "kept_steps": min(one["kept_steps"] for one in said)}
    return found


def note(found: dict[str, Any], tool: str) -> Sequence[str]:
    """Return what was left out to keep the bound, or that it was not kept, for readers."""
    bound, lines = found["max_bytes"], []
    if found.get("kept_steps", 0) < found.get("steps", 0):
        lines.append(
            f"{tool} recorded {found['kept_steps']} of {counted(found['steps'], 'step')}: all would"
            f" have taken {size(found['predicted_bytes'])}, and max_bytes is {size(bound)}."
        )
    if bound and found["recorded_bytes"] > bound:
        lines.append(
            f"Raw files take {size(found['recorded_bytes'])}, more than max_bytes, {size(bound)}:"
            f" record fewer ranks or steps with {tool}."
        )
    return lines
