"""Finds the secrets of a text that stand after a name of one, however people write the two."""

import re
from collections.abc import Iterator

from profkit.core.secret_names import is_said_secret, is_secret, may_name_secret

REFERENCE = "profkit-secret-"
"""How a reference to a secret begins, see `profkit.core.secret_store`; it is none itself."""

HINTS = (
    *("secret", "pass", "credential", "bearer", "token", "key", "auth", "pat", "pw", "sig"),
    *("session", "cookie", "webhook"),
)
"""One of these is in every name of a secret."""

# So many characters of a value: a line may be megabytes of assignments without a space.
_JUDGED = 100
# Bounded, and begun only where a word begins, after a color or a quoted character as well: a line
# may be megabytes of one word.
_NAMES = re.compile(
    r"(?:(?<![\w.-])|(?<=\dm)|(?<=%[\da-f]{2}))-{0,2}(?P<name>(?:[a-z]{3,10} (?=key\b))?"
    rf"(?=[\w.-]{{0,80}}?(?:{'|'.join(HINTS)}))[a-z_][\w.-]{{0,79}})",
    re.IGNORECASE,
)
QUOTE = r"(?:\\{0,3}[\"']|%2[27])"
_QUOTED = rf"(?P<quote>'''|\"\"\"|{QUOTE})(?P<quoted>(?:(?!(?P=quote)|\n).)+)"
_BARE = rf"(?P<bare>[^\s\"',;&)}}\]]{{4,{_JUDGED}}}|(?<==)[^\s\"',;&)}}\]]{{1,3}})"
# With the colors of a terminal.
_SPACE = r"(?:\s|\x1b\[[\d;]*m)"
ASSIGN = (
    rf"(?:{QUOTE})?\]?{_SPACE}{{0,40}}(?::\s*[\w.|\[\] ]{{1,40}}?)?{_SPACE}{{0,40}}"
    rf"(?:[=-]>|==?|:=|:|%3d|\\u003d){_SPACE}{{0,40}}"
)
"""What stands between a name and its value; there may be an annotation in it."""
THEN = rf"(?:=|(?:{QUOTE})\s*,\s*(?={QUOTE})|(?:{QUOTE})?(?:[ \t\x1f]+|\s*\n\s*-\s+)(?:\\\n\s*)?)"
"""What stands between a flag and its value on a command line, or in a list of its words."""
# A string may have a prefix, or be what an object of a class is made of.
_PREFIX = r"(?:(?-i:[A-Z])\w{0,40}\((?:\w+=)?)?[bfru]{0,2}"
# No word of a text.
_IS_CODED = r"(?=[A-Za-z]*[^A-Za-z\s\"',;|│])"

_FLAG = rf"{THEN}(?:{_QUOTED}|(?P<bare>[^\s\"'-][^\s\"']{{0,{_JUDGED}}}))"
_ASSIGNED = rf"{ASSIGN}(?:{_PREFIX}{_QUOTED}|{_BARE})"
_CELL = (
    rf"(?: *[\t|│][ \t]*| {{2,}}){_IS_CODED}(?P<bare>[^\s\"',;|│]{{6,{_JUDGED}}})"
    r"(?=[ \t]*(?:[|│\r\n\t]|\Z))"
)
# In a call, a list of pairs, a row.
_PAIR = (
    rf"{QUOTE}\s*,\s*(?:(?:default|value)\s*=\s*)?[bfru]{{0,2}}{QUOTE}"
    rf"{_IS_CODED}(?P<bare>[^\s\"'\\]{{4,}})(?={QUOTE})"
)
# A record has the name in one field and the value in the next: containers, XML, and errors of
# pydantic, which have the value on the line below.
_RECORD = (
    rf"(?:\n +[^\n]{{0,200}}\[type=\w{{1,40}}, input_|(?:{QUOTE})?,?\s*(?:{QUOTE})?)"
    rf"value(?:{QUOTE})?\s*[:=]\s*(?:{QUOTE})?"
    rf"(?P<bare>[^\s\"',}}>]{{1,{_JUDGED}}})"
)
_ELEMENT = rf"(?: [^<>]{{0,80}})?>(?P<bare>[^<>\s]{{1,{_JUDGED}}})(?=</)"
# A text of YAML begins on the line below its name.
_BELOW = rf": *[|>][+-]? *\n[ \t]+(?P<bare>[^\s]{{1,{_JUDGED}}})"

# With the characters of which one has to stand before the name, if there are any.
_FORMS = tuple(
    (before, re.compile(form, re.IGNORECASE))
    for before, form in (
        *(("-", _FLAG), ("", _ASSIGNED), (" \t\r\n|│", _CELL), ("\"'-", _PAIR)),
        *(("", _RECORD), ("<", _ELEMENT), ("", _BELOW)),
    )
)
# A word in quotes of a shell, with the name in them: up to the quote, or another assignment.
_IN_QUOTES = {
    quote: re.compile(rf"=(?P<bare>[^{quote}\n]{{1,1000}}?)(?= [\w.-]{{1,80}}=|{quote})")
    for quote in "\"'"
}
# A sentence, or two words of a command.
_SAID = re.compile(
    r"(?: (?:for|of) \S{1,40})?(?: is| was| provided)?(?::?|:[\"']) +(?:\\?[\"'])?"
    rf"(?P<bare>[^\s\"',;)]{{6,{_JUDGED}}})"
)
_REST = re.compile(r"[^\s\"']*")
_FROM_ELSEWHERE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|[$<%*\[]|{(?!\\?[\"'])|(?:args|cls|config|options|os|self)\."
    rf"|(?:None|True|False|null|true|false)$|{REFERENCE}"
)


def comes_from_elsewhere(value: str) -> bool:
    """Say whether this says where a value comes from: a call, an index, a template, a constant."""
    return bool(_FROM_ELSEWHERE.match(value))


def after_names(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a secret stands after each name that may be of one."""
    for found in _NAMES.finditer(text):
        if REFERENCE not in found["name"] and may_name_secret(found["name"]):
            quote = text[found.start() - 1 : found.start()]
            start, end = _in_quotes(text, found["name"], found.end(), quote)
            if end == start:
                start, end = _after_name(text, *found.span("name"))
            if end - start >= _JUDGED and (rest := _REST.match(text, end)):
                end = rest.end()
            if end > start:
                yield start, end


def _in_quotes(text: str, name: str, end: int, quote: str) -> tuple[int, int]:
    """Return where a secret of several words stands in the quotes that its name begins in."""
    match = _IN_QUOTES[quote].match(text, end) if quote in _IN_QUOTES else None
    if match and " " in match["bare"] and not comes_from_elsewhere(match["bare"]):
        return match.span("bare") if is_secret(name, match["bare"]) else (end, end)
    return end, end


def _after_name(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where a secret stands after the name between `start` and `end`; its end if none."""
    before, name = text[max(0, start - 1) : start] or "\n", text[start:end]
    for needed, form in _FORMS:
        if (not needed or before in needed) and (match := form.match(text, end)):
            group = match.lastgroup or 0
            after = text[match.end(group) : match.end(group) + 1]
            is_given = not comes_from_elsewhere(match[group] + after)
            if is_given and is_secret(before + name, match[group][:_JUDGED]):
                return match.span(group)
    said = _SAID.match(text, end)
    if said and is_said_secret(name, said["bare"]) and not comes_from_elsewhere(said["bare"]):
        return said.span("bare")
    return end, end
