"""Details of drawings."""

from profkit.core.drawing import Detail


def test_equal_details_are_equal_files_and_come_back_as_they_were():
    data = {"start_ns": [1, 2], "name": ["a", "é"]}
    detail = Detail.of("step 4", data)
    assert detail == Detail.of("step 4", data)
    assert detail.data() == data
