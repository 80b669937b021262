"""Where a script's steps begin and end, and its phases, as PyTorch's global hooks show them."""

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

import torch
from torch import nn, optim
from torch._compile import _disable_dynamo
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from profkit import marks
from profkit.workloads.automatic.turns import Kind, Turns

_ENGINES = "deepspeed.runtime.engine"
_COMPILED = r"Using `torch\.compile\(module\)` when there are global hooks"


class Watch(ExitStack):
    """Marks what it sees while it is open.

    Training: a step ends when an optimizer has stepped, or would have, had its gradients been
    finite. Steps within a step (of the optimizer in an optimizer, of those in DeepSpeed's engine)
    are a part of it. Inference: each call of the outermost module with parameters is a step.
    """

    def __init__(self, kind: Kind, samples: int = -1) -> None:
        super().__init__()
        self.kind = kind
        self.samples = samples
        self.trains = kind == "optimizer"
        self.turns = Turns()
        self.open: list[object] = []
        self.is_in_turn = False
        self.thread = threading.get_ident()
        self.elsewhere: list[object] = []
        self.phase = ExitStack()
        self.knows_engine = False
        self.before_forward = self._before_forward
        self.hook = register_module_forward_pre_hook(self.before_forward)
        self.hook.remove()

    def __enter__(self) -> Self:
        """Install the hooks; they are gone when this closes."""
        warnings.filterwarnings("ignore", message=_COMPILED)
        self._look_at_forward()
        self.callback(self._look_away)
        self.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        self.callback(register_optimizer_step_post_hook(self._after_step).remove)
        self._replace(torch.amp.GradScaler, "_maybe_opt_step", self._whose_turn(1))
        self._replace(sys.modules["torch.multiprocessing.spawn"], "start_processes", _told_of)
        if marks.shows_phases():
            self._replace(torch.autograd, "backward", _in_backward)
        return self

    @contextmanager
    def turn(self, who: object) -> Iterator[None]:
        """Take what happens inside as one turn of `who`, whatever steps it is made of."""
        if self.is_in_turn:
            yield
            return
        self._begin_turn(who)
        self.is_in_turn = True
        try:
            yield
        finally:
            self.is_in_turn = False
        self._end_turn(who)

    # As a part of a compiled step, a hook would run while PyTorch compiles and never again.
    @_disable_dynamo
    def _before_step(self, optimizer: optim.Optimizer, args: object, kwargs: object) -> None:
        del args, kwargs
        self._meet_engine()
        if not self.is_in_turn:
            self._begin_turn(optimizer)

    @_disable_dynamo
    def _after_step(self, optimizer: optim.Optimizer, args: object, kwargs: object) -> None:
        del args, kwargs
        if not self.is_in_turn:
            self._end_turn(optimizer)

    def _begin_turn(self, who: object) -> None:
        if threading.get_ident() != self.thread:
            return
        self._catch_up()
        for index, each in enumerate(self.open):
            if each is who:
                # Its last turn ended with an exception, and those that it had opened with it.
                del self.open[index:]
                break
        if not self.open:
            self.phase.close()
            self.phase.enter_context(marks.observed_phase("optimizer"))
        self.open.append(who)

    def _end_turn(self, who: object) -> None:
        if threading.get_ident() != self.thread:
            # An optimizer within the backward pass steps on a thread of the device, and profilers
            # know borders of steps on this one only: the next forward pass is soon enough.
            self.elsewhere.append(who)
            self._look_at_forward()
            return
        while self.open and self.open.pop() is not who:
            pass
        if self.open:
            return
        self.phase.close()
        self._end_training(who)

    def _catch_up(self) -> None:
        """Take the turns that ended on other threads."""
        turns, self.elsewhere = self.elsewhere, []
        for who in turns:
            self._end_training(who)

    def _end_training(self, who: object) -> None:
        if self.kind in ("auto", "optimizer"):
            self._train()
            self._ended(who)

    def _train(self) -> None:
        """From the first step of an optimizer on, forward passes are no steps."""
        if self.trains:
            return
        self.trains = True
        if self.turns.steps:
            marks.note(
                f"The first {self.turns.steps} steps are forward passes, made before there was an "
                "optimizer: workload.step=optimizer leaves them out."
            )
        self.turns = Turns()

    def _ended(self, who: object) -> None:
        before = self.turns.steps
        if self.turns.joins(who) and before > 1:
            marks.note(
                f"From step {before} on, a step ends with {type(who).__name__}, which joined "
                f"then; leave the steps before it out: warmup_steps={before + 1}."
            )
        if self.turns.ended(who):
            marks.observed_step(self.samples)

    def _look_at_forward(self) -> None:
        """Hear of the next call of an outermost module; those inside it cost nothing."""
        # Compiled code depends on the number of the hook: a new one would mean to compile again.
        hooks: Any = self.hook.hooks_dict_ref()
        hooks[self.hook.id] = self.before_forward

    def _look_away(self) -> None:
        self.hook.remove()

    def _before_forward(self, module: nn.Module, args: object) -> None:
        # Constant while torch.compile looks: nothing of this is compiled.
        if torch.compiler.is_compiling():
            return
        del args
        if threading.get_ident() != self.thread or next(module.parameters(), None) is None:
            return
        self._look_away()
        self._meet_engine()
        self._catch_up()
        is_step = self._is_forward_a_step()
        # A validation before the training has no gradients.
        if is_step or (self.kind != "mark" and torch.is_grad_enabled()):
            marks.observed_begin()
        # Otherwise there is nothing more to be learnt from forward passes.
        if is_step or marks.shows_phases() or not marks.has_begun():
            phase = ExitStack()
            phase.enter_context(marks.observed_phase("forward"))
            _once_after(module, lambda: self._after_forward(module, phase, is_step=is_step))

    def _after_forward(self, module: nn.Module, phase: ExitStack, *, is_step: bool) -> None:
        phase.close()
        self._look_at_forward()
        if is_step:
            self._ended(module)

    def _is_forward_a_step(self) -> bool:
        if self.kind == "auto":
            return not self.trains and not _is_optimizer_made()
        return self.kind == "forward"

    def _meet_engine(self) -> None:
        """Take each step of DeepSpeed's engine as one turn, once the script has imported it."""
        engine = getattr(sys.modules.get(_ENGINES), "DeepSpeedEngine", None)
        if engine is None or self.knows_engine:
            return
        self.knows_engine = True
        if hasattr(engine, "_take_model_step"):
            self._replace(engine, "_take_model_step", self._whose_turn(0))
        else:
            marks.note("This DeepSpeed is not known: each step of its optimizers counts as one.")

    def _whose_turn(self, position: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return what makes a function a turn of its argument number `position`."""

        def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def taken(*args: Any, **kwargs: Any) -> Any:
                with self.turn(args[position]):
                    return original(*args, **kwargs)

            return taken

        return wrapper

    def _replace(
        self, owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        """Wrap the function `name` of `owner` until this closes."""
        original = getattr(owner, name)
        setattr(owner, name, wrapper(original))
        self.callback(setattr, owner, name, original)


def _once_after(module: nn.Module, act: Callable[[], None]) -> None:
    """Call `act` after the call of `module` that has just begun, even if it fails."""

    def hook(*args: object) -> None:
        del args
        handle.remove()
        act()

    handle = module.register_forward_hook(hook, always_call=True)


def _told_of(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `start_processes`, which also leaves a note: nobody looks at those processes."""

    @functools.wraps(original)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        marks.note(
            "The script starts processes itself with torch.multiprocessing.spawn, and profkit sees"
            " none of them: let the launcher start its ranks, launcher=torchrun for one."
        )
        return original(*args, **kwargs)

    return start_processes


def _in_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        with marks.observed_phase("backward"):
            return original(*args, **kwargs)

    return backward


def _is_optimizer_made() -> bool:
    """Say whether this process has made an optimizer: the first of a class hooks its step."""
    kinds: list[type[optim.Optimizer]] = [optim.Optimizer]
    while kinds:
        kind = kinds.pop()
        if getattr(kind.step, "hooked", False):
            return True
        kinds += kind.__subclasses__()
    return False
