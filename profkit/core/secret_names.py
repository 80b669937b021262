"""Says whether a value is a secret: by the words of its name, and by whether it looks drawn."""

import math
import re
from collections import Counter
from functools import cache, lru_cache
from operator import ne
from typing import Literal

Kind = Literal["secret", "token", "mixed", "key", "maybe", "other"]
"""What a name says of its value: a secret whatever it is; one unless it is a number; one if it has
letters and digits; one if it looks drawn and not written; one only if it is long as well; or
nothing."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_JOINED = re.compile(r"(auth|csrf|xsrf|access|api|session|refresh|bot)(token)", re.IGNORECASE)
_SECRET = re.compile(
    r"secret(?!ar)|(?:key|store)_?pass$|pass_?(?:w(?:or)?d|phrase|code)|credential|bearer"
    r"|(?:api|access|account|auth|encryption|license|master|private|shared|signing|ssh)_?key"
    # Of where experiments, models and data are kept.
    r"|(?:wandb|comet|neptune|hub|openai|anthropic|kaggle|storage|aws|azure)_?key"
)
# Names of where a secret lies, how long it is or how it is handled, not of the secret itself.
_ABOUT = {
    *("path", "file", "dir", "folder", "name", "url", "uri", "host", "port", "type", "id"),
    *("len", "length", "size", "count", "sock", "socket", "parallelism", "env", "var"),
    *("stdin", "prompt", "cmd", "command", "policy", "mode", "method", "provider", "required"),
}
# What a model's vocabulary and its limits are called: ``pad_token``, ``max_new_tokens``.
_OF_TEXT = {
    *("pad", "eos", "bos", "cls", "sep", "unk", "mask", "special", "image", "video", "audio"),
    *("vision", "stop", "start", "end", "begin", "first", "last", "new", "next", "max", "min"),
    *("num", "n", "per", "each", "extra", "added", "prompt"),
}
# Alone, these are also a word of a text, the working folder, and one of several rounds.
_ALONE = {"token", "pwd", "pw", "pass"}
_ROUNDS = {"first", "second", "third", "last", "next", "each", "forward", "backward", "by", "num"}
_KEYS = {"key", "auth", "pat", "cookie"}
# As flags of their own these are nothing else.
_FLAGS = {"pat", "cookie"}
_MAYBE = {*_KEYS, "token", "tokens", "keys", "authorization", "webhook"} | {
    *("session", "sig", "signature")
}

# A short number, a constant, a word of a vocabulary in brackets: no secret under any name.
_PLAIN = re.compile(
    r"\W{0,3}|\d{1,3}|[-+]?\d*\.\d+|<[^>]*>|\[[^\]]*\]|(?i:none|null|true|false|yes|no|on|off|auto)"
)
_MIXED = re.compile(r"(?!\d+(?:\.\d+)?[a-zA-Z%/]+\W*$)(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[^\s_/\\]{6,}")
_NUMBER = re.compile(r"[\d_.,+-]+(?:[eE][+-]?\d+)?[kKMG]?")
_DIGIT = re.compile(r"\d")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?=[a-f]*\d+[a-f]+\d)[0-9a-f]{8,}|(?=[A-F]*\d+[A-F]+\d)[0-9A-F]{8,}")
_SHUFFLED = re.compile(r"(?=.{8})[A-Za-z]+\d+[A-Za-z]+\d+|(?=.{8})\d+[A-Za-z]+\d+[A-Za-z]+")
_BASE64 = re.compile(r"(?=.{8})[A-Za-z0-9+/]+={1,2}")
_DIFFERENT = 6
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")
_DRAWN_LENGTH, _DRAWN_BITS = 16, 3.0
_RANDOM_LENGTH, _RANDOM_BITS = 20, 3.6
_EVEN_CASE, _CASE_CHANGES = 0.3, 0.35


def is_secret(name: str, value: str) -> bool:
    """Say whether `value` is a secret under `name`, of a flag, a variable, a key.

    With its dash, or the ``?`` or ``&`` of an address, a ``token`` is no word of a text.
    """
    kind = _kind(name)
    if kind == "other" or _PLAIN.fullmatch(value):
        return False
    if kind == "secret":
        return True
    if _NUMBER.fullmatch(value):
        return False
    if kind == "mixed":
        return is_mixed(value) or _is_drawn(value, has_short_parts=True)
    return kind == "token" or _is_drawn(value, has_short_parts=kind == "key")


def is_said_secret(name: str, value: str) -> bool:
    """Say whether `value` is a secret that a sentence gives: "the password is hunter2"."""
    is_variable = not name.isalpha() and _kind(name) in ("secret", "token")
    has_both = _DIGIT.search(value) and re.search("[A-Za-z]", value)
    if is_variable and (has_both or _has_drawn_case(value)):
        return True
    return (_kind(name) == "secret" or name.lower() == "token") and is_mixed(value)


def may_name_secret(name: str) -> bool:
    """Say whether there is a value that is a secret under this name."""
    return _kind(name) != "other"


def is_secret_name(name: str) -> bool:
    """Say whether a variable of this name holds a secret, not its location."""
    return _kind(name) in ("secret", "token", "key")


def _kind_of_word(word: str, before: set[str]) -> Kind:
    if not before:
        return "mixed"
    if word == "token":
        return "maybe" if _OF_TEXT & before else "token"
    return "other" if _ROUNDS & before else "secret"


@cache
def _kind(name: str) -> Kind:
    words = [word.lower() for word in _WORDS.findall(_JOINED.sub(r"\1_\2", name))]
    if not words or words[-1] in _ABOUT or words[-1].removesuffix("s") in _ABOUT:
        return "other"
    *before, last = words
    if _SECRET.search("_".join(words)):
        return "secret"
    if last == "sig" and name[0] in "?&":
        return "mixed"
    if last in _ALONE:
        is_given = last == "token" and name[0] in "-?&"
        return "token" if is_given and not before else _kind_of_word(last, set(before))
    if last in _KEYS:
        return "mixed" if last in _FLAGS and name[0] == "-" and not before else "key"
    return "maybe" if _MAYBE & set(words) else "other"


def is_mixed(value: str) -> bool:
    """Say whether a value has letters and digits, as no word, quantity or path has."""
    return bool(_MIXED.fullmatch(value))


def _is_drawn(value: str, *, has_short_parts: bool) -> bool:
    """Say whether a value was drawn and not written: an identifier, hexadecimal, or mixed."""
    if not (value.endswith("=") or _DIGIT.search(value)):
        return _has_drawn_case(value)
    if _UUID.search(value) or (has_short_parts and _BASE64.fullmatch(value)):
        return True
    return any(_is_drawn_part(part, has_short_parts) for part in set(_SEPARATORS.split(value)))


def _has_drawn_case(value: str) -> bool:
    """Say whether letters alone change between upper and lower case as in no compound word."""
    upper = [letter.isupper() for letter in value]
    changes = sum(map(ne, upper, upper[1:]))
    is_even = _EVEN_CASE * len(upper) <= sum(upper) <= (1 - _EVEN_CASE) * len(upper)
    is_long = value.isalpha() and len(value) >= _DRAWN_LENGTH
    return is_long and is_even and changes >= _CASE_CHANGES * len(upper)


@lru_cache(4096)
def _is_drawn_part(part: str, may_be_short: bool) -> bool:
    if _HEX.fullmatch(part) and (may_be_short or len(part) >= _DRAWN_LENGTH):
        return True
    if may_be_short and _SHUFFLED.search(part) and len(set(part.lower())) >= _DIFFERENT:
        return True
    has_both = not part.isalpha() and not part.isdigit()
    return has_both and len(part) >= _DRAWN_LENGTH and _entropy_bits(part) >= _DRAWN_BITS


def is_random(value: str) -> bool:
    """Say whether a value is a secret under any name: long, of all kinds, without repetition.

    Names of files, kernels and models are made of words, which separators hold apart.
    """
    longest = max(re.split(r"[/_.=+-]", value), key=len)
    kinds = [any(map(test, longest)) for test in (str.isdigit, str.islower, str.isupper)]
    return len(longest) >= _RANDOM_LENGTH and all(kinds) and _entropy_bits(longest) >= _RANDOM_BITS


def _entropy_bits(text: str) -> float:
    """Return Shannon's entropy per character."""
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
