"""Takes secrets out of the texts that profkit writes: diffs, command lines, the ends of logs.

A secret is a value of the environment under a name like HF_TOKEN, a token of a well-known form,
what stands under a name like ``password`` or after a flag of one, the password of an address or of
``user:password``, or a long random text assigned to any name. No list of them is complete: the
environment itself, which is full of them, is never written.
"""

import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from profkit.core.secret_after_name import (
    ASSIGN,
    HINTS,
    QUOTE,
    REFERENCE,
    THEN,
    after_names,
    comes_from_elsewhere,
)
from profkit.core.secret_names import (
    is_mixed,
    is_random,
    is_said_secret,
    is_secret,
    is_secret_name,
)
from profkit.core.secret_programs import HINTS_OF_PROGRAMS, OF_PROGRAMS
from profkit.core.secret_urls import IN_URL, MASK

_SHORTEST = 6
_BLOCK_BYTES = 8 << 20
_KEPT_TEXTS = 10_000

_PEM = re.compile(
    r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)"
    r"|(?<=\nPrivate-Lines: ).*?(?=\nPrivate-MAC:|\Z)",
    re.DOTALL,
)
_KNOWN_FORMS = re.compile(
    r"\b(?:"
    r"(?:AKIA|ASIA)[0-9A-Z]{16}"  # Amazon
    r"|gh[opsur]_[A-Za-z0-9]{30,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|hf_[A-Za-z0-9]{20,}|nvapi-[\w-]{20,}|sk-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"  # JSON web token
    r"|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|dckr_pat_[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|(?:[sr]k_live|sk_test|whsec|gsk|r8|dop_v1|shpat|glsa|ntn|lin_api)_\w{20,}"  # hosts of models
    r"|(?:xapp-\d|pplx|GOCSPX|AGE-SECRET-KEY|tskey-[a-z]+|ATATT3|hv[sb]\.|wandb_v\d_)[\w-]{20,}"
    r"|local-[0-9a-f]{40}|dapi[0-9a-f]{32}|\d{8,10}:AA[\w-]{33}"
    r")"
)
_GIVEN = re.compile(
    rf"(?:(?<![\w-])(?:-u|-U|--?[\w-]{{0,20}}user(?:name)?|--auth|--basic|--login|--creds?){THEN}"
    rf"(?:{QUOTE})?(?![^\s:]*\.py:)[^\s:\"'/]+:|-pass(?:in|out)?{THEN}(?:{QUOTE})?pass:"
    rf"|(?:\bauth\s*=\s*\(|BasicAuth\(|\blogin\()\s*{QUOTE}[^\"'\n]{{0,80}}{QUOTE}\s*,\s*{QUOTE}"
    rf"|(?i:\bauthorization(?:{QUOTE})?\s*[:=,]\s*[bfr]{{0,2}}(?:{QUOTE})?"
    r"(?:basic|bearer|token|apikey|digest) )"
    r"|\blogin\s+\S{1,80}\s+password\s+"
    r"|(?i:\bpassword(?: for \S{1,80})?(?: =| to)?|\bidentified by) +['\"]"
    rf"|{OF_PROGRAMS})(?P<bare>(?<=')[^'\n]+(?=')|(?<=\")[^\"\n]+(?=\")|[^\s\"'/][^\s\"']*)"
)
"""What a command line or a call gives as a password, by its form and not by a name."""
_HEADER = re.compile(
    rf"\b(?:authorization(?:{QUOTE})?\s*[:=,]\s*[bfr]{{0,2}}(?:{QUOTE})?(?:[A-Za-z][\w-]* )?"
    r"|bearer |basic |cookie: (?=\S{12}))"
    rf"(?:{QUOTE})?(?P<bare>[^\s\"',;)]{{6,}})",
    re.IGNORECASE,
)
"""The value of a header, after its scheme."""
_WORD = re.compile(r"([\w.+-]{1,80})=(.+)", re.DOTALL)
"""A word of a command line that gives a name a value."""
# A line break within a string that was printed as code, before a name.
_ESCAPED_BREAK = re.compile(r"\\[nrt](?=[A-Za-z_-])")
_BETWEEN_WORDS = re.compile(r"[\s'\"\\]+")
_RANDOM_WORD = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{6,}")
# A quote within the quotes of a shell, and these within further ones.
_SHELL_QUOTE = re.compile(r"'(?:\\?\"'\\?\"|\\')'")
_CONTINUED = re.compile(rf"(?:{_SHELL_QUOTE.pattern}[^'\n]*)*")
_PORT_OR_GROUP = re.compile(r"\d{1,5}")
_LONG = re.compile(r"(?<![\w+/.-])[\w+/.-]{16,}={0,2}")
_BEFORE_VALUE = re.compile(rf"[\w-]{ASSIGN}[bfru]{{0,2}}(?:{QUOTE})?$", re.IGNORECASE)
_BEFORE_LENGTH = 120
# A line without these is not searched for names: nearly every line of a log.
_HINTED = (*HINTS, "basic ", "-u", "user", "login", *HINTS_OF_PROGRAMS)


class Masker:
    """Masks the secrets of one environment, and remembers which texts had any.

    `known` are further secrets, and `replace` gives what is to stand in the place of one.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        known: Iterable[str] = (),
        replace: Callable[[str], str] = lambda _: MASK,
    ) -> None:
        found = sorted({*secret_values(environment), *known} - {""}, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, found))) if found else None
        self._replace = replace
        self._masked_once = lru_cache(_KEPT_TEXTS)(self._masked)
        self.masked_labels: set[str] = set()

    def text(self, text: str, label: str = "") -> str:
        """Return `text` without its secrets; `label` names the text in a warning."""
        masked = self._masked(text)
        if masked != text:
            self.masked_labels.add(label)
        return masked

    def document(self, value: Any, label: str = "", name: str = "") -> Any:
        """Return a JSON value with every text in it masked; numbers and keys stay as they are.

        Lists of texts are read as command lines; `name` is the key that `value` stands under.
        """
        if isinstance(value, str):
            return self._shown(value, label, name)
        if isinstance(value, Mapping):
            record = value.get("name", value.get("key"))
            named = {"value": record if isinstance(record, str) else name}
            return {
                key: self.document(item, label, named.get(key, str(key)))
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            masked = self._with_flags(value, [self.document(item, label, name) for item in value])
            if masked != list(value):
                self.masked_labels.add(label)
            return masked
        return value

    def _shown(self, value: str, label: str, name: str) -> str:
        """Return a text that stands under `name` without its secrets."""
        is_whole = is_secret(name, value) and not _is_replaced(value)
        masked = self._replace(value) if is_whole else self._masked_once(value)
        if masked != value:
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

    def _with_flags(self, words: Sequence[Any], masked: list[Any]) -> list[Any]:
        """Mask, in words of a command line, what follows a flag of its name, or that name."""
        for index, (name, value) in enumerate(itertools.pairwise(words)):
            if not (isinstance(name, str) and isinstance(value, str)) or "=" in name:
                continue
            is_given = is_secret if name.startswith("-") else is_said_secret
            if is_given(name, value) and not _is_replaced(value):
                masked[index + 1] = self._replace(value)
        for index, word in enumerate(words):
            match = _WORD.fullmatch(word) if isinstance(word, str) else None
            if match and is_secret(match[1], match[2]) and not _is_replaced(match[2]):
                masked[index] = f"{match[1]}={self._replace(match[2])}"
        # Words are joined by a space that stands in none.
        line = "\x1f".join(map(str, words))
        for match in filter(_is_password, _GIVEN.finditer(line)):
            index = line.count("\x1f", 0, match.start("bare"))
            if not _is_replaced(masked[index]):
                secret = line[match.start("bare") :].partition("\x1f")[0]
                masked[index] = words[index].removesuffix(secret) + self._replace(secret)
        return masked

    def _masked(self, text: str) -> str:
        for pattern in (_PEM, _KNOWN_FORMS, *([IN_URL] if "://" in text else []), self._values):
            if pattern:
                text = self._substituted(pattern, text, _is_whole)
        text = self._substituted(_LONG, text, _is_random_value)
        runs = _runs_of_lines(text)
        return "".join(self._without_named(run) if has_name else run for run, has_name in runs)

    def _without_named(self, lines: str) -> str:
        """Mask the values under names of secrets."""
        lines = self._substituted(_GIVEN, lines, _is_password)
        lines = self._substituted(_HEADER, lines, _is_said)
        return self._with_replaced(lines, after_names(_with_breaks(lines)))

    def _substituted(
        self, pattern: re.Pattern[str], text: str, judge: Callable[[re.Match[str]], bool]
    ) -> str:
        """Replace the value of each match that `judge` approves; what it does not is read on in."""
        return self._with_replaced(text, _approved(pattern, _with_breaks(text), judge))

    def _with_replaced(self, text: str, spans: Iterable[tuple[int, int]]) -> str:
        """Return `text` with something else in each span, of those that overlap in the first."""
        parts, done = [], 0
        for start, end in spans:
            if start >= done and not _is_replaced(text[start:end]):
                parts.append(text[done:start])
                done = _CONTINUED.match(text, end).end()  # type: ignore[union-attr]
                parts.append(self._replace(text[start:done]))
        return "".join([*parts, text[done:]])


def _approved(
    pattern: re.Pattern[str], text: str, judge: Callable[[re.Match[str]], bool]
) -> list[tuple[int, int]]:
    """Return where the value is in each match that `judge` approves.

    Another one may begin before the value: in a list of commands the first has none.
    """
    group = "bare" if "bare" in pattern.groupindex else 0
    spans = []
    position = start = end = 0
    while position < len(text) and (match := pattern.search(text, position)):
        if start < match.start() < end:
            position = end
            continue
        position = match.start() + 1
        if judge(match):
            start, end = match.span(group)
            position = max(position, end) if start < position else position
            spans.append((start, end))
    return sorted(spans)


def _with_breaks(text: str) -> str:
    """Return a text as long as `text` in which names begin after what is no part of them."""
    return _ESCAPED_BREAK.sub("  ", text) if "\\" in text else text


def _is_replaced(value: str) -> bool:
    return MASK in value or REFERENCE in value


def _is_whole(match: re.Match[str]) -> bool:
    return bool(match[0])


def _is_password(match: re.Match[str]) -> bool:
    """Say whether ``user:password`` is that, and not a user and a group or an address."""
    value = match["bare"]
    return not (_PORT_OR_GROUP.fullmatch(value) or comes_from_elsewhere(value))


def _is_said(match: re.Match[str]) -> bool:
    """Say whether a header gives a secret, and not a quantity or a part of code."""
    return not comes_from_elsewhere(match["bare"]) and is_mixed(match["bare"])


def _is_random_value(match: re.Match[str]) -> bool:
    """Say whether a long word is assigned to any name and was drawn."""
    start = match.start()
    before = match.string[max(0, start - _BEFORE_LENGTH) : start].rpartition("\n")[2]
    return bool(_BEFORE_VALUE.search(before)) and is_random(match[0])


def _runs_of_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield `text` in parts, each with whether it may have a name of a secret.

    Lines that may come together with the one after them: a value may stand below its name.
    """
    plain: list[str] = []
    run: list[str] = []
    for line in text.splitlines(keepends=True):
        lowered = line.lower()
        if any(hint in lowered for hint in _HINTED):
            if plain:
                yield "".join(plain), False
                plain = []
            run.append(line)
        elif run:
            yield "".join([*run, line]), True
            run = []
        else:
            plain.append(line)
    yield "".join(plain), False
    yield "".join(run), True


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
        if is_secret_name(name) and not os.path.exists(value)  # noqa: PTH110 - or a text
    }
    urls = (match for value in environment.values() for match in IN_URL.findall(value))
    return forms(secrets | {url.rpartition(":")[2] for url in urls})


def forms(secrets: Iterable[str]) -> set[str]:
    """Return how `secrets` may stand in a text: as they are, and quoted for URLs and in strings.

    Of those with quotes, which texts within texts write in ever new ways, random words count too.
    """
    whole = {secret.strip() for secret in secrets if len(secret.strip()) >= _SHORTEST}
    whole |= {_SHELL_QUOTE.sub("'", secret) for secret in whole}
    quoted = (secret for secret in whole if "'" in secret or '"' in secret)
    words = {word for secret in quoted for word in _BETWEEN_WORDS.split(secret)}
    random = {word for word in words if _RANDOM_WORD.fullmatch(word)}
    return {
        form
        for secret in whole | random
        for form in (secret, quote(secret, safe=""), repr(secret)[1:-1], json.dumps(secret)[1:-1])
    }
