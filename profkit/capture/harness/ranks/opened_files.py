"""The files that a rank opens for reading until its first step: configurations, weights, code."""

import _io
import builtins
import importlib.util
import io
import os
import sysconfig
from pathlib import Path
from typing import Any

_MOST_FILES = 200
_WRITING = frozenset("wax+")
_MODULES: tuple[Any, ...] = (builtins, io)
# What reads code: runpy, and loaders of modules.
_CODE_MODULES: tuple[Any, ...] = (io, _io)
_STANDARD = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = (f"site-packages{os.sep}", f"dist-packages{os.sep}")


class OpenedFiles:
    """Stands for ``open`` until the first step, and notes what is opened with it.

    Not by an audit hook: Python calls one for each ``id()`` as well, and for ever. This is no
    function, which would become a method of classes that keep ``open`` as an attribute.
    """

    def __init__(self) -> None:
        self.paths: dict[Path, None] = {}
        self.original = builtins.open
        self.original_of_code = io.open_code
        for module in _MODULES:
            module.open = self
        for module in _CODE_MODULES:
            module.open_code = self.open_code
        # What a process that loads data reads in each step is none of this.
        os.register_at_fork(after_in_child=self.stop)

    def __call__(self, file: Any, mode: str = "r", *others: Any, **options: Any) -> Any:
        """Open `file` as ever."""
        opened = self.original(file, mode, *others, **options)
        is_path = isinstance(file, str | os.PathLike) and not _WRITING & {*mode}
        if is_path:
            self._note(os.fsdecode(file))
        return opened

    def open_code(self, path: str) -> Any:
        """Open `path` as ``io.open_code`` does; of what Python compiled before, note the source."""
        opened = self.original_of_code(path)
        # Else each module of torch would be one of the few files.
        if not path.startswith(_STANDARD) and not any(name in path for name in _INSTALLED):
            is_compiled = path.endswith(".pyc") and "__pycache__" in path
            self._note(importlib.util.source_from_cache(path) if is_compiled else path)
        return opened

    def _note(self, path: str) -> None:
        if len(self.paths) < _MOST_FILES:
            self.paths[Path(os.path.abspath(path))] = None  # noqa: PTH100 - as opened

    def stop(self) -> None:
        """Put ``open`` back where it was."""
        for module in _MODULES:
            if module.open is self:
                module.open = self.original
        for module in _CODE_MODULES:
            if module.open_code == self.open_code:
                module.open_code = self.original_of_code
