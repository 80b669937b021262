"""What a forward pass is for: a step of training, or an evaluation between two steps."""

from collections import Counter
from typing import NamedTuple

import torch
from torch import nn

from profkit import marks
from profkit.workloads.automatic.called_modules import weights

# Steps whose forward passes are counted before it is said how many there are.
_COUNTED = 3
_BETWEEN = (
    "Between steps the program calls modules in evaluation mode, to evaluate or to act: the times"
    " of steps leave that out."
)
_WITHIN = (
    "Within steps, which add up gradients of several batches, the program calls modules in"
    " evaluation mode: the times of steps have that in them."
)


class _Passes(NamedTuple):
    """Forward passes that are counted together: of one module, before its update or within it."""

    module: int
    """Its id: several modules of a class have each gradients of their own."""

    name: str
    is_in_closure: bool


class ForwardPasses:
    """Looks at the outermost modules that a training calls."""

    def __init__(self) -> None:
        self.has_training_mode = False
        self.has_gradients = False
        self.is_evaluating = False
        self.has_backward = False
        """Whether gradients were computed since the last step ended."""
        self.noted: set[str] = set()
        self.modes: dict[int, bool] = {}
        """Whether a module trained in the first step, by the id of its first parameter."""
        self.in_step: Counter[_Passes] = Counter()
        self.of_steps: list[Counter[_Passes]] = []

    @property
    def are_counted(self) -> bool:
        """Whether every forward pass has to be seen, and not only the first of each step."""
        return self.is_evaluating or len(self.of_steps) < _COUNTED

    def begin(self, module: nn.Module, *, is_in_closure: bool = False) -> str:
        """Note a call of `module`, by the optimizer's step or before; return the phase it is."""
        # Some train in evaluation mode; then only gradients tell.
        is_sure = self.has_training_mode or not torch.is_grad_enabled()
        if not self._is_needed(module) and not module.training and is_sure:
            self.is_evaluating = True
            return "evaluation"
        if self.is_evaluating:
            self._resume(is_in_step=self.has_backward)
        self.has_training_mode |= module.training
        if torch.is_grad_enabled():
            self.in_step[_Passes(id(module), type(module).__name__, is_in_closure)] += 1
        return "forward"

    def _is_needed(self, module: nn.Module) -> bool:
        """Tell whether a step needs `module`, as the first did that only used it: a teacher."""
        # A model that is trained inside of a wrapper may be evaluated without it.
        known = id(next(weights(module), module))
        if not self.of_steps:
            self.modes[known] = self.modes.get(known, False) or module.training
        return not self.of_steps or not self.modes.get(known, True)

    def begin_step(self, module: nn.Module) -> str:
        """Note a call of `module` where calls are steps; return the phase that it is.

        A program is a training once a module has gradients, whatever uses them.
        """
        self.has_training_mode |= module.training
        if self.has_training_mode and not self.has_gradients:
            gradients = (parameter.grad for parameter in weights(module))
            self.has_gradients = any(gradient is not None for gradient in gradients)
        is_in_use = not (module.training or torch.is_grad_enabled())
        is_evaluation = self.has_gradients and is_in_use
        if self.is_evaluating and not is_evaluation:
            self._resume()
        self.is_evaluating = is_evaluation
        return "evaluation" if is_evaluation else "forward"

    def _resume(self, *, is_in_step: bool = False) -> None:
        """Begin the step here, unless gradients of batches before an evaluation belong to it."""
        self.is_evaluating = False
        if not is_in_step:
            marks.observed_resume()
        note = _WITHIN if is_in_step else _BETWEEN
        if note not in self.noted:
            self.noted.add(note)
            marks.note(note)

    def end_step(self, *, is_whole: bool) -> None:
        """Note the end of a step of training, which `is_whole` if it is no part of a round."""
        if len(self.of_steps) < _COUNTED:
            self.of_steps.append(self.in_step)
            if len(self.of_steps) == _COUNTED and is_whole:
                self._note_several()
        self.in_step = Counter()
        self.has_backward = False

    def _note_several(self) -> None:
        """Say so if each step has the same number of passes, and more than one."""
        first, *others = self.of_steps
        if all(other == first for other in others) and first:
            passes, count = first.most_common(1)[0]
            how = ", made by its closure" if passes.is_in_closure else ""
            if count > 1:
                marks.note(
                    f"Each step of the optimizer has {count} forward passes of {passes.name}{how}:"
                    " a step is all of them."
                )
