"""Declarative profiling pipelines for PyTorch: capture, convert, analyze, report."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from profkit.marks import phase, step, steps

__all__ = ["phase", "step", "steps"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import the marks when a script asks for one: no command of profkit does."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from profkit import marks  # noqa: PLC0415 - see above

    globals()[name] = mark = getattr(marks, name)
    return mark
