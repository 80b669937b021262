"""The axes of a sweep: settings in which its runs differ, and the value of each run."""

from collections.abc import Iterator, Mapping
from typing import Any

Value = str | int | float

BATCH, RANKS = "batch", "world_size"

_COMMAND = "workload.command"
_NAME = ".name"
# Swept to see the noise, and the folder of another revision.
_NO_AXES = ("seed", "launcher.cwd")


def axes_of(behaviours: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Value]]:
    """Return for each run the values of the settings that differ.

    What follows from the name of a group's choice, and the command into which a setting is
    written, are left out.
    """
    flat = {run: dict(_scalars(values, "")) for run, values in behaviours.items()}
    keys = dict.fromkeys(key for values in flat.values() for key in values)
    varying = [
        key
        for key in keys
        if key not in _NO_AXES and len({values.get(key) for values in flat.values()}) > 1
    ]
    names = {key.partition(".")[0]: key for key in varying if key.endswith(_NAME)}
    kept = [
        key
        for key in varying
        if key.endswith(_NAME)
        or (name := names.get(key.partition(".")[0])) is None
        or not _follows(key, name, flat)
    ]
    if len(kept) > 1 and _COMMAND in kept:
        kept.remove(_COMMAND)
    return {
        run: {key.removesuffix(_NAME): values.get(key, "") for key in kept}
        for run, values in flat.items()
    }


def _follows(key: str, name: str, flat: Mapping[str, Mapping[str, Any]]) -> bool:
    """Say whether all runs with one choice of a group have one value of a setting of it."""
    pairs = {(values.get(name), values.get(key)) for values in flat.values()}
    return len(pairs) == len({choice for choice, _ in pairs})


def in_words(choice: Mapping[str, Value]) -> str:
    """Return the values of one run, for example ``batch 4, zero2``."""
    return ", ".join(
        value if isinstance(value, str) else f"{key} {value}" for key, value in choice.items()
    )


def _scalars(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Value]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}{key}.")
        else:
            plain = isinstance(value, int | float) and not isinstance(value, bool)
            yield f"{prefix}{key}", value if plain else str(value)
