"""Forms of secrets, from the command lines and files of known programs: all of them are masked."""

import re
import shlex

from profkit.core.secret_masking import Masker
from tests.core.secret_forms import HARMLESS, SECRETS, lines_of

# The one that most lines have, and it in base64.
VALUE = re.compile("hunter2|aHVudGVy|bWU6aHV")


def _is_left(masked, line):
    return masked == line or bool(VALUE.search(masked))


def test_a_secret_is_masked_in_every_form():
    masked = {line: Masker({}).text(line) for line in lines_of(SECRETS)}
    assert len(masked) > 200
    assert [line for line, text in masked.items() if _is_left(text, line)] == []


def test_what_only_looks_like_a_secret_stays():
    masked = {line: Masker({}).text(line) for line in lines_of(HARMLESS)}
    assert len(masked) > 150
    assert {line: text for line, text in masked.items() if line != text} == {}


def test_the_words_of_a_command_are_masked_like_its_text():
    programs = ("mysql", "docker", "redis", "sshpass", "curl", "ldap", "az ", "sqlcmd", "mongo")
    lines = [line for line in lines_of(SECRETS) if line.startswith(programs) and "<" not in line]
    words = {line: Masker({}).document(shlex.split(line)) for line in lines}
    assert len(words) > 20
    assert [line for line, masked in words.items() if VALUE.search(str(masked))] == []
