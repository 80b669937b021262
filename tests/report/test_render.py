"""The page from its view: style sheets joined to one."""

from profkit.report.render import _ASSETS, styles


def test_every_style_sheet_comes_once_and_what_overrides_others_comes_after_them():
    found = styles()
    files = [path.read_text() for path in (_ASSETS / "styles").iterdir()]
    assert len(found) == sum(map(len, files))
    starts = (":root {", "* { box-sizing", ".tree {", "@media (max-width: 560px)", "@media print")
    places = [found.index(start) for start in starts]
    assert places == sorted(places)
