"""Which ranks share a host, and so its clock."""

import pandas as pd
import pytest

from profkit.analyze.shared.late_hosts import is_one_host
from profkit.tables import schema


@pytest.mark.parametrize(
    ("hosts", "is_one"),
    [({0: "n1", 1: "n1"}, True), ({0: "n1", 1: "n2"}, False), ({0: "n1"}, False), ({}, False),
     ({0: "n1", 1: "n1", 2: "n2"}, True), ({0: "", 1: ""}, False)],
    ids=["one", "two", "one is unknown", "none is known", "another rank", "without names"],
)  # fmt: skip
def test_ranks_are_of_one_host_if_all_are_known_to_be(hosts, is_one):
    known = schema.frame("hosts", [{"rank": rank, "host": host} for rank, host in hosts.items()])
    assert is_one_host(known, pd.Series([0, 1, 0])) == is_one
