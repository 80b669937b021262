"""Plain data as JSON inside a script element, which no text in it can end."""

from typing import Any

import msgspec

# Harmless in JSON, and enough: an element ends at "</script", a comment opens with "<!--", and
# old parsers of scripts took U+2028 and U+2029 for line ends.
_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def embedded_json(value: Any) -> str:
    """Return `value` as JSON without any character that HTML gives a meaning."""
    return msgspec.json.encode(value).decode().translate(_ESCAPES)
