"""A test kit for authors of plugins: small tables, small result trees, and the plugins' contracts.

Tables come from dictionaries or tuples, and an analysis runs on them as it is::

    from profkit.testing import check_analysis, rows, run, span

    def test_the_longest_kernel_is_named():
        result = run(longest.analyze, kernels=[span(0, 20, name="gemm")], warn_above_ns=10)
        assert result.findings[0].evidence == {"rank": 0}

    def test_it_keeps_the_contract():
        check_analysis(longest)

A pattern is tried on such rows by `found`, which returns its matches.

`ResultTree` makes the folder of a run, on which ``profkit convert`` and ``profkit analyze`` work.
`check_analysis`, `check_tool` and `check_model` hold a plugin's module to what profkit asks of all.
"""

from profkit.testing.analysis_contract import check_analysis
from profkit.testing.model_contract import check_model
from profkit.testing.result_tree import ResultTree
from profkit.testing.small_tables import ORIGIN_NS, found, frame, rows, run, span
from profkit.testing.tool_contract import check_tool

__all__ = [
    "ORIGIN_NS",
    "ResultTree",
    "check_analysis",
    "check_model",
    "check_tool",
    "found",
    "frame",
    "rows",
    "run",
    "span",
]
