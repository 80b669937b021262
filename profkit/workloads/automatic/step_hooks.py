"""Find the steps and phases of a script by PyTorch's global hooks."""

import functools
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
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
from profkit.core.formatting import counted
from profkit.workloads.automatic.called_modules import (
    arguments,
    has_weights,
    is_in_module,
    once_after,
)
from profkit.workloads.automatic.forward_passes import ForwardPasses
from profkit.workloads.automatic.step_ends import Round, StepEnds, StepKind

_ENGINES = "deepspeed.runtime.engine"
_MANY_PASSES, _MANY_IN_TRAINING = 1_000, 100_000
"""An evaluation before a training has fewer, mostly: after as many, none is waited for."""

_COMPILED = r"Using `torch\.compile\(module\)` when there are global hooks"


class StepHooks(ExitStack):
    """Marks steps and phases while it is open.

    Training: a step ends when an optimizer has stepped, or when a GradScaler has skipped that for
    infinite gradients. Optimizers inside an optimizer or inside DeepSpeed's engine are parts of
    its step. Inference: each call of the outermost module with weights is a step, on any thread, as
    servers answer on several; also behind `_MANY_PASSES` in which an optimizer has not stepped, or
    `_MANY_IN_TRAINING` if the module is in training, as one that plays many moves for each update.
    With neither, as where tensors are updated by hand, a step ends with each backward pass.

    Steps of a training are those of one thread: the one that makes the model, or another one that
    calls a module with gradients first.
    """

    def __init__(
        self, kind: StepKind, samples: int = -1, expected_round: Round | None = None
    ) -> None:
        super().__init__()
        self.kind = kind
        self.samples = samples
        self.expected_round = expected_round
        self.is_training = kind == "optimizer"
        self.first_passes = 0
        self.unstepped_passes = 0
        """Calls of a model, while there is an optimizer that has made no step."""
        self.waits_for_optimizer = True
        self.step_ends = StepEnds(expected_round, has_rounds=self.is_training)
        self.passes = ForwardPasses()
        self.open: list[object] = []
        self.is_in_update = False
        self.thread = threading.get_ident()
        self.has_found_thread = False
        self.calling_threads: set[int] = set()
        self.has_several_threads = False
        self.lock = threading.RLock()
        self.ended_on_other_threads: list[object] = []
        self.phase = ExitStack()
        self.has_found_engine = False
        self.has_called_module = False
        self.before_forward = self._before_forward
        self.hook = register_module_forward_pre_hook(self.before_forward)
        self.hook.remove()

    def __enter__(self) -> Self:
        """Install the hooks; they are gone when this closes."""
        warnings.filterwarnings("ignore", message=_COMPILED)
        self._watch_next_forward()
        self.callback(self._ignore_forward)
        self.callback(self._note_late)
        self.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        self.callback(register_optimizer_step_post_hook(self._after_step).remove)
        self._replace(torch.amp.GradScaler, "_maybe_opt_step", self._as_update_of(1))
        self._replace(torch.autograd, "backward", self._as_backward)
        return self

    @property
    def step_is(self) -> str:
        """What the steps are, if none of an optimizer and no marks of the script's own, or ""."""
        is_observed = self.step_ends.steps and not (self.is_training or marks.has_own_steps())
        if not is_observed:
            return ""
        return "forward pass" if self.has_called_module else "backward pass"

    @contextmanager
    def one_update(self, called: object) -> Iterator[None]:
        """Count all optimizer steps inside as one update of `called`."""
        if self.is_in_update:
            yield
            return
        self._begin_update(called)
        self.is_in_update = True
        try:
            yield
        finally:
            self.is_in_update = False
        self._end_update(called)

    # As a part of a compiled step, a hook would run while PyTorch compiles and never again.
    @_disable_dynamo
    def _before_step(self, optimizer: optim.Optimizer, args: object, kwargs: object) -> None:
        del args, kwargs
        self._find_engine()
        if not self.is_in_update:
            self._begin_update(optimizer)

    @_disable_dynamo
    def _after_step(self, optimizer: optim.Optimizer, args: object, kwargs: object) -> None:
        del args, kwargs
        if not self.is_in_update:
            self._end_update(optimizer)

    def _begin_update(self, called: object) -> None:
        if threading.get_ident() != self.thread:
            return
        self._catch_up()
        for index, opened in enumerate(self.open):
            if opened is called:
                # Its last update ended with an exception, and so did the updates inside it.
                del self.open[index:]
                break
        if not self.open:
            self.phase.close()
            self.phase.enter_context(marks.observed_phase("optimizer"))
        self.open.append(called)

    def _end_update(self, called: object) -> None:
        if threading.get_ident() != self.thread:
            # An optimizer within the backward pass steps on autograd's thread, and profilers see
            # step boundaries of this thread only: the next forward pass is soon enough.
            self.ended_on_other_threads.append(called)
            self._watch_next_forward()
            return
        while self.open and self.open.pop() is not called:
            pass
        if self.open:
            return
        self.phase.close()
        self._end_optimizer_call(called)

    def _catch_up(self) -> None:
        """Count the updates that ended on other threads."""
        updated, self.ended_on_other_threads = self.ended_on_other_threads, []
        for called in updated:
            self._end_optimizer_call(called)

    def _end_optimizer_call(self, called: object) -> None:
        if self.kind in ("auto", "optimizer"):
            self._begin_training()
            self._end_call(called)

    def _begin_training(self) -> None:
        """Stop counting forward passes, at the first step of an optimizer."""
        if self.is_training:
            return
        self.is_training = True
        self.first_passes = self.step_ends.steps
        if self.first_passes:
            times = counted(self.first_passes, "time")
            marks.note(
                f"The model was called {times} before there was an optimizer: that is a part of"
                " the first step."
            )
        self.step_ends = StepEnds(self.expected_round)

    def _end_call(self, called: object) -> None:
        was_confirmed = self.step_ends.steps and self.step_ends.confirmed
        # Each thread of a server may have a model of its own.
        is_alike = self.has_several_threads and not self.is_training
        if not self.step_ends.ends_step(type(called) if is_alike else called):
            return
        if self.is_training:
            self.passes.end_step(is_whole=len(self.step_ends.names) == 1)
        marks.observed_step(self.samples)
        if self.is_training and self.first_passes and self.step_ends.steps == 1:
            marks.observed_join(self.first_passes + 1, 0)
        if self.step_ends.joined is not None:
            marks.observed_join(*self.step_ends.joined)
        if self.step_ends.confirmed and not was_confirmed:
            self._note_round(self.step_ends.confirmed)
        self._watch_next_forward()

    def _note_round(self, step: Round) -> None:
        """Say so if an optimizer is called several times in a step of several."""
        if max(step.calls) > 1:
            alike = Counter(zip(step.calls, self.step_ends.names, strict=True))
            parts = [
                f"{counted(count, 'call')} of {name if number == 1 else f'each of {number} {name}'}"
                for (count, name), number in alike.items()
            ]
            marks.note(
                f"Several optimizers take turns: a step is a round of {' and '.join(parts)}."
            )

    def _note_late(self) -> None:
        """Say so if something that joined late has ended the steps since."""
        if before := self.step_ends.late:
            name = self.step_ends.names[self.step_ends.previous]
            marks.note(
                f"From step {before} on, a step ends with {name}, and with something else before;"
                f" leave those steps out: warmup_steps={before + 1}."
            )

    def _watch_next_forward(self) -> None:
        """Install the hook for the next outermost module; modules inside it cost nothing."""
        # Compiled code depends on the hook's id: a new one would compile everything again.
        hooks: Any = self.hook.hooks_dict_ref()
        hooks[self.hook.id] = self.before_forward

    def _ignore_forward(self) -> None:
        self.hook.remove()

    def _before_forward(self, module: nn.Module, args: tuple[object, ...]) -> None:
        # Constant while torch.compile traces: nothing of this is compiled.
        if torch.compiler.is_compiling():
            return
        if self._is_part(threading.get_ident()):
            return
        if isinstance(module, nn.CrossEntropyLoss):
            marks.observed_inputs(module, partial(arguments, args))
        if not has_weights(module):
            return
        with self.lock:
            self._begin_pass(module)
        marks.observed_inputs(module, partial(arguments, args))

    def _is_part(self, thread: int) -> bool:
        """Say whether a call on `thread` is inside another one, or none of the program's steps."""
        # torch.jit.trace would take ranges around a step for operators of the module.
        is_tracing = torch._C._is_tracing()  # noqa: SLF001 - torch.jit.is_tracing has no types
        # Activation checkpointing runs a pass again.
        is_backward = torch._C._current_graph_task_id() >= 0  # noqa: SLF001 - as PyTorch asks it
        if thread in self.calling_threads or is_tracing or is_backward:
            return True
        # Threads may act with a model that another one trains.
        only_uses = self.has_found_thread or not torch.is_grad_enabled()
        if thread != self.thread and only_uses and not self._is_forward_a_step():
            return True
        # Its outer module may have been called while a pass on another thread kept the hook away.
        return thread != threading.main_thread().ident and is_in_module()

    def _begin_pass(self, module: nn.Module) -> None:
        is_step = self._is_forward_a_step()
        self._choose_thread()
        self.has_found_thread |= is_step or torch.is_grad_enabled()
        self.has_called_module = True
        self._find_engine()
        self._catch_up()
        if self.kind == "auto" and not (is_step or self.is_training):
            self._count_unstepped(_MANY_IN_TRAINING if module.training else _MANY_PASSES)
        if threading.current_thread() is threading.main_thread() and not self.has_several_threads:
            self._ignore_forward()
        if is_step and self.kind == "auto":
            name = self.passes.begin_step(module)
            is_step = name == "forward"
        else:
            in_closure = bool(self.open)
            name = "forward" if is_step else self.passes.begin(module, is_in_closure=in_closure)
        # A validation before the training has no gradients.
        if is_step or (self.kind != "mark" and torch.is_grad_enabled()):
            marks.observed_begin()
        # Otherwise forward passes are of no more interest.
        if is_step or marks.shows_phases() or not marks.has_begun() or self.passes.are_counted:
            phase = ExitStack()
            phase.enter_context(marks.observed_phase(name))
            self.calling_threads.add(threading.get_ident())
            once_after(module, lambda: self._after_forward(module, phase, is_step=is_step))

    def _count_unstepped(self, many: int) -> None:
        self.unstepped_passes += 1
        if self.waits_for_optimizer and self.unstepped_passes >= many:
            self.waits_for_optimizer = False
            marks.note(
                f"The optimizer made no step in {many} forward passes: from then on each of"
                " them counts as a step; workload.step=optimizer waits for the optimizer."
            )

    def _choose_thread(self) -> None:
        """Follow the thread that calls a module, if the one that is followed has made no step."""
        thread = threading.get_ident()
        if thread == self.thread:
            return
        if not self.has_found_thread:
            self.thread = thread
        elif not self.has_several_threads:
            self.has_several_threads = True
            if not self.is_training:
                self.step_ends = StepEnds(has_rounds=False)
            marks.observed_threads()
            marks.note(
                "Several threads call the model: a step lasts from the end of one forward pass to"
                " the end of the next one, whichever threads they are on."
            )

    def _after_forward(self, module: nn.Module, phase: ExitStack, *, is_step: bool) -> None:
        phase.close()
        self.calling_threads.discard(threading.get_ident())
        with self.lock:
            self._watch_next_forward()
            if is_step:
                self._end_call(module)

    def _is_forward_a_step(self) -> bool:
        if self.kind == "auto":
            waits = self.waits_for_optimizer and _is_optimizer_made()
            return not (self.is_training or waits)
        return self.kind == "forward"

    def _as_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or threading.get_ident() != self.thread:
                return original(*args, **kwargs)
            # The first that is seen of a step, if the program calls no module.
            if self.kind != "mark":
                marks.observed_begin()
            with marks.observed_phase("backward"):
                made = original(*args, **kwargs)
            self.passes.has_backward = True
            if self._is_backward_a_step():
                self._end_call(original)
            return made

        return backward

    def _is_backward_a_step(self) -> bool:
        is_seen_otherwise = self.kind != "auto" or self.has_called_module or self.is_training
        if is_seen_otherwise or _is_optimizer_made():
            return False
        if self.step_ends.steps == 0:
            marks.note("Without a module and an optimizer, each backward pass counts as a step.")
        return True

    def _find_engine(self) -> None:
        """Count each step of DeepSpeed's engine as one update, once the script has imported it."""
        engine = getattr(sys.modules.get(_ENGINES), "DeepSpeedEngine", None)
        if engine is None or self.has_found_engine:
            return
        self.has_found_engine = True
        if hasattr(engine, "_take_model_step"):
            self._replace(engine, "_take_model_step", self._as_update_of(0))
        else:
            marks.note("This DeepSpeed is not known: each step of its optimizers counts as one.")

    def _as_update_of(self, position: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a wrapper that counts a call as one update of its argument number `position`."""

        def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def update(*args: Any, **kwargs: Any) -> Any:
                with self.one_update(args[position]):
                    return original(*args, **kwargs)

            return update

        return wrapper

    def _replace(
        self, owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        """Wrap the function `name` of `owner` until this closes."""
        original = getattr(owner, name)
        setattr(owner, name, wrapper(original))
        self.callback(setattr, owner, name, original)


def _is_optimizer_made() -> bool:
    """Say whether this process has made an optimizer: the first of a class patches its step."""
    kinds: list[type[optim.Optimizer]] = [optim.Optimizer]
    while kinds:
        kind = kinds.pop()
        if getattr(kind.step, "hooked", False):
            return True
        kinds += kind.__subclasses__()
    return False
