"""What of an address is a secret: the password in it, or what only who knows it can call."""

import re

MASK = "[masked]"

IN_URL = re.compile(
    r"(?<=://)[^\s/'\"]*:[^\s/'\"]+(?=@)|(?<=://)[\w.~-]{16,}(?=@)"
    r"|(?<=://hooks\.slack\.com/services/)[\w/]+|(?<=/api/webhooks/)\d+/[\w-]+"
)


def without_passwords(text: str) -> str:
    """Return `text` with the secrets of its addresses masked."""
    return IN_URL.sub(MASK, text)
