from profkit.analyze import bottlenecks
from profkit.core.result import Finding, Metric, Result, Severity, Table


def numbers(**values):
    return Result(
        metrics={
            name: Metric(value=value, unit="share", title=name) for name, value in values.items()
        }
    )


DEFAULT = bottlenecks.Config()


def run(config=DEFAULT, **given):
    names = ("breakdown", "operators", "steps", "kernels")
    return bottlenecks.analyze.run(
        **{name: given.get(name, Result()) for name in names}, config=config
    )


def test_numbers_over_their_threshold_are_ranked_by_how_far():
    result = run(
        breakdown=numbers(data_loading_share=0.15, idle_share=0.9, copy_share=0.01),
        steps=numbers(spread=0.16),
    )
    assert [(finding.severity, finding.metric) for finding in result.findings] == [
        (Severity.BAD, "breakdown.idle_share"),
        (Severity.WARN, "breakdown.data_loading_share"),
        (Severity.WARN, "steps.spread"),
    ]
    first = result.findings[0]
    assert first.message == (
        "Nothing recorded runs during 90% of the step time: Python, or waiting."
    )
    assert (first.value, first.unit, first.evidence) == (0.9, "share", {"threshold_share": 0.3})
    assert first.advice
    assert result.metrics["findings"].value == 3
    assert [(row[0], row[-1]) for row in result.tables["checks"].rows] == [
        ("breakdown.idle_share", "over"),
        ("breakdown.data_loading_share", "over"),
        ("steps.spread", "over"),
        ("breakdown.copy_share", "fine"),
    ]


def test_the_rank_where_it_is_worst_is_evidence():
    shares = Table(
        title="", columns=("rank", "idle_share"), rows=(("all", 0.5), ("0", 0.2), ("1", 0.8))
    )
    breakdown = Result(metrics=numbers(idle_share=0.5).metrics, tables={"shares": shares})
    assert run(breakdown=breakdown).findings[0].evidence == {
        "threshold_share": 0.3,
        "worst_rank": "1",
        "worst_rank_share": 0.8,
    }


def test_one_operator_dominating_is_named_by_device_time_where_there_is_any():
    def top(kind, share):
        return Finding(
            severity=Severity.INFO,
            message="",
            metric=f"operators.top_self_{kind}_share",
            value=share,
            unit="share",
            evidence={"operator": f"aten::{kind}{{x}}"},
        )

    cpu = run(operators=Result(findings=(top("cpu", 0.5),)))
    assert cpu.findings[0].message == "One operator, aten::cpu{x}, has 50% of all self CPU time."
    both = run(operators=Result(findings=(top("cpu", 0.9), top("device", 0.7))))
    assert [finding.metric for finding in both.findings] == ["operators.top_self_device_share"]


def test_thresholds_are_settings():
    steps = numbers(rank_difference=0.2, memory_growth_share=0.0)
    assert run(bottlenecks.Config(rank_imbalance=0.3), steps=steps).findings[0].message == (
        "None of the 2 numbers that are checked is over its threshold."
    )
    strict = run(bottlenecks.Config(rank_imbalance=0.0), steps=steps)
    assert [finding.severity for finding in strict.findings] == [Severity.BAD]


def test_what_cannot_be_checked_is_said():
    result = run(steps=numbers(spread=0.1))
    assert result.abstentions[0].what == (
        "data loading, idle, copies, runtime, communication, small kernels, operator, "
        "rank imbalance, memory growth"
    )
    assert run().abstentions[0].what == "bottlenecks"
