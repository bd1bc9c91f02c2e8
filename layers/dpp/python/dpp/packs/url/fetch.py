"""Fetches one URL: redirects by hand, every hop parsed, resolved and checked anew, everything bounded (RUN-26).

httpcore directly, without httpx above it: httpx would parse the URL a second time, follow redirects, keep
cookies, and decompress a chunk to whatever size it has. Nothing is carried from hop to hop.
"""

import ssl
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import httpcore

from dpp.packs.url.network import CheckedBackend, Resolver, time_left
from dpp.packs.url.reasons import Discard, DiscardedError, UrlError
from dpp.packs.url.target import Target, parse, redirected

MAX_BODY_BYTES = 2 * 1024 * 1024
"""Of decoded bytes: a compressed bomb counts with what it unfolds to."""

_MAX_RAW_BYTES = 2 * MAX_BODY_BYTES
"""Of bytes on the wire, for a stream of nothing but empty gzip members."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = (
    (b"User-Agent", b"DPP-URLPack/0.4.2.2"),
    (b"Accept", b"text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.8,*/*;q=0.5"),
    (b"Accept-Encoding", b"gzip"),
    (b"Connection", b"close"),
)


@dataclass(frozen=True, slots=True)
class Page:
    """The last hop's response. `body` is empty if `wanted` rejected its content type."""

    final_url: str
    status_code: int
    content_type: str
    body: bytes
    truncated: bool


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

    def fetch(self, url: str, limits: Limits, *, wanted: Callable[[str], bool]) -> Page:
        """The page at the end of the redirects; its body only if its content type is `wanted`.

        Raises DiscardedError or BlockedError when there is none.
        """
        target = parse(url, plain_http_allowed=limits.plain_http_allowed)
        for hop in range(limits.max_redirect_hops + 1):
            try:
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
    body, truncated = b"", False
    if wanted(content_type):
        body, truncated = _read(response, deadline)
    return Page(str(target), response.status, content_type, body, truncated)


def _read(response: httpcore.Response, deadline: float) -> tuple[bytes, bool]:
    """The decoded body up to MAX_BODY_BYTES, and whether there was more."""
    decode = _decoder((_header(response, b"content-encoding") or b"").decode("latin-1"))
    body = bytearray()
    raw_bytes = 0
    for chunk in response.iter_stream():
        time_left(deadline)
        raw_bytes += len(chunk)
        body += decode(chunk, MAX_BODY_BYTES + 1 - len(body))
        if len(body) > MAX_BODY_BYTES or raw_bytes > _MAX_RAW_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), True
    return bytes(body), False


def _decoder(content_encoding: str) -> Callable[[bytes, int], bytes]:
    """A function from the next chunk and the room left to decoded bytes, never more than the room."""
    match content_encoding.strip().lower():
        case "" | "identity":
            return lambda chunk, room: chunk[:room]
        case "gzip" | "x-gzip":
            return _Gunzip()
        case _:
            # Only gzip was offered, and only once: gzip in gzip is how small bombs get large.
            raise DiscardedError(Discard.UNSUPPORTED_ENCODING)


class _Gunzip:
    """Gzip with a bound, over any number of members (RFC 1952 §2.2)."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    def __call__(self, chunk: bytes, room: int) -> bytes:
        decoded = bytearray()
        try:
            while chunk and len(decoded) < room:
                decoded += self._member.decompress(chunk, room - len(decoded))
                chunk = self._member.unused_data
                if self._member.eof:
                    self._member = zlib.decompressobj(wbits=31)
        except zlib.error:
            raise DiscardedError(Discard.PROTOCOL_ERROR) from None
        return bytes(decoded)


def _header(response: httpcore.Response, name: bytes) -> bytes | None:
    return next((value for key, value in response.headers if key.lower() == name), None)
