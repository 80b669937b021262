"""Memory model: what each rank should hold by the closed form, beside what it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import pandas as pd

from profkit.analyze._expected_memory import QUANTITIES, Expected, expected
from profkit.analyze.base import Behaviour, analysis
from profkit.core.formatting import size
from profkit.core.result import Abstention, Chart, Finding, Metric, Result, Severity, table
from profkit.core.settings import Settings
from profkit.tables.tree_paths import joined

_STATE = ["step", "point"]
_CACHE = "cache"
_BEYOND = {
    "gathered": "whole parameters that were gathered of shards, or kept so after the forward pass",
    "buffers": "buffers of modules, such as running statistics",
    "buckets": "communication buckets: gradients are collected in them to be reduced together",
    "kept": "rest of storages that a view keeps alive, and padding that no tensor covers",
    "other": "tensors of the program itself, such as batches, outputs and losses",
    "rest": "allocated outside of tensors that Python sees: workspaces, temporaries, rounding",
    _CACHE: "reserved by the allocator and not allocated, for allocations to come",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Config(Settings):
    """Composed from ``conf/analysis/memory_model.yaml``."""

    tolerance_share: float = 0.02
    """Difference from the closed form, as a share of it, up to which the two agree."""

    max_rows: int = 400
    """Rows kept of the layout by module, largest first."""


@analysis(title="Memory: expected and measured")
def analyze(layers: pd.DataFrame, behaviour: Behaviour, config: Config) -> Result:
    """Does each rank hold what model, precision and ZeRO stage say that it should?

    Measured is the most at any instant that was looked at, of the first repeat. The closed form
    is bytes per parameter, from the documentation of each backend; for activations it is what
    autograd saves when the model runs eagerly. Differences are named: shares that ranks divide
    unevenly, the optimizer's counters of steps, and the rest, which is padding and rounding, or
    missing where less is measured than there should be.
    """
    if layers.empty:
        return Result.abstain("what each rank holds", "no point of a step was recorded")
    rows = layers[(layers["repeat"] == layers["repeat"].min()).to_numpy()]
    sums = rows.groupby(["rank", *_STATE, "kind"], observed=True)["size_bytes"].sum().reset_index()
    closed_form = expected(behaviour, _elements(rows))
    unseen = _not_looked_for(sums)
    seen = [name for name in QUANTITIES if name not in {abstention.what for abstention in unseen}]
    compared = _compared(sums, closed_form, _counters(rows, closed_form.states_per_tensor), seen)
    totals = _totals(layers)
    mean = compared.groupby("quantity", sort=False)[["closed_form_bytes", "measured_bytes"]].mean()
    return Result(
        findings=_findings(compared, config),
        metrics=_metrics(compared, layers),
        tables={
            "compared": table(compared, title="Expected and measured memory by rank"),
            "mean": table(mean.reset_index(), title="Expected and measured memory, mean of ranks"),
            "beyond": table(_beyond(sums), title="Measured memory that is not expected"),
            "over_time": table(_over_time(sums, totals), title="Memory over time by category"),
            "layout": table(
                _layout(rows, totals), title="Memory at the peak by module", limit=config.max_rows
            ),
        },
        charts=_charts(),
        abstentions=(*closed_form.missing, *unseen, *_unseen(rows)),
    )


def _elements(rows: pd.DataFrame) -> int:
    """Return the number of parameters of the models, on all ranks together."""
    own = rows[(rows["kind"] == "parameters").to_numpy()]
    counts = own.groupby(["rank", *_STATE], observed=True)["elements"].sum()
    return int(counts.max()) if len(counts) else 0


def _counters(rows: pd.DataFrame, states_per_tensor: int) -> Mapping[int, int]:
    """Return the bytes of the optimizer's counters of steps by rank: 4 for each tensor it has."""
    if not states_per_tensor:
        return {}
    states = rows[(rows["kind"] == "states").to_numpy()]
    tensors = states.groupby(["rank", *_STATE], observed=True)["tensors"].sum()
    most = tensors.groupby("rank").max()
    return {int(rank): 4 * int(most[rank]) // states_per_tensor for rank in most.index}


def _not_looked_for(sums: pd.DataFrame) -> tuple[Abstention, ...]:
    """Return the quantities that exist only at points of a step that were not recorded."""
    points = set(sums["point"].astype(str))
    kinds = set(sums.loc[(sums["size_bytes"] > 0).to_numpy(), "kind"].astype(str))
    reason = "tools.memory_layers.points leaves {} out, or nothing was looked at then"
    missing = [
        Abstention(what=name, reason=reason.format(point))
        for name, point in (("gradients", "backward"), ("states", "optimizer"))
        if name not in kinds and point not in points
    ]
    if "activations" not in kinds:
        why = "no saved tensor was seen: inference, tools.memory_layers.activations=false, or "
        missing.append(Abstention(what="activations", reason=why + reason.format("forward")))
    return tuple(missing)


def _compared(
    sums: pd.DataFrame, closed_form: Expected, counters: Mapping[int, int], seen: Sequence[str]
) -> pd.DataFrame:
    """Return one row per rank and quantity, with the parts of the difference."""
    most = sums.groupby(["rank", "kind"], observed=True)["size_bytes"].max()
    found = []
    for name in seen:
        measured = {
            int(rank): int(most.get((rank, name), 0)) for rank in sorted(sums["rank"].unique())
        }
        mean = sum(measured.values()) / len(measured)
        closed = closed_form.sizes_bytes.get(name, float("nan"))
        for rank, measured_bytes in measured.items():
            difference = measured_bytes - closed
            uneven = measured_bytes - mean
            # An optimizer may count its steps elsewhere: then there is less than they would take.
            more = max(difference - uneven, 0)
            counted = min(counters.get(rank, 0), more) if name == "states" else 0
            rest = difference - uneven - counted
            found.append(
                {
                    "rank": rank,
                    "quantity": name,
                    "closed_form_bytes": closed,
                    "measured_bytes": measured_bytes,
                    "difference_bytes": difference,
                    "difference_share": difference / closed if closed else float("nan"),
                    "uneven_bytes": uneven,
                    "counters_bytes": counted,
                    "padding_bytes": rest if isnan(rest) else max(rest, 0),
                    "missing_bytes": rest if isnan(rest) else max(-rest, 0),
                    "closed_form": closed_form.formulas.get(name, ""),
                }
            )
    return pd.DataFrame(found)


def _totals(layers: pd.DataFrame) -> pd.DataFrame:
    """Return the bytes held at each instant, without the allocator's cache."""
    own = layers[(layers["kind"] != _CACHE).to_numpy()]
    keys = ["repeat", "rank", *_STATE]
    return own.groupby(keys, observed=True)["size_bytes"].sum().reset_index(name="held_bytes")


def _beyond(sums: pd.DataFrame) -> pd.DataFrame:
    own = sums[sums["kind"].isin(list(_BEYOND)).to_numpy()]
    most = own.sort_values("size_bytes", ascending=False, kind="stable")
    first = most.drop_duplicates(["rank", "kind"]).sort_values(["rank", "kind"])
    first["what"] = [_BEYOND[str(kind)] for kind in first["kind"]]
    return first[["rank", "kind", "size_bytes", "step", "point", "what"]]


def _fullest(totals: pd.DataFrame) -> tuple[int, int, str]:
    """Return rank, step and point at which most is held, in the first repeat."""
    own = totals[(totals["repeat"] == totals["repeat"].min()).to_numpy()]
    most = own.to_dict("records")[int(own["held_bytes"].argmax())]
    return int(most["rank"]), int(most["step"]), str(most["point"])


def _over_time(sums: pd.DataFrame, totals: pd.DataFrame) -> pd.DataFrame:
    """Return the bytes by category of the fullest rank at each instant, in order of time."""
    rank, _, _ = _fullest(totals)
    own = sums[(sums["rank"] == rank).to_numpy()]
    order = {"set_up": 0, "forward": 1, "backward": 2, "optimizer": 3}
    position = own["point"].astype(object).map(order)
    own = own.assign(position=position).sort_values(["step", "position"], kind="stable")
    words = ["set-up" if step < 0 else f"step {step}, {point}" for step, point in _instants(own)]
    return pd.DataFrame(
        {"instant": words, "kind": own["kind"].astype(str), "size_bytes": own["size_bytes"]}
    )


def _instants(own: pd.DataFrame) -> list[tuple[int, str]]:
    return list(zip(own["step"].tolist(), own["point"].astype(str).tolist(), strict=True))


def _layout(rows: pd.DataFrame, totals: pd.DataFrame) -> pd.DataFrame:
    """Return the module tree of the fullest rank at its fullest, as folded paths."""
    rank, step, point = _fullest(totals)
    own = rows[((rows["rank"] == rank) & (rows["step"] == step)).to_numpy()]
    own = own[(own["point"] == point).to_numpy() & (own["kind"] != _CACHE).to_numpy()]
    texts = own[["kind", "model", "module"]].astype(str).itertuples(index=False)
    paths = [
        joined(part for part in (kind, model, *module.split(".")) if part)
        for kind, model, module in texts
    ]
    found = pd.DataFrame({"path": paths, "size_bytes": own["size_bytes"].to_numpy()})
    sums = found.groupby("path", sort=False)["size_bytes"].sum().reset_index()
    return sums.sort_values("size_bytes", ascending=False, ignore_index=True, kind="stable")


def _metrics(compared: pd.DataFrame, layers: pd.DataFrame) -> dict[str, Metric]:
    totals = _totals(layers)
    by_repeat = totals.groupby("repeat")["held_bytes"].max()
    metrics = {
        "held_bytes": Metric(
            value=int(totals["held_bytes"].max()),
            unit="bytes",
            title="Peak memory at the measured points of a step, of the rank with the most",
            better="lower",
            by_repeat=dict(zip(by_repeat.index.tolist(), by_repeat.tolist(), strict=True)),
        )
    }
    for name, rows in compared.groupby("quantity", sort=False):
        metrics[f"{name}_bytes"] = Metric(
            value=float(rows["measured_bytes"].max()),
            unit="bytes",
            title=f"{str(name).capitalize()}, of the rank with most",
            better="lower",
        )
    return metrics


def _findings(compared: pd.DataFrame, config: Config) -> tuple[Finding, ...]:
    """Return what is not as expected, on the mean of ranks: the quantity that differs most."""
    known = compared[compared["difference_share"].notna().to_numpy()]
    if known.empty:
        return ()
    own = known.assign(even_bytes=known["difference_bytes"] - known["uneven_bytes"])
    own["even_share"] = own["even_bytes"] / own["closed_form_bytes"]
    worst = own.to_dict("records")[int(own["even_share"].abs().argmax())]
    share = float(worst["even_share"])
    if abs(share) <= config.tolerance_share:
        return ()
    return (
        Finding(
            severity=Severity.WARN,
            message=f"{str(worst['quantity']).capitalize()} take "
            f"{size(float(worst['measured_bytes']))} on rank {worst['rank']}, "
            f"{size(float(worst['closed_form_bytes']))} expected: {share:+.1%} on the mean of "
            "ranks.",
            metric=f"memory_model.{worst['quantity']}_bytes",
            value=float(worst["measured_bytes"]),
            unit="bytes",
            evidence={"rank": int(worst["rank"]), "quantity": str(worst["quantity"])},
            advice="The table of expected and measured says which part is uneven shares, "
            "counters, padding or missing; memory_trace/ has it by layer.",
        ),
    )


def _unseen(rows: pd.DataFrame) -> tuple[Abstention, ...]:
    if not rows["device"].astype(str).eq("cpu").all():
        return ()
    return (
        Abstention(
            what="workspaces, temporaries and the allocator's cache",
            reason="the CPU has no allocator that counts what Python does not see; on CUDA there "
            "is one",
        ),
    )


def _charts() -> tuple[Chart, ...]:
    return (
        Chart(
            kind="bar",
            title="Expected and measured memory, mean of ranks",
            table="mean",
            x="quantity",
            y=("closed_form_bytes", "measured_bytes"),
        ),
        Chart(
            kind="stacked_bar",
            title="Memory over time by category, of the rank with the most",
            table="over_time",
            x="instant",
            y=("size_bytes",),
            color="kind",
        ),
        Chart(
            kind="sunburst",
            title="Memory at the peak by module",
            table="layout",
            x="path",
            y=("size_bytes",),
        ),
    )
