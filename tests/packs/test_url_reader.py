"""Hostile pages: each costs its own time and memory, and no other page (RUN-26, RUN-17)."""

import os
import signal
import time

import pytest

from dpp.packs.contract import PackRequest, PackType
from dpp.packs.inputs.url import UrlInputs
from dpp.packs.url import pack
from dpp.packs.url.fetch import MAX_BODY_BYTES
from dpp.packs.url.reader import PageReader, Reading
from dpp.packs.url.reasons import Discard, DiscardedError
from dpp.packs.url.text import EXCERPT_CHARACTERS, TITLE_CHARACTERS
from tests.packs.internet import Internet, serve
from tests.packs.loopback import reply

HTML = "text/html; charset=utf-8"
LONG_SECONDS = 600  # what ends earlier ended by a limit of its own, however slow the machine


def read(reader: PageReader, page: str, content_type: str = HTML) -> Reading | None:
    return reader.read(content_type, "https://site.test/", page.encode(), deadline=time.monotonic() + LONG_SECONDS)


def filled(piece: str, *, before: str = "") -> str:
    """Two megabytes of a piece, the most that a fetch hands over."""
    return before + piece * ((MAX_BODY_BYTES - len(before)) // len(piece))


@pytest.mark.parametrize(
    "piece",
    [
        *("<div>", "<b>", "<a><table>", "<svg>", "<svg><math>", "<ul><li>", "<b></p>", "<font color=red>x<p>"),
        *("<template>", "<select><option>", "<nobr>", "<button>", "<frameset>", "<form><input>", "<table><tr><td>"),
        *("<", "</", "<!--", "<!---->", "<![CDATA[", "<svg><![CDATA[", "<a ", '<a x="', "<a x='", "<p a=1 "),
        *(
            "<script>",
            "<script></script>",
            "<title>",
            "</title",
            "&",
            "&amp;",
            "&#x1;",
            " ",
            "a ",
            "<p>a",
            "</p>",
            "\0",
        ),
    ],
)
def test_two_megabytes_of_anything_are_read(reader: PageReader, piece: str) -> None:
    """By the whole page or by its beginning, whose words are kept."""
    reading = read(reader, filled(piece, before="<title>t</title><p>hello</p>"))
    assert reading is not None
    assert reading.text.title == "t"
    assert (reading.text.excerpt or "").startswith("hello")
    assert len(reading.text.excerpt or "") <= EXCERPT_CHARACTERS


@pytest.mark.parametrize(
    "page",
    [
        "".join(f"<b a={number}>" for number in range(120_000)),
        "<p " + " ".join(f"a{number}=1" for number in range(200_000)) + ">",
        "<p>" + "".join(f"<b a={number}>" for number in range(500)) + "</p><p>x" * 200_000,
        '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "' + "a" * 1_000 + '"><!ENTITY b "' + "&a;" * 1_000 + '">]>&b;',
    ],
)
def test_a_page_made_for_a_parser_ends_by_its_limit(reader: PageReader, page: str) -> None:
    """Formatting elements that differ, attributes that are compared with each other, entities of entities."""
    reading = read(reader, page)
    assert reading is None or len(reading.text.title or "") <= TITLE_CHARACTERS
    after = read(reader, "<p>next")
    assert after is not None
    assert after.text.excerpt == "next"


@pytest.mark.parametrize("content_type", [HTML, "text/plain", "application/json", "text/xml"])
def test_text_without_a_space_is_read(reader: PageReader, content_type: str) -> None:
    reading = read(reader, "가" * (MAX_BODY_BYTES // 3), content_type)
    assert reading is not None
    assert reading.text.excerpt == "가" * EXCERPT_CHARACTERS


def test_ten_megabytes_without_a_space_are_cut_and_read(world: Internet) -> None:
    """As a whole run: cut at the cap, within its timebox."""
    raw = {"urls": ["http://site.test/"], "allow_http": True}
    request = PackRequest(run_id="r", pack_type=PackType.URL, inputs=raw, timebox_sec=60, max_cost_usd_micros=0)
    with serve(world, lambda handler: reply(handler, b"x" * 10_000_000, content_type=HTML)):
        success = pack.run(UrlInputs.model_validate(raw), request, fetcher=world.fetcher, reader=world.reader)
    assert success.data["results"][0]["text_excerpt"] == "x" * EXCERPT_CHARACTERS  # type: ignore[index, call-overload]
    assert success.discard_log == [{"url": "http://site.test/", "reason": "CONTENT_TOO_LARGE"}]


def test_a_body_of_nothing_is_a_result_without_text(reader: PageReader) -> None:
    reading = read(reader, "")
    assert reading is not None
    assert reading.text.excerpt is None


def test_a_page_that_can_not_be_read_is_no_success(world: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result stays, marked; the log says why it has no text."""
    monkeypatch.setattr(PageReader, "read", lambda *_arguments, **_options: None)
    raw = {"urls": ["http://site.test/"], "allow_http": True}
    request = PackRequest(run_id="r", pack_type=PackType.URL, inputs=raw, timebox_sec=60, max_cost_usd_micros=0)
    with serve(world, reply):
        success = pack.run(UrlInputs.model_validate(raw), request, fetcher=world.fetcher, reader=world.reader)
    assert success.data["results"][0]["marks"] == ["TRUNCATED"]  # type: ignore[index, call-overload]
    assert success.discard_log == [{"url": "http://site.test/", "reason": "TEXT_NOT_READ"}]
    assert success.reliability_score == 0


def test_a_page_is_late_at_the_deadline_and_the_next_is_not() -> None:
    """The process that was still busy is replaced."""
    with PageReader() as reader:
        with pytest.raises(DiscardedError) as late:
            reader.read(HTML, "https://site.test/", b"<div>" * 400_000, deadline=time.monotonic() + 0.01)
        assert late.value.reason is Discard.TIMEOUT
        following = read(reader, "<p>next")
    assert following is not None
    assert following.text.excerpt == "next"


def test_a_process_that_was_killed_is_replaced() -> None:
    with PageReader() as reader:
        assert read(reader, "<p>one") is not None
        process = reader._process
        assert process is not None
        os.killpg(process._popen.pid, signal.SIGKILL)
        assert read(reader, "<p>lost") is None
        following = read(reader, "<p>next")
    assert following is not None
    assert following.text.excerpt == "next"


def test_nothing_is_left_behind() -> None:
    """Neither the process nor a page's child."""
    with PageReader() as reader:
        assert read(reader, "<p>one") is not None
        process = reader._process
        assert process is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process._popen.pid, 0)
