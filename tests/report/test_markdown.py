"""Texts of strangers in Markdown, as a reader of CommonMark with tables shows them."""

import re

import pytest
from markdown_it import MarkdownIt

from profkit.core.secret_masking import Masker
from profkit.report.markdown import Words, table
from tests.hostile_names import PAYLOADS

WORDS = Words(Masker({"HF_TOKEN": "abc*def_123"}))
READER = MarkdownIt("commonmark", {"html": True}).enable("table")
PLACES = {
    "a heading": lambda text: f"# {WORDS.plain(text)}",
    "a sentence": lambda text: f"- {WORDS.prose(text)}",
    "code": lambda text: f"1. {WORDS.code(text)}",
    "a block": lambda text: "\n".join(WORDS.block(text)),
    "a cell": lambda text: "\n".join(table(["a", "b"], [[WORDS.plain(text), WORDS.code(text)]])),
}


def elements(text):
    """Return the elements of a page of `text`, but for code, which does nothing."""
    page = re.sub(r"<code.*?</code>", "", READER.render(text), flags=re.DOTALL)
    return re.findall(r"<(?!!--)(\w+)", page)


@pytest.mark.parametrize("place", PLACES)
def test_no_name_is_more_than_text_wherever_it_stands(place):
    plain = elements(PLACES[place]("name"))
    assert [payload for payload in PAYLOADS if elements(PLACES[place](payload)) != plain] == []


def test_no_name_calls_a_person_or_becomes_a_link_by_itself():
    calls = re.compile(r"(?<!\\)://|www\.|(?<!\w)@\w|[#!]\d")
    assert len([payload for payload in PAYLOADS if calls.search(payload)]) > 8
    assert [payload for payload in PAYLOADS if calls.search(WORDS.plain(payload))] == []


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("aten::mm in step_time (a.py:3)", "aten::mm in step_time (a.py:3)"),
        ("set `a_b` to *4*", r"set `a_b` to \*4\*"),
        ("_private __init__", r"\_private \_\_init\_\_"),
        ("token abc*def_123 of 1|2", r"token \[masked\] of 1\|2"),
        ("one ` tick", r"one \` tick"),
    ],
)
def test_a_sentence_stays_readable_and_has_no_secret(text, written):
    assert WORDS.prose(text) == written


def test_only_pages_of_the_web_become_links():
    assert WORDS.link("source", "https://a.org/b_(c)") == "[source](<https://a.org/b_(c)>)"
    assert WORDS.link("source", "javascript:a") == WORDS.link("source", "https://a.org/>x") == ""
