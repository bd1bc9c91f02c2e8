"""Fetching over real sockets on loopback: the check, TLS, redirects, bounds (RUN-26)."""

import gzip
import socket
import threading
import time
import zlib
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from dpp.packs.url.fetch import MAX_BODY_BYTES
from dpp.packs.url.reasons import Block, BlockedError, Discard, DiscardedError
from tests.packs.certificates import Authority
from tests.packs.internet import DEAD, OTHER, SITE, Internet, Route, serve
from tests.packs.loopback import reply, serving
from tests.packs.ssrf_vectors import DISGUISED_HOSTS, MALFORMED_URLS, REFUSED_ADDRESSES


class TestTheCheck:
    """Every address of every hop is checked, and what was checked is what is connected to (RUN-26)."""

    @pytest.mark.parametrize(("host", "address"), DISGUISED_HOSTS.items())
    def test_a_disguised_address_is_blocked_without_asking_or_dialling(
        self, world: Internet, host: str, address: str
    ) -> None:
        """RUN-26."""
        with pytest.raises(BlockedError) as blocked:
            world.get(f"https://{host}/")
        assert blocked.value.resolved_ip == address
        assert blocked.value.hop_url is None
        assert (world.asked, world.dialer.dialled) == ([], [])

    @pytest.mark.parametrize(("address", "reason"), REFUSED_ADDRESSES.items())
    def test_a_name_of_a_refused_address_is_blocked(self, world: Internet, address: str, reason: Block) -> None:
        """RUN-26."""
        world.names["evil.test"] = [[address]]
        with pytest.raises(BlockedError) as blocked:
            world.get("https://evil.test/")
        assert (blocked.value.resolved_ip, blocked.value.reason) == (address, reason)
        assert world.dialer.dialled == []

    @pytest.mark.parametrize("answer", [[SITE, "10.0.0.1"], ["::1", SITE], [SITE, OTHER, "169.254.169.254"]])
    def test_one_refused_address_among_public_ones_blocks_the_name(self, world: Internet, answer: list[str]) -> None:
        """RUN-26."""
        world.names["evil.test"] = [answer]
        with pytest.raises(BlockedError):
            world.get("https://evil.test/")
        assert world.dialer.dialled == []

    def test_a_redirect_to_any_hostile_place_is_refused(self, world: Internet) -> None:
        """RUN-26: the whole corpus, one server."""
        hostile = [f"https://{host}/" for host in DISGUISED_HOSTS]
        hostile += [f"//{host}/" for host in DISGUISED_HOSTS]
        hostile += [url for url in MALFORMED_URLS if url.startswith("https://") and url == url.strip()]
        hostile = [url for url in hostile if "\n" not in url]  # would end the header, not be in it
        place = iter(hostile)

        def respond(handler: BaseHTTPRequestHandler) -> None:
            location = next(place).encode(errors="surrogatepass")
            handler.wfile.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n")

        with serve(world, respond):
            for url in hostile:
                with pytest.raises((BlockedError, DiscardedError)) as refused:
                    world.get()
                reached = getattr(refused.value, "resolved_ip", None)
                assert reached in {None, *DISGUISED_HOSTS.values()}, url
        assert set(world.dialer.dialled) == {(SITE, 80)}
        assert set(world.asked) == {"site.test"}

    def test_a_blocked_redirect_says_where(self, world: Internet) -> None:
        """RUN-26."""
        with (
            serve(world, lambda handler: reply(handler, status=302, Location="https://0x7f.1/x")),
            pytest.raises(BlockedError) as blocked,
        ):
            world.get()
        assert blocked.value.hop_url == "https://127.0.0.1/x"

    def test_a_name_that_turns_private_between_two_looks_gains_nothing(self, world: Internet) -> None:
        """RUN-26, DNS rebinding: one look-up a hop, and the connection goes to what it answered."""
        world.names["rebind.test"] = [[SITE], ["127.0.0.1"]]
        with serve(world, lambda handler: reply(handler, b"public")):
            assert world.get("http://rebind.test/").body == b"public"
        assert world.asked == ["rebind.test"]
        assert world.dialer.dialled == [(SITE, 80)]

    def test_a_name_that_turns_private_at_the_next_hop_is_blocked_there(self, world: Internet) -> None:
        """RUN-26: a new look-up and a new check at every hop."""
        world.names["rebind.test"] = [[SITE], ["169.254.169.254"]]
        with (
            serve(world, lambda handler: reply(handler, status=302, Location="/again")),
            pytest.raises(BlockedError) as blocked,
        ):
            world.get("http://rebind.test/")
        assert blocked.value.reason is Block.METADATA
        assert world.dialer.dialled == [(SITE, 80)]

    def test_the_next_address_is_tried_when_one_does_not_answer(self, world: Internet) -> None:
        """RUN-26."""
        world.names["site.test"] = [[DEAD, SITE]]
        with serve(world, lambda handler: reply(handler, b"here")):
            assert world.get().body == b"here"
        world.names["site.test"] = [[DEAD]]
        assert world.discarded() is Discard.CONNECT_FAILED

    def test_no_proxy_of_the_environment_is_used(self, world: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
        """RUN-26."""
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        with serve(world, lambda handler: reply(handler, b"direct")):
            assert world.get().body == b"direct"


class TestTLS:
    """Verified against the name, although the connection was made to an address (RUN-26)."""

    def https(self, world: Internet, authority: Authority, name: str, *, trusted: bool = True) -> Any:
        context = authority.server_context(name, trusted=trusted)
        context.sni_callback = lambda _socket, sni, _context: self.seen.append(sni)
        server = serving(lambda handler: reply(handler, handler.headers["Host"].encode()), tls=context)
        return Route(world, (SITE, 443), server)

    @pytest.fixture(autouse=True)
    def _seen(self) -> None:
        self.seen: list[str | None] = []

    def test_a_certificate_of_the_name_is_accepted_and_the_name_is_sent(
        self, world: Internet, authority: Authority
    ) -> None:
        """RUN-26: SNI and Host carry the name."""
        with self.https(world, authority, "site.test"):
            page = world.get("https://SITE.test./", http=False)
        assert page.body == b"site.test"
        assert self.seen == ["site.test"]

    def test_an_address_needs_a_certificate_of_the_address(self, world: Internet, authority: Authority) -> None:
        """RUN-26."""
        with self.https(world, authority, SITE):
            assert world.get(f"https://{SITE}/").status_code == 200
        with self.https(world, authority, "site.test"):
            assert world.discarded(f"https://{SITE}/") is Discard.TLS_FAILED

    @pytest.mark.parametrize(("name", "trusted"), [("other.test", True), ("site.test", False)])
    def test_a_certificate_of_another_name_or_a_stranger_is_refused(
        self, world: Internet, authority: Authority, name: str, trusted: bool
    ) -> None:
        """RUN-26."""
        with self.https(world, authority, name, trusted=trusted):
            assert world.discarded("https://site.test/") is Discard.TLS_FAILED

    def test_a_server_that_speaks_no_tls_is_refused(self, world: Internet) -> None:
        """RUN-26."""
        with Route(world, (SITE, 443), serving(reply)):
            assert world.discarded("https://site.test/") is Discard.TLS_FAILED

    def test_a_redirect_from_https_to_http_is_refused(self, world: Internet, authority: Authority) -> None:
        """RUN-26."""
        context = authority.server_context("site.test")
        server = serving(lambda handler: reply(handler, status=301, Location="http://site.test/"), tls=context)
        with Route(world, (SITE, 443), server):
            assert world.discarded("https://site.test/", http=False) is Discard.NON_HTTPS
        assert world.dialer.dialled == [(SITE, 443)]


class TestRedirects:
    """Followed by hand, at most five, carrying nothing along (RUN-26)."""

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_five_are_followed_and_six_are_not(self, world: Internet, status: int) -> None:
        """RUN-26."""

        def respond(handler: BaseHTTPRequestHandler) -> None:
            left = int(handler.path.removeprefix("/"))
            if left:
                reply(handler, status=status, Location=f"/{left - 1}")
            else:
                reply(handler, b"end")

        with serve(world, respond):
            assert world.get("http://site.test/5").final_url == "http://site.test/0"
            assert world.discarded("http://site.test/6") is Discard.TOO_MANY_REDIRECTS
            assert world.discarded("http://site.test/1", hops=0) is Discard.TOO_MANY_REDIRECTS
        assert len(world.dialer.dialled) == 6 + 6 + 1

    def test_a_redirect_without_a_location_is_the_page(self, world: Internet) -> None:
        """RUN-26."""
        with serve(world, lambda handler: reply(handler, b"nowhere", status=302)):
            assert world.get().status_code == 302

    def test_neither_cookies_nor_a_referer_go_to_the_next_hop(self, world: Internet) -> None:
        """RUN-26."""
        sent: list[dict[str, str]] = []

        def respond(handler: BaseHTTPRequestHandler) -> None:
            sent.append(dict(handler.headers.items()))
            reply(handler, status=302, Location="http://other.test/", Set_Cookie="a=b")

        def arrived(handler: BaseHTTPRequestHandler) -> None:
            sent.append(dict(handler.headers.items()))
            reply(handler)

        with serve(world, respond), serve(world, arrived, OTHER):
            assert world.get().final_url == "http://other.test/"
        assert [headers.pop("Host") for headers in sent] == ["site.test", "other.test"]
        assert sent[0] == sent[1]
        assert set(sent[0]) == {"User-Agent", "Accept", "Accept-Encoding", "Connection"}


class TestBounds:
    """Nothing a server does makes a fetch larger or longer than it may be (RUN-26)."""

    @pytest.mark.parametrize(("extra", "truncated"), [(0, False), (1, True), (500_000, True)])
    def test_a_body_is_cut_at_two_megabytes(self, world: Internet, extra: int, truncated: bool) -> None:
        """RUN-26."""
        body = b"x" * (MAX_BODY_BYTES + extra)
        with serve(world, lambda handler: reply(handler, body)):
            page = world.get()
        assert (len(page.body), page.too_large) == (MAX_BODY_BYTES, truncated)

    def test_a_decompression_bomb_counts_with_what_it_unfolds_to(self, world: Internet) -> None:
        """RUN-26: 50 MB in 50 KB."""
        squeeze = zlib.compressobj(9, wbits=31)
        bomb = b"".join(squeeze.compress(bytes(1_000_000)) for _ in range(50)) + squeeze.flush()
        with serve(world, lambda handler: reply(handler, bomb, Content_Encoding="gzip")):
            page = world.get()
        assert (len(page.body), page.too_large) == (MAX_BODY_BYTES, True)

    def test_endless_empty_gzip_members_end(self, world: Internet) -> None:
        """RUN-26: nothing decoded is no licence to send for ever."""
        with serve(world, lambda handler: reply(handler, gzip.compress(b"") * 500_000, Content_Encoding="gzip")):
            assert world.get().too_large

    def test_gzip_of_several_members_is_read_whole(self, world: Internet) -> None:
        """RUN-26, RFC 1952."""
        body = gzip.compress(b"one ") + gzip.compress(b"two")
        with serve(world, lambda handler: reply(handler, body, Content_Encoding="GZIP")):
            assert world.get().body == b"one two"

    @pytest.mark.parametrize("encoding", ["deflate", "br, gzip", "gzip, gzip", "compress"])
    def test_an_encoding_that_was_not_offered_is_refused(self, world: Internet, encoding: str) -> None:
        """RUN-26."""
        with serve(world, lambda handler: reply(handler, b"x", Content_Encoding=encoding)):
            assert world.discarded() is Discard.UNSUPPORTED_ENCODING

    def test_a_body_that_is_not_wanted_is_not_read(self, world: Internet) -> None:
        """RUN-26: content types."""
        with serve(world, lambda handler: reply(handler, b"x" * 5_000_000, content_type="video/mp4")):
            page = world.get(wanted=lambda content_type: content_type != "video/mp4")
        assert (page.content_type, page.body, page.too_large) == ("video/mp4", b"", False)

    @pytest.mark.parametrize(
        "answer",
        [
            b"nonsense\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
            b"",
        ],
    )
    def test_a_server_that_speaks_no_http_is_discarded(self, world: Internet, answer: bytes) -> None:
        """RUN-26."""

        def respond(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(answer)

        with serve(world, respond):
            assert world.discarded() is Discard.PROTOCOL_ERROR

    @pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
    def test_a_server_that_drips_is_late_like_any_other(self, world: Internet, beginning: bytes) -> None:
        """RUN-26: the limit is on the whole, not on each read."""

        def drip(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(beginning)
            while True:  # until the client hangs up
                handler.wfile.write(b"a")
                time.sleep(0.02)

        with serve(world, drip):
            assert_in_time(world)

    def test_redirects_share_one_limit(self, world: Internet) -> None:
        """RUN-26."""

        def respond(handler: BaseHTTPRequestHandler) -> None:
            time.sleep(0.15)
            reply(handler, status=302, Location="/")

        with serve(world, respond):
            assert_in_time(world)

    def test_a_server_silent_in_the_tls_handshake_is_late(self, world: Internet) -> None:
        """RUN-26."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            world.dialer.routes[SITE, 443] = silent.getsockname()[1]
            assert_in_time(world, "https://site.test/")

    def test_a_resolver_that_does_not_answer_is_late_too(self, world: Internet) -> None:
        """RUN-26: getaddrinfo has no timeout of its own."""
        release = threading.Event()

        def resolve(_host: str) -> Sequence[str]:
            release.wait()
            return [SITE]

        world.fetcher._resolver = resolve
        try:
            assert_in_time(world)
        finally:
            release.set()

    def test_an_unknown_name_is_a_dns_failure(self, world: Internet) -> None:
        """RUN-26."""
        assert world.discarded("https://unknown.test/") is Discard.DNS_FAILED


def assert_in_time(world: Internet, url: str = "http://site.test/") -> None:
    """Nothing but the limit ends this fetch."""
    assert world.discarded(url, seconds=0.4) is Discard.TIMEOUT
