"""Each check of the contract of analyses fails for an analysis that breaks it."""

from dataclasses import dataclass
from types import ModuleType
from typing import Annotated

import pandas as pd
import pytest

from profkit.api import Chart, Columns, Finding, Metric, Result, Settings, Severity, Table, analysis
from profkit.testing import analysis_contract as contract
from profkit.testing import check_analysis


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """No settings."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bare(Settings):
    """A setting without a word about it."""

    limit: int = 1


def module(function, *, doc="Launches: how many there are.", across="", title="Launches"):
    """Return the module of an analysis, which `function` is."""
    made = ModuleType("launches", doc)
    made.analyze = analysis(title=title, across=across)(function)
    return made


def good(kernels: pd.DataFrame, config: Config):
    """Count launches."""
    del config
    if kernels.empty:
        return Result.abstain("launches", "no kernel was recorded")
    counts = Table(title="Launches", columns=("name", "launches"), rows=(("x", len(kernels)),))
    chart = Chart(kind="bar", title="Launches", table="counts", x="name", y=("launches",))
    return Result(tables={"counts": counts}, charts=(chart,))


def changed(change):
    """Return `good` with `change` made to what it returns of tables with rows."""

    def analyze(kernels: pd.DataFrame, config: Config):
        """Count launches."""
        result = good(kernels, config)
        return result if kernels.empty else change(kernels)

    return module(analyze)


def test_a_good_one_passes():
    check_analysis(module(good))
    check_analysis(changed(lambda _: Result()))


def finding(message="x.", metric="launches.count"):
    return Finding(severity=Severity.INFO, message=message, metric=metric, value=1, unit="count")


def never_abstains(kernels: pd.DataFrame, config: Config):
    """Count launches."""
    del kernels, config
    return Result()


def finds_in_nothing(kernels: pd.DataFrame, config: Config):
    """Count launches."""
    del kernels, config
    return Result(findings=(finding(),), abstentions=Result.abstain("a", "b").abstentions)


def undocumented(kernels: pd.DataFrame, config: Config):
    return good(kernels, config)


def bare(kernels: pd.DataFrame, config: Bare):
    """Count launches."""
    return good(kernels, config)


def of_runs(kernels: pd.DataFrame, config: Config):
    """Count launches."""
    return good(kernels, config)


def picky(kernels: Annotated[pd.DataFrame, Columns("rank")], config: Config):
    """Count launches."""
    del config
    return Result.abstain("launches", f"{len(kernels.columns)} columns")


def greedy(kernels: pd.DataFrame):
    kernels["rank"] = 7
    return Result()


def nan(_):
    return Result(metrics={"x": Metric(value=float("nan"), unit="ns", title="X")})


def divided(kernels):
    duration = int((kernels["end_ns"] - kernels["start_ns"]).sum())
    rate = 1 / duration if duration else float("inf")
    return Result(metrics={"x": Metric(value=rate, unit="1/ns", title="X")})


def drawn_wrong(_):
    table = Table(title="T", columns=("a",), rows=())
    chart = Chart(kind="bar", title="C", table="t", x="a", y=("b",))
    return Result(tables={"t": table}, charts=(chart,))


def uneven(_):
    return Result(tables={"t": Table(title="T", columns=("a",), rows=((1, 2),))})


BROKEN = {
    "documented": (contract.is_documented, module(good, doc="launches"), "not 'Title: ....'"),
    "undocumented": (contract.is_documented, module(undocumented), "no sentence as docstring"),
    "bare": (contract.is_documented, module(bare), r"Bare\.limit has no docstring below it"),
    "title": (contract.is_documented, module(good, title="launches"), "in lower case"),
    "silent": (contract.abstains_on_empty_tables, module(never_abstains), "nothing is known"),
    "finds": (contract.abstains_on_empty_tables, module(finds_in_nothing), "it finds something"),
    "one run": (contract.abstains_on_one_run, module(of_runs, across="runs"), "one run is not"),
    "columns": (contract.reads_the_columns_that_it_names, module(picky), "annotations leave out"),
    "nan": (contract.survives_json, changed(nan), "NaN"),
    "no time": (contract.divides_by_no_time, changed(divided), "infinity"),
    "chart": (contract.fits_together, changed(drawn_wrong), "not there: {'b'}"),
    "uneven": (contract.fits_together, changed(uneven), "another length"),
    "sentence": (
        contract.fits_together,
        changed(lambda _: Result(findings=(finding("none"),))),
        "no sentence",
    ),
    "metric": (
        contract.fits_together,
        changed(lambda _: Result(findings=(finding(metric="other.x"),))),
        "begins with no analysis",
    ),
    "greedy": (contract.leaves_its_input, changed(greedy), "table 'kernels'"),
}


@pytest.mark.parametrize(("check", "broken", "message"), BROKEN.values(), ids=BROKEN)
def test_one_that_breaks_the_contract_fails_with_the_reason(check, broken, message):
    with pytest.raises(AssertionError, match=message):
        check(broken)
    with pytest.raises(AssertionError, match=message):
        check_analysis(broken)


def test_every_check_is_tested():
    assert {check for check, *_ in BROKEN.values()} == set(contract.ANALYSIS_CHECKS)
