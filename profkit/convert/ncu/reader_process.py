"""The process that reads one report with NVIDIA's reader, and prints its launches as JSON."""

import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import ncu_report  # type: ignore[import-untyped]

from profkit.convert.ncu.launches import Advice, Launch, Metric, plain, with_attributes
from profkit.convert.ncu.report import UNREADABLE
from profkit.convert.ncu.units import base_unit

_MEMORY_BYTES = 4 << 30
_MEMORY_TIMES = 64
"""How much memory a report may take: this, and so many times its size."""
# Not measured: lists of other metrics, curves for drawing, and samples over time.
_SKIPPED = ("breakdown:", "group:", "pmsampling:")


def main(path: str) -> int:
    """Print the launches of the report at `path` as JSON; return the exit status."""
    most = _MEMORY_BYTES + _MEMORY_TIMES * Path(path).stat().st_size
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    context = ncu_report.load_report(path)
    if not context or not len(context):
        return UNREADABLE
    launches = [_launch(action) for kernels in context for action in kernels]
    sys.stdout.buffer.write(msgspec.json.encode(launches))
    return 0


def _launch(action: "ncu_report.IAction") -> Launch:
    launch = Launch(
        function=str(action.name(action.NameBase_FUNCTION)),
        name=str(action.name(action.NameBase_DEMANGLED)),
        ranges=list(_ranges(action.nvtx_state())),
        metrics=list(_metrics(action)),
        advice=[_advice(rule) for rule in action.rule_results_as_dicts()],
    )
    return with_attributes(launch)


def _metrics(action: "ncu_report.IAction") -> Iterator[Metric]:
    for name in action:
        metric = action[name]
        if name.startswith(_SKIPPED) or not metric.has_value():
            continue
        value = metric.value()
        if isinstance(value, str):
            yield Metric(name=name, value=None, text=value)
        else:
            factor, unit = base_unit(metric.unit() or "")
            yield Metric(name=name, value=float(value) * factor, unit=unit)


def _ranges(state: Any) -> Iterator[str]:
    """Yield the names of the NVTX ranges that were open, those of each domain together."""
    for key in state.domains() if state else ():
        domain = state.domain_by_id(key)
        yield from (str(name) for name in domain.start_end_ranges())
        yield from (str(name) for name in domain.push_pop_ranges())


def _advice(rule: dict[str, Any]) -> Advice:
    kinds = {
        ncu_report.MsgType_OPTIMIZATION: "optimisation",
        ncu_report.MsgType_WARNING: "warning",
        ncu_report.MsgType_ERR: "error",
    }
    scopes = {ncu_report.SpeedupType_GLOBAL: "global", ncu_report.SpeedupType_LOCAL: "local"}
    message, gain = rule["rule_message"], rule.get("speedup_estimation", {})
    return Advice(
        section=str(rule["section_identifier"]),
        rule=str(rule["rule_identifier"]),
        kind=kinds.get(message["type"], "information"),
        title=plain(message["title"]),
        message=plain(message["message"]),
        speedup_percent=gain.get("speedup"),
        speedup_scope=scopes.get(gain.get("type"), ""),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
