"""Run by every Python that a followed command starts: waits for it to import torch.

The folder of this file is the first of ``PYTHONPATH`` in a capture of a whole command. It imports
next to nothing, as most processes of a command never import torch, and speaks old Python.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# The program may clear its own before it imports torch.
_ENVIRONMENT = dict(os.environ)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER))))


class _Finder:
    """Finds profkit where it lies, wherever the program looks for modules, and sees torch come."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "profkit" and sys.version_info >= (3, 11):
            return _profkit()
        if name == "torch":
            return _torch(path, target)
        return None


def _profkit():
    from importlib.util import spec_from_file_location

    start = os.path.join(_PACKAGE, "__init__.py")
    return spec_from_file_location("profkit", start, submodule_search_locations=[_PACKAGE])


def _torch(path, target):
    for finder in sys.meta_path:
        spec = None if finder is _Finder else finder.find_spec("torch", path, target)
        if spec is not None:
            break
    else:
        return None
    if hasattr(spec.loader, "exec_module"):
        spec.loader.exec_module = _followed(spec.loader.exec_module)
    return spec


def _followed(load):
    def exec_module(module):
        load(module)
        if sys.version_info < (3, 11):
            with open(_ENVIRONMENT["PROFKIT_TOO_OLD"], "w") as file:
                file.write("%s is Python %s" % (sys.executable, sys.version.split()[0]))
            return
        from profkit.capture.harness.followed.process import follow

        follow(_ENVIRONMENT)

    return exec_module


def _run_next():
    """Run the sitecustomize that this one hides."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if "PROFKIT_FOLLOWED" in _ENVIRONMENT:
    sys.meta_path.insert(0, _Finder)
if "PROFKIT_STARTED_FILE" in _ENVIRONMENT:
    open(_ENVIRONMENT["PROFKIT_STARTED_FILE"], "a").close()
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != _FOLDER]
_run_next()
