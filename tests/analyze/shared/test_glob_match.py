import pandas as pd

from profkit.analyze.shared.glob_match import matching


def test_names_match_any_of_the_patterns_and_case_counts():
    names = pd.Series(["gloo:all_reduce", "aten::mm", "Gloo:x", "gloo:all_reduce"])
    found = matching(names.astype("category"), ("gloo:*", "nccl:*"))
    assert found.tolist() == [True, False, False, True]


def test_no_names_and_no_patterns_match_nothing():
    none = pd.Series([], dtype="str").astype("category")
    assert matching(none, ("*",)).tolist() == []
    assert matching(pd.Series(["a"]).astype("category"), ()).tolist() == [False]
