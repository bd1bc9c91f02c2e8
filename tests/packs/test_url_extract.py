"""Title and text of pages, and that no page can make that slow (RUN-26)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.packs.url import extract as extraction
from dpp.packs.url.text import Text, is_readable

HTML = "text/html; charset=utf-8"
URL = "https://site.test/a/b"


def extract(content_type: str, body: bytes) -> Text:
    return extraction.extract(content_type, URL, body)


PAGE = """<!DOCTYPE html><html><head><title>A &amp; B</title><style>p { color: red }</style>
<script>if (a < b) document.write("<p>no</p>")</script></head>
<body><!-- <p>hidden</p> --><h1>안녕<b>하세요</b></h1><p data-x='a > b'>One<br>two</p>
<template>no</template><noscript>no</noscript><svg><title>no</title><text>1 < 2</text></svg>
<ul><li>3 < 4<li>5 &gt; 4</ul><a href="x">link</a>, done&#46;</body></html>"""


def test_a_page_is_read_as_a_reader_sees_it() -> None:
    """RUN-26: entities, scripts, comments, blocks and inline tags."""
    assert extract(HTML, PAGE.encode()) == Text("A & B", "안녕하세요 One two 1 < 2 3 < 4 5 > 4 link, done.", "page")


@pytest.mark.parametrize(
    ("content_type", "body", "excerpt"),
    [
        ("text/plain", "a\r\n\tb\0c", "a b c"),
        ("application/json", '{"a": 1}', '{"a": 1}'),
        ("text/plain", "", None),
        (HTML, "", None),
        (HTML, "<p>a</p", "a"),
        (HTML, "a<!-- never closed", "a"),
        (HTML, "a<script>never closed", "a"),
        (HTML, "a</>b<?php c?>d", "ab d".replace(" ", "")),
        (HTML, '<p class=a">b</p>', "b"),
        (HTML, "<p title='>'>b</p>", "b"),
        (HTML, "&#xD800;&#0;&nope;&amp", "\ufffd\ufffd&nope;&"),
        (HTML, "&#" + "9" * 5_000 + ";", "\ufffd"),
    ],
)
def test_odd_pages_have_a_plain_reading(content_type: str, body: str, excerpt: str | None) -> None:
    """RUN-26."""
    assert extract(content_type, body.encode()).excerpt == excerpt


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html; charset=EUC-KR", "<p>안녕</p>".encode("euc-kr")),
        ("text/html", '<meta charset="euc-kr"><p>안녕</p>'.encode("euc-kr")),
        ("text/html", "<p>안녕</p>".encode()),
        ("text/html; charset=zip", "<p>안녕</p>".encode()),
        ("text/html; charset=unicode_escape", "<p>안녕</p>".encode()),
        ("text/html; charset=iso-8859-99", "<p>안녕</p>".encode()),
    ],
)
def test_korean_is_read_in_the_charset_it_is_written_in(content_type: str, body: bytes) -> None:
    """RUN-26: only charsets, none of the other things that Python calls a codec."""
    assert extract(content_type, body).excerpt == "안녕"


@pytest.mark.parametrize(
    ("content_type", "readable"),
    [
        ("text/html", True),
        ("TEXT/HTML;charset=x", True),
        ("application/json", True),
        ("application/pdf", False),
        ("image/svg+xml", False),
        ("", False),
    ],
)
def test_only_text_is_read(content_type: str, readable: bool) -> None:
    """RUN-26."""
    assert is_readable(content_type) is readable


@given(st.text(alphabet="<>/!-ab \"'=&;#x0tile", max_size=200))
def test_any_page_has_a_reading_without_controls(page: str) -> None:
    """RUN-26."""
    text = extract(HTML, page.encode())
    for part in (text.title, text.excerpt):
        assert part is None or part.strip() == part != ""
