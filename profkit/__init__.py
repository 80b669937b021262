"""Declarative profiling pipelines for PyTorch: capture, convert, analyze, report."""

from profkit.marks import phase, step, steps

__all__ = ["phase", "step", "steps"]
__version__ = "0.1.0"
