"""Fetches one URL: redirects by hand, every hop parsed, resolved and checked anew, everything bounded (RUN-26).

httpcore directly, without httpx above it: httpx would parse the URL a second time, follow redirects, keep
cookies, and decompress a chunk to whatever size it has. Nothing is carried from hop to hop.
"""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import httpcore

from dpp.packs.url.compression import ACCEPTED, decoder
from dpp.packs.url.network import CheckedBackend, Resolver, time_left
from dpp.packs.url.reasons import Discard, DiscardedError, UrlError
from dpp.packs.url.target import Target, parse, redirected

MAX_BODY_BYTES = 2 * 1024 * 1024
"""Of decoded bytes: a compressed bomb counts with what it unfolds to."""

_MAX_RAW_BYTES = 2 * MAX_BODY_BYTES
"""Of bytes on the wire, for a stream that unfolds to nothing."""

USER_AGENT = "DPP-URLPack/0.4.2.2"

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = (
    (b"User-Agent", USER_AGENT.encode()),
    (b"Accept", b"text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.5"),
    (b"Accept-Encoding", ACCEPTED),
    (b"Connection", b"close"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """The last hop's response. `body` is empty if `wanted` rejected its content type.

    `too_large`: the body went on beyond the cap. `cut`: its compressed data lacked the end or was damaged.
    """

    final_url: str
    status_code: int
    content_type: str
    body: bytes
    too_large: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """The client's limits; `deadline` is in `time.monotonic()` and covers all hops."""

    deadline: float
    max_redirect_hops: int
    plain_http_allowed: bool


class Fetcher:
    """Fetches pages from public addresses. `dialer` opens the connections, to addresses it is given."""

    def __init__(self, *, resolver: Resolver, dialer: httpcore.NetworkBackend, ssl_context: ssl.SSLContext) -> None:
        self._resolver = resolver
        self._dialer = dialer
        self._ssl_context = ssl_context

    def fetch(
        self,
        url: str,
        limits: Limits,
        *,
        wanted: Callable[[str], bool],
        admit: Callable[[Target], None] = lambda _target: None,
    ) -> Page:
        """The page at the end of the redirects; its body only if its content type is `wanted`.

        `admit` is asked before each hop and raises for one that is not to be requested. Raises DiscardedError or
        BlockedError when there is no page.
        """
        target = parse(url, plain_http_allowed=limits.plain_http_allowed)
        for hop in range(limits.max_redirect_hops + 1):
            try:
                admit(target)
                answer = self._get(target, limits, wanted)
                if isinstance(answer, Page):
                    return answer
                next_target = redirected(target, answer, plain_http_allowed=limits.plain_http_allowed)
            except UrlError as error:
                error.hop_url = str(target) if hop else None
                raise
            target = next_target
        raise DiscardedError(Discard.TOO_MANY_REDIRECTS)

    def _get(self, target: Target, limits: Limits, wanted: Callable[[str], bool]) -> Page | bytes:
        """One request: a page, or the Location of a redirect."""
        backend = CheckedBackend(self._resolver, self._dialer, deadline=limits.deadline)
        address = httpcore.URL(
            scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.path.encode()
        )
        headers = [(b"Host", target.authority.encode()), *_HEADERS]
        try:
            with (
                # A pool of one, for one request: no connection is ever shared between two names.
                httpcore.ConnectionPool(
                    ssl_context=self._ssl_context,
                    network_backend=backend,
                    max_connections=1,
                    max_keepalive_connections=0,
                ) as pool,
                pool.stream("GET", address, headers=headers) as response,
            ):
                return _answer(target, response, limits.deadline, wanted)
        except httpcore.TimeoutException:
            raise DiscardedError(Discard.TIMEOUT) from None
        except (httpcore.ProtocolError, httpcore.NetworkError):
            raise DiscardedError(Discard.PROTOCOL_ERROR) from None


def _answer(
    target: Target, response: httpcore.Response, deadline: float, wanted: Callable[[str], bool]
) -> Page | bytes:
    location = _header(response, b"location")
    if response.status in _REDIRECTS and location is not None:
        return location
    content_type = (_header(response, b"content-type") or b"").decode("latin-1")[:200]
    body = _Body(b"")
    if wanted(content_type):
        body = _read(response, deadline)
    return Page(str(target), response.status, content_type, *body)


class _Body(NamedTuple):
    """The fields of a Page that say what was read of its body."""

    body: bytes
    too_large: bool = False
    cut: bool = False


def _read(response: httpcore.Response, deadline: float) -> _Body:
    """The decoded body up to MAX_BODY_BYTES, and whether there was more or less than the whole."""
    decoding = decoder((_header(response, b"content-encoding") or b"").decode("latin-1"))
    body = bytearray()
    raw_bytes = 0
    for chunk in response.iter_stream():
        time_left(deadline)
        raw_bytes += len(chunk)
        body += decoding.feed(chunk, MAX_BODY_BYTES + 1 - len(body))
        if len(body) > MAX_BODY_BYTES or raw_bytes > _MAX_RAW_BYTES:
            return _Body(bytes(body[:MAX_BODY_BYTES]), too_large=True)
    return _Body(bytes(body), cut=decoding.cut)


def _header(response: httpcore.Response, name: bytes) -> bytes | None:
    return next((value for key, value in response.headers if key.lower() == name), None)
