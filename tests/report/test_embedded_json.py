import json

from profkit.report.embedded_json import embedded_json


def test_no_character_that_html_gives_a_meaning_is_left():
    value = {"</script>": ["<!--", "a & b", "\u2028\u2029", None, 1.5]}
    text = embedded_json(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value
