"""Where the program's own thread is in Python, looked at every few ms from inside the process."""

import gc
import json
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

_PERIOD_S = 0.004
_MOST_COST = 0.008
"""Share of the time that sampling may take: where a look takes long, it looks less often."""

_TURN_S = 0.0005
_HANDOVER_S = 0.00002
_COLD = 3
_DEEPEST = 48
_MOST = 200_000

Position = tuple[int, int]
"""The `id` of the code that a frame runs, and the instruction: quicker to look up than a line."""


class PythonSamples:
    """Samples the stack of the thread that makes it, and notes the runs of the garbage collector.

    Times are Unix ns, as those of PyTorch's traces. What the thread does in C shows as the line
    that called it.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._tid = threading.get_native_id()
        self._is_done = False
        self._cost_s = 0.0
        self._switch_s = 0.0
        self._stacks: dict[tuple[Position, ...], int] = {}
        self._codes: dict[int, CodeType] = {}
        self._samples: list[tuple[int, int]] = []
        self._pauses: list[tuple[int, int]] = []
        self._collecting_since = 0
        self._sampler = threading.Thread(target=self._sample, name="profkit samples", daemon=True)

    def begin(self) -> None:
        """Start to sample."""
        gc.callbacks.append(self._collected)
        self._switch_s = sys.getswitchinterval()
        if threading.active_count() == 1:
            # Else a look waits for the 5 ms that threads take turns in, and then sees where the
            # program lets go of the interpreter. With threads of its own that would change it.
            sys.setswitchinterval(_TURN_S)
        self._sampler.start()

    def end(self) -> None:
        """Sample no more; nothing is left running."""
        if self._sampler.is_alive():
            self._is_done = True
            self._sampler.join()
            if sys.getswitchinterval() <= _TURN_S:
                sys.setswitchinterval(self._switch_s)
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)

    def write(self, path: Path) -> None:
        """Write what was sampled since the last time, as JSON, and forget it."""
        samples, self._samples = self._samples, []
        pauses, self._pauses = self._pauses, []
        # A look may add one meanwhile; a copy is made at once.
        stacks = {number: stack for stack, number in self._stacks.copy().items()}
        used = sorted({number for _, number in samples})
        position = {number: index for index, number in enumerate(used)}
        document = {
            "tid": self._tid,
            "cost_ns": round(self._cost_s * 1e9),
            "stacks": [[self._label(*position) for position in stacks[number]] for number in used],
            "samples": [[when, position[number]] for when, number in samples],
            "pauses": pauses,
        }
        path.write_text(json.dumps(document), encoding="utf-8")

    def _sample(self) -> None:
        looks, usual = 0, 0.0
        while not self._is_done and len(self._samples) < _MOST:
            # From here to the sleep the program's threads cannot run Python.
            began = time.thread_time()
            frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - documented
            stack = self._positions(frame)
            del frame
            number = self._stacks.setdefault(stack, len(self._stacks))
            self._samples.append((time.time_ns(), number))
            looks += 1
            cost = time.thread_time() - began + _HANDOVER_S
            self._cost_s += cost
            # The first looks are dearer than those that follow.
            usual = cost if looks <= _COLD else min(cost, (usual + cost) / 2)
            time.sleep(max(_PERIOD_S, usual / _MOST_COST))

    def _positions(self, frame: FrameType | None) -> tuple[Position, ...]:
        """Return where the frames are, from the innermost, of which the outermost may lack."""
        found: list[Position] = []
        while frame is not None and len(found) < _DEEPEST:
            code = frame.f_code
            # A code that lives cannot lend its `id` to another one.
            self._codes[id(code)] = code
            found.append((id(code), frame.f_lasti))
            frame = frame.f_back
        return tuple(found)

    def _label(self, code_id: int, instruction: int) -> str:
        """Return the frame as PyTorch's traces write one: file, line and function."""
        code = self._codes[code_id]
        return f"{_short(code.co_filename)}({_line(code, instruction)}): {code.co_name}"

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        del info
        now = time.time_ns()
        if phase == "start":
            self._collecting_since = now
        elif self._collecting_since and len(self._pauses) < _MOST:
            self._pauses.append((self._collecting_since, now))
            self._collecting_since = 0


def _line(code: CodeType, instruction: int) -> int:
    """Return the line of the program that an instruction belongs to."""
    lines = (line for start, end, line in code.co_lines() if start <= instruction < end)
    return next(lines, None) or code.co_firstlineno


def _short(path: str) -> str:
    """Return a path from the folder of packages that it lies in, as PyTorch's traces have it."""
    parents = [folder for folder in sys.path if folder and path.startswith(f"{folder}/")]
    return path[len(max(parents, key=len)) + 1 :] if parents else path
