"""``report.md``: what one pastes into an issue."""

from dataclasses import replace

from profkit.report import shown_verdict, view
from profkit.report.issue_text import issue_text
from profkit.report.labelled_values import Item
from tests.report.test_verdict_text import VERDICT

NO_TABLES = view.Drawn()
HERE = view.Link(text="model gpt, batch 2", href="#run-1")
MODEL_HUB = "hf_abcdefghijklmnopqrstuvwxyz"


def run(label, verdict=VERDICT):
    return view.Run(
        anchor="run-1", name="gpt-1", label=label, ran=(), command="profkit run",
        statuses=(), numbers=(),
        captures=(), viewable=(), folders=(), configuration="", listings=(), drawn=NO_TABLES,
        manifest=(("Versions", (Item(label="torch", value="2.9"),
                                Item(label="attrs", value="1"))),),
        verdict=verdict and shown_verdict.shown(verdict),
    )  # fmt: skip


def report(*runs, **changes):
    made = view.Report(
        title="gpt", made="now", version="1.2", captured="2026-11-20 10:00 to 10:05",
        machines=(view.Machine(title="bench", items=(Item(label="OS", value="Linux"),)),),
        command=f"profkit run token={MODEL_HUB}", notes=("energy is left out",), differences=(),
        overview=NO_TABLES, across=view.Across(anchor="across", sections=(), drawn=NO_TABLES),
        findings=(), findings_on_top=1, problems=(), remarks=(), runs=runs, blocks=(),
        rows_per_page=1, max_bars=1,
    )  # fmt: skip
    return replace(made, **changes)


def test_one_run_has_its_verdict_bar_actions_trust_and_set_up_without_secrets():
    assert issue_text(report(run("gpt")), [VERDICT], {}) == (
        "# gpt\n"
        "\n"
        "captured 2026-11-20 10:00 to 10:05, profkit 1.2\n"
        "\n"
        "## Verdict\n"
        "\n"
        "**input-bound**: GPU idle 60 of 100 ms per step: 50 ms loading data. "
        "(step 90 ms unprofiled)\n"
        "\n"
        "```text\n"
        "|==========Loading data 50===========|=======GPU computing 40=======|==a===|=b=|\n"
        " a Python 9  b other 1\n"
        "```\n"
        "\n"
        "1. **up to 50% of a step less (50 of 100 ms traced)**: Waiting for data. Use workers. "
        "(medium confidence)\n"
        "\n"
        "Confidence high. 6 steady steps.\n"
        "\n"
        "## Set-up\n"
        "\n"
        "- machine: bench, OS Linux\n"
        "- versions: torch 2.9\n"
        "- command: `profkit run token=[masked]`\n"
    )


def sweep(count):
    units = {"Run": "", "batch": "id", "Step": "ns", "Peak": "bytes", "Idle": "share"}
    units |= {"Rate": "samples_per_s", "Samples per second": "per_s"}
    columns = tuple(view.Column(label=label, unit=unit) for label, unit in units.items())
    rows = tuple((f"gpt-{index}", index, 1.5e6, None, 0.25, 12.0, 12.0) for index in range(count))
    failed = view.Problem(run=HERE, tool="py_spy", attempt=1, status="timeout", repeat=3,
                          reason="no end | after 9 s", folder=HERE)  # fmt: skip
    table = view.Table(title="Runs", columns=columns, rows=rows)
    return report(
        *(run(f"batch {index}", VERDICT if index else None) for index in range(count)),
        overview=view.Drawn(tables=(table,)),
        problems=(failed,) * 30,
        differences=("The driver is not the same everywhere: 1 (a); 2 (b)",) * 30,
    )


def test_a_sweep_of_any_size_has_its_runs_differences_and_failures_in_eighty_lines():
    text = issue_text(sweep(500), [None, *[VERDICT] * 499], {})
    lines = text.splitlines()
    assert len(lines) <= 80
    assert "| no verdict | 0 | 1.5 ms | not known | 25.0% | 12 samples/s | 12 /s |" in lines
    assert "| input-bound | 1 | 1.5 ms | not known | 25.0% | 12 samples/s | 12 /s |" in lines
    assert "480 more runs are in `report.html`." in lines
    assert "- The driver is not the same everywhere: 1 (a); 2 (b)" in lines
    assert "25 more differences are in `report.html`." in text
    assert lines[-6] == (
        "- capture py_spy repeat 3 of model gpt, batch 2: **timeout**, no end \\| after 9 s"
    )
    assert lines[-1] == "- 25 more failures are in `report.html`."
