"""How long the program's thread had no core."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from profkit.analyze.division.thread_waits import queued_share


def test_a_wait_that_is_counted_at_its_end_takes_no_more_than_the_time():
    rows = {"time_ns": [0, 100, 200, 300], "queued_ns": [0, 0, 150, 200]}
    rank = SimpleNamespace(samples=pd.DataFrame(rows), windows=np.array([[100, 300]]))
    assert queued_share(rank) == (100 + 50) / 200
