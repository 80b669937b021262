"""Numbers as people say them, for the sentences of findings."""

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
_SIZES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def duration(time_ns: float) -> str:
    """Return a time in ns with three digits and a fitting unit, for example ``1.23 ms``."""
    return _scaled(time_ns, _TIMES)


def size(size_bytes: float) -> str:
    """Return a size in bytes with three digits and a fitting unit, for example ``1.5 GiB``."""
    return _scaled(size_bytes, _SIZES)


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    factor, unit = next((each for each in units if abs(value) >= each[0]), units[-1])
    return (
        f"{value / factor:.4g} {unit}"
        if abs(value) >= 999.5 * factor
        else f"{value / factor:.3g} {unit}"
    )
