"""The metrics that runs are compared by, in words."""

from profkit.core.formatting import duration, number, size

TITLES = {
    "step_time": "step time",
    "throughput": "throughput",
    "peak_memory": "peak memory",
    "energy": "energy per step",
}

MEASURING = {
    "step_time": "mark steps with profkit.step()",
    "throughput": "add workload.samples='${batch}'",
    "peak_memory": "the tool baseline measures it",
    "energy": "add +tool=system",
}
"""What measures each."""

CHANGES = {
    "step_time": ("slower", "faster"),
    "throughput": ("higher", "lower"),
    "peak_memory": ("more", "less"),
    "energy": ("more", "less"),
}
"""What a metric is called that has risen, and one that has fallen."""


def shown(metric: str, value: float) -> str:
    """Return the value of a metric with a fitting unit."""
    if metric == "throughput":
        return f"{number(value)} samples/s"
    if metric == "energy":
        return f"{number(value)} J"
    return duration(value) if metric == "step_time" else size(value)
