"""Takes secrets out of the texts that profkit writes: diffs, command lines, the ends of logs.

A secret is a value of the environment under a name like HF_TOKEN, a token of a well-known form,
what is assigned to a name like ``password``, or a long random text assigned to any name. No list of
them is complete: the environment itself, which is full of them, is never written.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

MASK = "[masked]"

_SHORTEST = 6
_RANDOM_LENGTH = 20
_RANDOM_BITS = 3.6
_HEX_BITS = 3.0
_BLOCK_BYTES = 8 << 20

_WORD = (
    r"(?:secret|passw(?:or)?d|passphrase|credential|bearer"
    r"|(?:api|access|account|auth|encryption|private|secret|shared|signing|ssh)[_-]?key)"
)
# Names of a secret's location or length, not of the secret itself.
_ABOUT = r"(?![\w-]*(?:path|file|dir|name|len|length|size|count|url|host|type|id)s?\b)"
_SECRET_NAME = re.compile(
    rf"{_WORD}|(?:^|[_-])tokens?(?:$|[_-])|(?:^|[_-])(?:key|pat|auth|pass)$|[_-]pwd$", re.IGNORECASE
)
_ABOUT_NAME = re.compile(
    r"[_-](?:path|file|dir|name|url|host|type|id|sock|parallelism)s?$", re.IGNORECASE
)

_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_KNOWN_FORMS = re.compile(
    r"\b(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"  # Amazon
    r"|gh[opsur]_[A-Za-z0-9]{30,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{20,}|sk-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"  # JSON web token
    r"|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|dckr_pat_[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r")"
)
_IN_URL = re.compile(r"(?<=://)[^\s/@'\"]*:[^\s/@'\"]+(?=@)|(?<=://)[\w.~-]{16,}(?=@)")
_HEADER = re.compile(r"(?i)(?<=\b(?:bearer ))[\w.~+/=-]{12,}|(?<=\bbasic )[\w+/=]{12,}")

_QUOTE = r"(?:\\?[\"'])"
# An annotation may stand between a name and its value, a prefix before a string.
_ASSIGN = rf"{_QUOTE}?\]?\s*(?::\s*[\w.|\[\] ]{{1,40}}?)?\s*(?:==?|=>|:=|:)\s*[bfru]{{0,2}}"
_NAMED = re.compile(
    rf"(?P<head>{_WORD}{_ABOUT}[\w-]*{_ASSIGN}{_QUOTE}?)"
    r"(?P<value>(?<=[\"'])[^\"'\\\n]+|[^\s\"',;&)}\]]{4,})",
    re.IGNORECASE,
)
_FLAG = re.compile(
    rf"(?P<head>--?[\w-]*(?:{_WORD}|token){_ABOUT}[\w-]*[= ]{_QUOTE}?)"
    r"(?P<value>[^\s\"'-][^\s\"']*)",
    re.IGNORECASE,
)
_LONG = re.compile(r"(?<![\w+/.-])[\w+/.-]{16,}={0,2}")
_BEFORE_VALUE = re.compile(rf"(?P<name>[\w-]+){_ASSIGN}{_QUOTE}?$", re.IGNORECASE)
_BEFORE_LENGTH = 120
# A line without the hints of a pattern is not searched with it: nearly every line of a log.
_NAMES = ("secret", "passw", "passphrase", "credential", "bearer", "key")
_HINTS = {_HEADER: ("bearer ", "basic "), _NAMED: _NAMES, _FLAG: (*_NAMES, "token")}
_LIKE_TOKEN = re.compile(r"(?:token|key|auth|pat)$", re.IGNORECASE)
# Not a value but where one comes from: a call, an index, a template, a constant.
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*[(\[]|[$<{%*\[]|(?:None|True|False|null|true|false)$")


class Masker:
    """Masks the secrets of one environment, and remembers which texts had any."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        found = sorted(secret_values(environment), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, found))) if found else None
        self.masked_labels: set[str] = set()

    def text(self, text: str, label: str) -> str:
        """Return `text` without its secrets; `label` names the text in a warning."""
        masked = self._masked(text)
        if masked != text:
            self.masked_labels.add(label)
        return masked

    def document(self, value: Any, label: str = "") -> Any:
        """Return a JSON value with every text in it masked; numbers and keys stay as they are."""
        if isinstance(value, str):
            return self.text(value, label)
        if isinstance(value, Mapping):
            return {key: self._entry(key, item, label) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.document(item, label) for item in value]
        return value

    def _entry(self, key: str, value: Any, label: str) -> Any:
        if isinstance(value, str) and value and is_secret_name(key):
            self.masked_labels.add(label)
            return MASK
        return self.document(value, label)

    def command(self, words: Sequence[str], label: str) -> list[str]:
        """Return a command line without secrets, those that follow a flag of their name included.

        The words stay as many as they were.
        """
        masked = [self.text(word, label) for word in words]
        for index, flag in enumerate(words[:-1]):
            if flag.startswith("-") and "=" not in flag and is_secret_name(flag):
                masked[index + 1] = MASK
                self.masked_labels.add(label)
        return masked

    def file(self, path: Path, label: str) -> None:
        """Take the secrets out of a text file, if there is one; without any it is not touched."""
        if not path.is_file() or all(self._masked(text) == text for text in _blocks(path)):
            return
        other = path.with_name(f".{path.name}.{os.getpid()}")
        with other.open("wb") as target:
            for text in _blocks(path):
                target.write(self.text(text, label).encode(errors="surrogateescape"))
        other.replace(path)

    def warnings(self) -> list[str]:
        """Say where something was masked."""
        return [
            f"what looks like a secret was masked in {label}"
            for label in sorted(self.masked_labels)
        ]

    def _masked(self, text: str) -> str:
        if self._values:
            text = self._values.sub(MASK, text)
        for pattern in (_PEM, _KNOWN_FORMS, _IN_URL, _LONG):
            text = pattern.sub(_without_random if pattern is _LONG else MASK, text)
        return "".join(map(_without_names, text.splitlines(keepends=True)))


def _blocks(path: Path) -> Iterator[str]:
    """Yield a file in blocks of whole lines, as a log may be larger than memory.

    Bytes that are no text come out as they went in.
    """
    with path.open("rb") as source:
        while block := b"".join(source.readlines(_BLOCK_BYTES)):
            yield block.decode(errors="surrogateescape")


def secret_values(environment: Mapping[str, str]) -> set[str]:
    """Return the values of secrets in `environment`, as they may stand in a text.

    Short ones are left: to mask each "root" or "true" would spoil texts and hide nothing.
    """
    secrets = {
        value
        for name, value in environment.items()
        if is_secret_name(name) and not Path(value[:255]).exists()
    }
    urls = (match for value in environment.values() for match in _IN_URL.findall(value))
    secrets |= {url.rpartition(":")[2] for url in urls}
    secrets = {secret.strip() for secret in secrets if len(secret.strip()) >= _SHORTEST}
    return {
        form for secret in secrets for form in (secret, quote(secret, safe=""), repr(secret)[1:-1])
    }


def is_secret_name(name: str) -> bool:
    """Say whether a variable or flag of this name holds a secret, not its location."""
    return bool(_SECRET_NAME.search(name)) and not _ABOUT_NAME.search(name)


def _without_names(line: str) -> str:
    """Mask the values that a line assigns to names of secrets."""
    lowered = line.lower()
    for pattern, hints in _HINTS.items():
        if any(hint in lowered for hint in hints):
            line = pattern.sub(MASK if pattern is _HEADER else _without_named, line)
    return line


def _without_named(match: re.Match[str]) -> str:
    is_reference = _REFERENCE.match(match["value"] + match.string[match.end() : match.end() + 1])
    return match[0] if is_reference else match["head"] + MASK


def _without_random(match: re.Match[str]) -> str:
    start = match.start()
    before = match.string[max(0, start - _BEFORE_LENGTH) : start].rpartition("\n")[2]
    named = _BEFORE_VALUE.search(before)
    return MASK if named and _is_random(named["name"], match[0]) else match[0]


def _is_random(name: str, value: str) -> bool:
    """Say whether a value was drawn and not written: mixed, long and without repetition.

    Names of files, kernels and models are made of words, which separators hold apart.
    """
    longest = max(re.split(r"[/_.=+-]", value), key=len)
    kinds = [any(map(test, longest)) for test in (str.isdigit, str.islower, str.isupper)]
    if _LIKE_TOKEN.search(name) and len(longest) >= 16 and kinds[0] and any(kinds[1:]):  # noqa: PLR2004
        return _entropy_bits(longest) >= _HEX_BITS
    return len(longest) >= _RANDOM_LENGTH and all(kinds) and _entropy_bits(longest) >= _RANDOM_BITS


def _entropy_bits(text: str) -> float:
    """Return Shannon's entropy per character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
