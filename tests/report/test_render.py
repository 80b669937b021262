"""The page from its view: style sheets joined to one."""

import re

from profkit.report.render import _ASSETS, styles


def test_every_style_sheet_comes_once_and_what_overrides_others_comes_after_them():
    found = styles()
    files = [path.read_text() for path in (_ASSETS / "styles").iterdir()]
    rules = [re.sub(r"/\*[^*]*\*/|\s", "", text) for text in files]
    dense = re.sub(r"\s", "", found)
    assert [dense.count(rule) for rule in rules] == [1] * len(files)
    assert len(dense) == sum(map(len, rules))
    assert "/*" not in found
    starts = (":root{", "*{box-sizing", ".tree{", "@media (max-width:560px)", "@media print")
    places = [found.index(start) for start in starts]
    assert places == sorted(places)
