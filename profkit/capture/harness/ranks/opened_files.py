"""The files that a rank opens for reading until its first step: configurations, weights, data."""

import builtins
import io
import os
from pathlib import Path
from typing import Any

_MOST_FILES = 200
_WRITING = frozenset("wax+")
_MODULES: tuple[Any, ...] = (builtins, io)


class OpenedFiles:
    """Stands for ``open`` until the first step, and notes what is opened with it.

    Not by an audit hook: Python calls one for each ``id()`` as well, and for ever. This is no
    function, which would become a method of classes that keep ``open`` as an attribute.
    """

    def __init__(self) -> None:
        self.paths: dict[Path, None] = {}
        self.original = builtins.open
        for module in _MODULES:
            module.open = self
        # What a process that loads data reads in each step is none of this.
        os.register_at_fork(after_in_child=self.stop)

    def __call__(self, file: Any, mode: str = "r", *others: Any, **options: Any) -> Any:
        """Open `file` as ever."""
        opened = self.original(file, mode, *others, **options)
        is_path = isinstance(file, str | os.PathLike) and not _WRITING & {*mode}
        if is_path and len(self.paths) < _MOST_FILES:
            self.paths[Path(os.path.abspath(os.fsdecode(file)))] = None  # noqa: PTH100 - as opened
        return opened

    def stop(self) -> None:
        """Put ``open`` back where it was."""
        for module in _MODULES:
            if module.open is self:
                module.open = self.original
