"""memory_layers: what each layer holds, by category, at chosen points of chosen steps."""

import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from profkit.capture.base import Rank, Recorder, Session
from profkit.core.bounds import NonNegativeInt
from profkit.core.formatting import counted

if TYPE_CHECKING:
    from torch import nn

    from profkit.capture.model_memory.owned_tensors import ModuleIndex

Point = Literal["set_up", "forward", "backward", "optimizer"]

SCHEMA_VERSION = 1
_SUFFIX = ".layers.json"
_ENGINE_STEP = "_take_model_step"


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture(Session):
    """Count parameters, gradients, optimizer states, masters, activations and the rest.

    Bytes are those of this rank: of its shards, not of whole tensors, and shared memory counts
    once. Activations are the tensors that autograd saves, for any module.
    """

    outputs: ClassVar = (f"*{_SUFFIX}",)
    is_of_one_thread: ClassVar = True
    is_repeated: ClassVar = False
    explains_out_of_memory: ClassVar = True

    steps: tuple[NonNegativeInt, ...] = (0, 2)
    """Steps that are looked at; optimizers make their states in the first. Each costs time."""

    points: tuple[Point, ...] = ("set_up", "forward", "backward", "optimizer")
    """When: before the first step; before the backward pass that most is saved for; before the
    optimizer first steps; at the end of the step."""

    activations: bool = True
    """List tensors that autograd saves; off for programs with torch.func, which forbids that.
    Compiled code is compiled once more for it."""

    others: bool = True
    """Count tensors that are none of these, such as batches, as far as Python can see them."""

    def check(self, steps: int) -> str:
        """See `Tool.check`."""
        if "set_up" in self.points or any(step < steps for step in self.steps):
            return ""
        listed, run = list(self.steps), counted(steps, "step")
        return f"steps={listed} are all beyond the end: the workload runs {run}"

    @contextmanager
    def record(self, out: Path, rank: Rank) -> Iterator[Recorder]:
        """See `Session.record`."""
        recording = _Recording(self)
        try:
            with recording.watching():
                yield recording
        finally:
            recording.end()
            document = {"schema_version": SCHEMA_VERSION, "label": rank.label, "rank": rank.rank}
            text = json.dumps({**document, **recording.written()}, separators=(",", ":"))
            (out / f"{rank.label}{_SUFFIX}").write_text(text + "\n", encoding="utf-8")


class _Recording:
    """Takes an account of memory at each point of the settings."""

    def __init__(self, settings: Capture) -> None:
        from profkit.capture.model_memory.live_objects import LiveObjects
        from profkit.capture.model_memory.saved_tensors import SavedTensors

        self.settings = settings
        self.live_objects = LiveObjects()
        self.saved = SavedTensors()
        self.step_index = 0
        self.open = ExitStack()
        self.is_looking = False
        self.most_saved = -1
        self.states: dict[tuple[int, str], dict[str, Any]] = {}
        self.classes: dict[str, dict[str, str]] = {}

    def begin(self) -> None:
        """See `Recorder.begin`."""
        self.take("set_up", step=-1)
        self._enter()

    def step(self) -> None:
        """See `Recorder.step`."""
        if self.is_looking:
            self.take("optimizer")
            self.end()
        self.step_index += 1
        self._enter()

    def end(self) -> None:
        """Stop recording this step."""
        self.is_looking = False
        self.open.close()

    def _enter(self) -> None:
        if self.step_index not in self.settings.steps:
            return
        self.is_looking, self.most_saved = True, -1
        if self.settings.activations:
            self.open.enter_context(self.saved.hooks())
        self.live_objects.refresh()
        self.live_objects.release_tensors()
        for model in list(self.live_objects.models):
            if hasattr(model, _ENGINE_STEP):
                self._listen_to_engine(model)

    def take(self, point: Point, step: int | None = None) -> None:
        """Take an account of memory now, if `point` is one of the settings'."""
        from profkit.capture.model_memory import memory_account

        if point not in self.settings.points:
            return
        begun = time.time_ns()
        account, index = memory_account.take_account(
            self.live_objects, self.saved, others=self.settings.others
        )
        at = self.step_index if step is None else step
        self.states[at, point] = {
            "step": at,
            "point": point,
            "time_ns": begun,
            "took_ns": time.time_ns() - begun,
            "rows": account.as_lists(),
        }
        self._name_classes(index)

    def _name_classes(self, index: "ModuleIndex") -> None:
        from profkit.capture.model_memory.owned_tensors import unwrap

        for name, model in self.live_objects.named_models().items():
            known = self.classes.setdefault(name, {})
            for module in unwrap(model).modules():
                if found := index.path_by_module.get(id(module)):
                    known[found.path] = type(module).__name__

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Install hooks for forward and backward passes and for optimizers.

        They stay for the whole run: code that was compiled without them would be compiled again.
        """
        import torch
        from torch.nn.modules import module as modules
        from torch.optim import optimizer as optimizers

        backward = torch.autograd.backward
        with ExitStack() as hooks:
            before = modules.register_module_forward_pre_hook(self._before_forward)
            hooks.callback(before.remove)
            after = modules.register_module_forward_hook(self._after_forward, always_call=True)
            hooks.callback(after.remove)
            stepping = optimizers.register_optimizer_step_pre_hook(self._before_optimizer)
            hooks.callback(stepping.remove)
            torch.autograd.backward = self._before_backward(backward)
            hooks.callback(setattr, torch.autograd, "backward", backward)
            yield

    def _before_forward(self, module: "nn.Module", args: object) -> None:
        import torch

        del args
        # Constant while torch.compile traces: a compiled module counts as a part of its caller.
        if torch.compiler.is_compiling() or not self.is_looking:
            return
        if self.saved.is_outside():
            self.live_objects.add_models(module)
        self.saved.enter(module)

    def _after_forward(self, module: "nn.Module", args: object, output: object) -> None:
        import torch

        del args, output
        if torch.compiler.is_compiling() or not self.is_looking:
            return
        self.saved.leave(module)
        if self.saved.is_outside() and not torch.is_grad_enabled():
            self._forward_ended()

    def _before_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._forward_ended()
            return original(*args, **kwargs)

        return backward

    def _forward_ended(self) -> None:
        """Take the account of the forward pass, unless an earlier one of the step saved more."""
        if not self.is_looking:
            return
        size = self.saved.size_bytes()
        if size > self.most_saved:
            self.most_saved = size
            self.take("forward")

    def _before_optimizer(self, optimizer: Any, args: object, kwargs: object) -> None:
        del args, kwargs
        import torch

        if torch.compiler.is_compiling() or not self.is_looking:
            return
        self.live_objects.optimizers.add(optimizer)
        self._backward_ended()

    def _backward_ended(self) -> None:
        if (self.step_index, "backward") not in self.states:
            self.take("backward")

    def _listen_to_engine(self, engine: Any) -> None:
        """Wrap DeepSpeed's step, to see the gradients before it uses them."""
        original = getattr(engine, _ENGINE_STEP)

        def stepped(*args: Any, **kwargs: Any) -> Any:
            self._backward_ended()
            return original(*args, **kwargs)

        # On this engine alone, so that others can wrap and restore the method of the class.
        vars(engine)[_ENGINE_STEP] = stepped
        self.open.callback(vars(engine).pop, _ENGINE_STEP)

    def written(self) -> dict[str, Any]:
        """Return the content of the JSON file."""
        states = sorted(self.states.values(), key=lambda state: state["time_ns"])
        return {"models": self.classes, "states": states}
