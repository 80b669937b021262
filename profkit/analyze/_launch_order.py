"""Match measured launches to traced ones: by name and shape, and by order where these repeat."""

import re
from collections.abc import Sequence

import pandas as pd

_STEP = re.compile(r"(?:^|;)step#(\d+)(?:;|$)")

ONLY = "only one launches it"
BY_ORDER = "by order in the step"


def attributed(measured: pd.DataFrame, traced: pd.DataFrame) -> pd.DataFrame:
    """Return operator, module and step of each measured launch, and in ``found`` how it matched.

    Both have ``key``, the kernel and its shape, in order of launch and of one rank;
    `measured` has the path of open ``ranges``, `traced` operator, module, step and phase. Where
    several operators or modules launch one kernel and shape, the first that was measured in a step
    is the first that was traced in it, and so on: if there is no more of it, and the phases that
    are known agree. Else ``found`` says between how many it is open.
    """
    steps = [_step(text) for text in measured["ranges"].astype(str)]
    measured = measured.assign(step=steps)
    by_key = {str(key): rows for key, rows in traced.groupby("key", sort=False)}
    found = pd.DataFrame("", index=measured.index, columns=["operator", "module", "found"])
    for (key, step), rows in measured.groupby(["key", "step"], sort=False):
        of_key = by_key.get(str(key))
        if of_key is not None:
            found.loc[rows.index] = _of_one(rows, of_key, int(str(step)))
    return found.assign(step=measured["step"])


def _step(ranges: str) -> int:
    marked = _STEP.search(ranges)
    return int(marked[1]) if marked else -1


def _of_one(measured: pd.DataFrame, traced: pd.DataFrame, step: int) -> Sequence[list[str]]:
    """Return operator, module and how they are known of launches of one kernel in one step."""
    origins = traced[["operator", "module"]].astype(str).drop_duplicates()
    if len(origins) == 1:
        return [[*origins.iloc[0], ONLY]] * len(measured)
    of_step = traced[(traced["step"] == step).to_numpy()] if step >= 0 else traced.iloc[:0]
    if len(measured) <= len(of_step) and _agree(measured, of_step):
        chosen = of_step[["operator", "module"]].astype(str).head(len(measured))
        return [[*row, BY_ORDER] for row in chosen.itertuples(index=False)]
    return [["", "", f"open between {len(origins)} operators and modules"]] * len(measured)


def _agree(measured: pd.DataFrame, traced: pd.DataFrame) -> bool:
    """Say whether no launch was measured in another phase than the one it was traced in."""
    phases = traced["phase"].astype(str).tolist()
    opened = [text.split(";") for text in measured["ranges"].astype(str)]
    known = set(phases) - {""}
    pairs = zip(opened, phases, strict=False)
    return all(not phase or phase in names or not known & set(names) for names, phase in pairs)
