"""Which rank, repeat and clock the rows of a recording belong to."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from profkit.tables import schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """What all rows of one recording have in common."""

    rank: int
    repeat: int
    base_ns: int = 0
    """Added to every time."""

    def table(self, name: str, rows: int, columns: Mapping[str, Any]) -> pa.Table:
        """Return `rows` rows of table `name`; columns that are left out are unknown."""
        where = {
            "rank": np.full(rows, self.rank, dtype=np.int32),
            "repeat": np.full(rows, self.repeat, dtype=np.int32),
        }
        return schema.table(name, {**where, **columns})
