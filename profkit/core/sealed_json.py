"""JSON objects that begin with the checksum of the rest: a flipped bit may leave valid JSON."""

import hashlib
import re

_SEAL = re.compile(rb'\{\s*"checksum": ?"([0-9a-f]{64})",')


def sealed(content: bytes) -> bytes:
    """Return `content`, a JSON object with at least one field, with its checksum in front."""
    rest = content.removeprefix(b"{")
    return b'{\n "checksum": "%s",%s' % (_digest(rest), rest)


def is_damaged(content: bytes) -> bool:
    """Say whether `content` is not what was sealed; False if it never was, as in older trees."""
    found = _SEAL.match(content)
    return found is not None and _digest(content[found.end() :]) != found[1]


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
