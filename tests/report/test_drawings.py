"""Drawings on the page."""

from profkit.core.drawing import Detail, Drawing
from profkit.report.drawings import placed


def drawing(*sizes: int) -> Drawing:
    details = tuple(Detail(name=f"detail {size}", packed="x" * size) for size in sizes)
    return Drawing(kind="flame", title="T", data={"name": ["a"]}, details=details)


def test_details_that_do_not_fit_are_left_out_from_the_end_and_named():
    (first, second), blocks, used = placed(
        "run-1", [("a", drawing(10, 50)), ("b", drawing(10))], 60
    )
    assert [detail.name for detail in first.details] == ["detail 10"]
    assert first.cut == ("detail 50",)
    assert second.cut == ()
    assert used == 2 * len('{"name":["a"]}') + 20
    assert [(block.id, len(block.packed)) for block in blocks] == [
        (first.details[0].block, 10),
        (second.details[0].block, 10),
    ]


def test_a_drawing_without_room_keeps_what_is_drawn_at_once():
    (shown,), blocks, _ = placed("run-1", [("a", drawing(10))], 20)
    assert (shown.data, shown.cut, blocks) == ({"name": ["a"]}, ("detail 10",), ())
    (shown,), _, used = placed("run-1", [("a", drawing())], 9)
    assert (shown.data, used) == (None, 0)
