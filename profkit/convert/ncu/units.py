"""Units of Nsight Compute's pages, which carry factors and are spelled differently by version."""

import re
from functools import cache

_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "k": 1e3}
_SMALL = {"": 1e9, "n": 1.0, "u": 1e3, "m": 1e6}
_SIZED = re.compile(r"([KMGTP]?)(byte|hz)", re.IGNORECASE)
_TIME = re.compile(r"([num]?)(?:second|s)")

_KNOWN = re.compile(
    r"|%|1|hz|ns|s|TPC|SMs?|sysmem|watt|joule|(?:bank|block|byte|cluster|cycle|inst|instance|kernel"
    r"|register|request|sample|second|sector|sm|tag|thread|transaction|warp|wavefront)s?"
    r"|(?:branch|pass)(?:es)?"
)
"""Units, and parts of units, that Nsight Compute has, without their factors."""


@cache
def base_unit(unit: str) -> tuple[float, str]:
    """Return the factor that takes `unit` to the unit that reports are in, and that unit.

    Reports have times in ns, sizes in byte, rates per s, and frequencies in hz.
    """
    above, slash, below = unit.partition("/")
    factor, name = _without_factor(above)
    if not slash:
        return factor, name
    if not (per := _TIME.fullmatch(below)):
        return factor, f"{name}/{below}"
    factor *= 1e9 / _SMALL[per[1]]
    return factor, "hz" if name == "cycle" else f"{name}/s"


def _without_factor(unit: str) -> tuple[float, str]:
    if time := _TIME.fullmatch(unit):
        return _SMALL[time[1]], "ns"
    if sized := _SIZED.fullmatch(unit):
        return _FACTORS[sized[1]], sized[2].lower()
    return 1.0, unit


def is_known(unit: str) -> bool:
    """Say whether a unit, as `base_unit` returns it, is one that Nsight Compute has."""
    return all(_KNOWN.fullmatch(part.strip()) for part in unit.split("/"))
