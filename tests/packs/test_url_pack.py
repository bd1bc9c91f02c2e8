"""The url pack as a whole: what it answers, logs and costs, within its timebox (RUN-26)."""

import threading
import time
from datetime import datetime
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

import pytest
from pydantic import ValidationError

from dpp.packs.contract import PACK_RESULT, PackRequest, PackSuccess, PackType
from dpp.packs.frames import MAX_ANSWER_BYTES
from dpp.packs.inputs.url import UrlInputs
from dpp.packs.url import pack
from dpp.packs.url.fetch import MAX_BODY_BYTES
from dpp.packs.url.pack import CONCURRENT_FETCHES
from dpp.packs.url.reader import PageReader, Reading
from tests.packs.internet import OTHER, Internet, serve
from tests.packs.loopback import reply

HANGS_SECONDS = 60
FETCH_SECONDS = 30  # the limit of one fetch; what ends earlier ended with the timebox, however slow the machine


def run(world: Internet, urls: list[str], *, timebox_sec: int = 10, **inputs: Any) -> PackSuccess:
    raw = {"urls": urls, "allow_http": True, **inputs}
    request = PackRequest(
        run_id="run", pack_type=PackType.URL, inputs=raw, timebox_sec=timebox_sec, max_cost_usd_micros=0
    )
    return pack.run(UrlInputs.model_validate(raw), request, fetcher=world.fetcher, reader=world.reader)


def results_of(success: PackSuccess) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", success.data["results"])


def respond(handler: BaseHTTPRequestHandler) -> None:
    match handler.path:
        case "/page":
            html = b"<title>Title</title><p>Text</p>"
            reply(handler, html, content_type="text/html; charset=utf-8")
        case "/large":
            reply(handler, b"x" * (MAX_BODY_BYTES + 1))
        case "/missing":
            reply(handler, b"gone", status=404)
        case "/image":
            reply(handler, b"\x89PNG", content_type="image/png")
        case "/inside":
            reply(handler, status=302, Location="https://169.254.169.254/latest/meta-data/")
        case "/away":
            reply(handler, status=302, Location="http://other.test/page")
        case "/slow":
            time.sleep(3)
            reply(handler, b"late")
        case _:
            reply(handler, handler.path.encode())


def test_each_url_ends_in_a_result_or_a_log(world: Internet) -> None:
    """RUN-26: the locked shapes, in the order of the inputs."""
    paths = ["/page", "/away", "/missing", "/image", "/large", "/inside", "/page"]
    urls = [f"http://site.test{path}" for path in paths]
    urls += ["https://2130706433/", "http://unknown.test/", "gopher://x/", "https://user@site.test/"]
    with serve(world, respond), serve(world, respond, OTHER):
        success = run(world, urls)

    results = results_of(success)
    for result in results:
        assert datetime.fromisoformat(result.pop("fetched_at")).tzinfo is not None
    page = {"status_code": 200, "content_type": "text/html; charset=utf-8", "title": "Title"}
    page |= {"text_excerpt": "Text", "excerpt_of": "page"}
    text = {"content_type": "text/plain; charset=utf-8", "excerpt_of": "page"}
    at = "http://site.test"
    assert results == [
        {"url": f"{at}/page", "final_url": f"{at}/page", **page},
        {"url": f"{at}/away", "final_url": "http://other.test/page", **page},
        {"url": f"{at}/missing", "final_url": f"{at}/missing", "status_code": 404, **text, "text_excerpt": "gone"},
        {"url": f"{at}/image", "final_url": f"{at}/image", "status_code": 200, "content_type": "image/png"},
        {
            "url": f"{at}/large",
            "final_url": f"{at}/large",
            "status_code": 200,
            **text,
            "text_excerpt": "x" * 4_000,
            "marks": ["TRUNCATED"],
        },
    ]
    assert success.discard_log == [
        {"url": f"{at}/page", "reason": "DUPLICATE_URL"},
        {"url": f"{at}/large", "reason": "CONTENT_TOO_LARGE"},
        {"url": "http://unknown.test/", "reason": "DNS_FAILED"},
        {"url": "gopher://x/", "reason": "UNSUPPORTED_SCHEME"},
        {"url": "https://user@site.test/", "reason": "INVALID_URL"},
    ]
    assert success.blocked_log == [
        {
            "url": f"{at}/inside",
            "resolved_ip": "169.254.169.254",
            "reason": "METADATA",
            "hop_url": "https://169.254.169.254/latest/meta-data/",
        },
        {"url": "https://2130706433/", "resolved_ip": "127.0.0.1", "reason": "LOOPBACK"},
    ]
    # 5,000 + 5 results at 1,000 + 2,097,218 bytes, which is 21 started steps of 100 KB at 100.
    assert success.cost_usd_micros == 12_100
    assert PACK_RESULT.validate_json(PACK_RESULT.dump_json(success)) == success


def test_what_is_not_done_within_the_timebox_is_a_timeout_and_the_rest_is_kept(world: Internet) -> None:
    """RUN-17, RUN-26."""
    urls = ["http://site.test/1", "http://site.test/slow", "http://site.test/2"]
    over = threading.Event()

    def respond_or_hang(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/slow":
            over.wait(HANGS_SECONDS)
        else:
            respond(handler)

    started = time.monotonic()
    with serve(world, respond_or_hang):
        success = run(world, urls, timebox_sec=2, fetch_timeout_sec=FETCH_SECONDS)
        assert time.monotonic() - started < FETCH_SECONDS
        over.set()
    assert [result["text_excerpt"] for result in results_of(success)] == ["/1", "/2"]
    assert success.discard_log == [{"url": "http://site.test/slow", "reason": "TIMEOUT"}]


def test_thirty_silent_servers_do_not_outlast_the_timebox(world: Internet) -> None:
    """RUN-17, RUN-26: those that had not even begun are timeouts too."""
    over = threading.Event()

    def silent(_handler: BaseHTTPRequestHandler) -> None:
        over.wait(HANGS_SECONDS)

    started = time.monotonic()
    with serve(world, silent):
        success = run(
            world,
            [f"http://site.test/{number}" for number in range(30)],
            timebox_sec=2,
            fetch_timeout_sec=FETCH_SECONDS,
        )
        assert time.monotonic() - started < FETCH_SECONDS
        over.set()
    assert [entry["reason"] for entry in success.discard_log] == ["TIMEOUT"] * 30
    assert success.cost_usd_micros == 5_000


def test_the_limit_of_one_url_is_the_clients(world: Internet) -> None:
    """RUN-26: fetch_timeout_sec."""
    with serve(world, respond):
        success = run(world, ["http://site.test/slow", "http://site.test/1"], fetch_timeout_sec=1)
    assert success.discard_log == [{"url": "http://site.test/slow", "reason": "TIMEOUT"}]
    assert len(results_of(success)) == 1


def test_only_so_many_are_fetched_at_once(world: Internet) -> None:
    """RUN-26."""
    lock, now, most = threading.Lock(), 0, 0

    def count(handler: BaseHTTPRequestHandler) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.02)
        with lock:
            now -= 1
        reply(handler)

    with serve(world, count):
        assert len(results_of(run(world, [f"http://site.test/{number}" for number in range(20)]))) == 20
    assert 1 < most <= CONCURRENT_FETCHES


def test_urls_beyond_max_urls_are_discarded(world: Internet) -> None:
    """RUN-26."""
    with serve(world, respond):
        success = run(world, ["http://site.test/1", "http://site.test/1", "http://site.test/2"], max_urls=1)
    assert len(results_of(success)) == 1
    assert [entry["reason"] for entry in success.discard_log] == ["DUPLICATE_URL", "MAX_URLS_EXCEEDED"]


def test_the_fullest_answer_fits_the_envelope(world: Internet) -> None:
    """RUN-18, RUN-26: thirty of the longest URLs, titles and excerpts."""
    wide = "\N{SPEAK-NO-EVIL MONKEY}"

    def long(handler: BaseHTTPRequestHandler) -> None:
        html = f"<title>{wide * 400}</title>{wide * 5_000}"
        reply(handler, html.encode(), content_type="text/html; charset=utf-8")

    urls = [f"http://site.test/{number:02}" + "가" * 400 for number in range(30)]
    with serve(world, long):
        success = run(world, urls)
    assert len(results_of(success)) == 30
    assert len(PACK_RESULT.dump_json(success)) < MAX_ANSWER_BYTES


def test_a_fault_in_one_page_costs_no_other(world: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-26."""

    read = PageReader.read

    def fragile(reader: PageReader, content_type: str, url: str, body: bytes, *, deadline: float) -> Reading | None:
        return read(reader, content_type, url, body if body != b"/bad" else body[: 1 // 0], deadline=deadline)

    monkeypatch.setattr(PageReader, "read", fragile)
    with serve(world, respond):
        success = run(world, ["http://site.test/bad", "http://site.test/good"])
    assert success.discard_log == [{"url": "http://site.test/bad", "reason": "INTERNAL_ERROR"}]
    assert len(results_of(success)) == 1


@pytest.mark.parametrize(
    "inputs",
    [
        {"urls": []},
        {"urls": ["https://a.test/"] * 31},
        {"urls": ["https://a.test/" + "a" * 2_048]},
        {"urls": [""]},
        {"urls": "https://a.test/"},
        {"urls": ["https://a.test/"], "block_private_ip": False},
        {"urls": ["https://a.test/"], "max_redirect_hops": 6},
        {"urls": ["https://a.test/"], "max_redirect_hops": -1},
        {"urls": ["https://a.test/"], "fetch_timeout_sec": 31},
        {"urls": ["https://a.test/"], "fetch_timeout_sec": "10"},
        {"urls": ["https://a.test/"], "max_urls": 0},
        {"urls": ["https://a.test/"], "allow_http": True, "allow_https_only": True},
        {"urls": ["https://a.test/"], "proxy": "http://127.0.0.1"},
    ],
)
def test_inputs_out_of_bounds_are_refused(inputs: dict[str, Any]) -> None:
    """RUN-3, RUN-26: among them the switch that would turn the check off."""
    with pytest.raises(ValidationError):
        UrlInputs.model_validate(inputs)


def test_defaults_are_those_of_the_document() -> None:
    """RUN-26, 001 §9.4.2."""
    inputs = UrlInputs(urls=["https://a.test/"])
    assert (inputs.max_urls, inputs.fetch_timeout_sec, inputs.max_redirect_hops) == (30, 10, 5)
    assert (inputs.block_private_ip, inputs.allow_https_only, inputs.allow_http) == (True, True, False)
    assert not inputs.plain_http_allowed
    assert UrlInputs(urls=["http://a.test/"], allow_https_only=False).plain_http_allowed
