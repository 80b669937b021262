"""Plain data inside a script element, where no text can end the element."""

from typing import Any

import msgspec

# Harmless in JSON, and enough: an element ends at "</script", a comment opens with "<!--", and
# old parsers of scripts took U+2028 and U+2029 for line ends.
_ESCAPES = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"})


def encoded(value: Any) -> str:
    """Return `value` as JSON without any character that HTML gives a meaning."""
    return msgspec.json.encode(value).decode().translate(_ESCAPES)
