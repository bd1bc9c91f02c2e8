"""The option `robots: respect` (RUN-26, RFC 9309)."""

from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from dpp.packs.contract import PackRequest, PackSuccess, PackType
from dpp.packs.inputs.url import UrlInputs
from dpp.packs.url import pack
from tests.packs.internet import OTHER, Internet, serve
from tests.packs.loopback import reply

AT = "http://site.test"


def run(world: Internet, *urls: str, **inputs: Any) -> PackSuccess:
    raw = {"urls": list(urls), "allow_http": True, "robots": "respect", **inputs}
    request = PackRequest(run_id="r", pack_type=PackType.URL, inputs=raw, timebox_sec=60, max_cost_usd_micros=0)
    return pack.run(UrlInputs.model_validate(raw), request, fetcher=world.fetcher, reader=world.reader)


def fetched(success: PackSuccess) -> list[Any]:
    return [result["final_url"] for result in success.data["results"]]  # type: ignore[index, union-attr, call-overload]


class Site:
    """Answers robots.txt with `rules` and `status`, and any other path with its name; remembers what was asked for."""

    def __init__(self, rules: str = "", status: int = 200, **headers: str) -> None:
        self.rules, self.status, self.headers = rules, status, headers
        self.asked: list[str] = []

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        if handler.path == "/robots.txt":
            reply(handler, self.rules.encode(), status=self.status, **self.headers)
        elif handler.path == "/away":
            reply(handler, status=302, Location="http://other.test/private/x")
        else:
            reply(handler, handler.path.encode())


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ("User-agent: *\nDisallow: /private/", ["/page"]),
        ("User-agent: *\nDisallow: /\n\nUser-agent: dpp-urlpack\nDisallow: /private", ["/page"]),
        ("User-agent: *\nDisallow: /\nAllow: /private/open", ["/private/open"]),
        ("User-agent: *\nDisallow: /*/x$", ["/page", "/private/open"]),
        ("User-agent: other\nDisallow: /", ["/page", "/private/x", "/private/open"]),
        ("\ufeffUser-agent: *\r\nDisallow: /p # all\r\n", []),
        ("", ["/page", "/private/x", "/private/open"]),
        ("<html>Not found</html>", ["/page", "/private/x", "/private/open"]),
    ],
)
def test_what_is_disallowed_is_discarded_and_not_asked_for(world: Internet, rules: str, allowed: list[str]) -> None:
    """The longest rule of the group that names us, else of `*`."""
    paths = ["/page", "/private/x", "/private/open"]
    site = Site(rules)
    with serve(world, site):
        success = run(world, *(AT + path for path in paths))
    assert fetched(success) == [AT + path for path in allowed]
    refused = [path for path in paths if path not in allowed]
    assert success.discard_log == [{"url": AT + path, "reason": "ROBOTS_DISALLOWED"} for path in refused]
    assert sorted(site.asked) == sorted(["/robots.txt", *allowed])
    assert success.reliability_score == pytest.approx(len(allowed) / 3)


def test_it_is_not_read_unless_asked_for(world: Internet) -> None:
    site = Site("User-agent: *\nDisallow: /")
    with serve(world, site):
        assert fetched(run(world, f"{AT}/page", robots="ignore")) == [f"{AT}/page"]
    assert site.asked == ["/page"]


def test_it_is_read_once_a_host(world: Internet) -> None:
    site, other = Site(), Site()
    with serve(world, site), serve(world, other, OTHER):
        success = run(world, *(f"{AT}/{number}" for number in range(10)), "http://other.test/1")
    assert len(fetched(success)) == 11
    assert (site.asked.count("/robots.txt"), other.asked.count("/robots.txt")) == (1, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 429])
def test_without_rules_everything_is_allowed(world: Internet, status: int) -> None:
    """RFC 9309 §2.3.1.3: a 4xx means that there is none."""
    with serve(world, Site("User-agent: *\nDisallow: /", status)):
        assert fetched(run(world, f"{AT}/page")) == [f"{AT}/page"]


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_error_disallows_everything(world: Internet, status: int) -> None:
    """RFC 9309 §2.3.1.4: the rules exist and can't be had."""
    site = Site("", status)
    with serve(world, site):
        success = run(world, f"{AT}/page")
    assert success.discard_log == [{"url": f"{AT}/page", "reason": "ROBOTS_UNREACHABLE"}]
    assert site.asked == ["/robots.txt"]


def test_the_rules_are_found_behind_redirects(world: Internet) -> None:
    """RFC 9309 §2.3.1.2: at least five, also to another host; the rules are the first host's."""

    def moved(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/robots.txt":
            reply(handler, status=301, Location="http://other.test/robots.txt")
        else:
            reply(handler, b"page")

    with serve(world, moved), serve(world, Site("User-agent: *\nDisallow: /private"), OTHER):
        success = run(world, f"{AT}/private/x", f"{AT}/page", max_redirect_hops=0)
    assert fetched(success) == [f"{AT}/page"]


def test_redirects_without_end_mean_no_rules(world: Internet) -> None:
    """RFC 9309 §2.3.1.2."""

    def respond(handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/robots.txt":
            reply(handler, status=302, Location="/robots.txt")
        else:
            reply(handler, b"page")

    with serve(world, respond):
        assert fetched(run(world, f"{AT}/page")) == [f"{AT}/page"]


def test_a_redirect_is_asked_of_the_host_it_leads_to(world: Internet) -> None:
    other = Site("User-agent: *\nDisallow: /private")
    with serve(world, Site()), serve(world, other, OTHER):
        success = run(world, f"{AT}/away")
    hop = "http://other.test/private/x"
    assert success.discard_log == [{"url": f"{AT}/away", "reason": "ROBOTS_DISALLOWED", "hop_url": hop}]
    assert other.asked == ["/robots.txt"]


def test_a_host_that_fails_has_its_own_reason(world: Internet) -> None:
    """The address check comes first, and a host that is not there is not there."""
    success = run(world, "http://127.0.0.1/page", "http://unknown.test/")
    assert [entry["reason"] for entry in success.blocked_log] == ["LOOPBACK"]
    assert [entry["reason"] for entry in success.discard_log] == ["DNS_FAILED"]
    assert success.reliability_score == 0


def test_a_robots_txt_of_2_mb_is_read_to_its_bound(world: Internet) -> None:
    """RFC 9309 §2.5: 500 KiB are enough."""
    rules = "User-agent: *\nDisallow: /private\n" + "Disallow: /*a*b*c*d$\n" * 100_000
    with serve(world, Site(rules)):
        success = run(world, f"{AT}/private/x", f"{AT}/page")
    assert fetched(success) == [f"{AT}/page"]
