"""Reason codes of the discard and blocked logs for URLs that were not fetched completely (RUN-26)."""

from enum import StrEnum


class Discard(StrEnum):
    """Reasons of the discard log: `{url, reason}`."""

    INVALID_URL = "INVALID_URL"
    UNSUPPORTED_SCHEME = "UNSUPPORTED_SCHEME"
    NON_HTTPS = "NON_HTTPS"
    PORT_NOT_ALLOWED = "PORT_NOT_ALLOWED"
    DUPLICATE_URL = "DUPLICATE_URL"
    MAX_URLS_EXCEEDED = "MAX_URLS_EXCEEDED"
    TIMEOUT = "TIMEOUT"
    DNS_FAILED = "DNS_FAILED"
    CONNECT_FAILED = "CONNECT_FAILED"
    TLS_FAILED = "TLS_FAILED"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"
    TOO_MANY_REDIRECTS = "TOO_MANY_REDIRECTS"
    INVALID_REDIRECT = "INVALID_REDIRECT"
    UNSUPPORTED_ENCODING = "UNSUPPORTED_ENCODING"
    CONTENT_TOO_LARGE = "CONTENT_TOO_LARGE"
    """Data beyond the cap was discarded; the result exists and is marked."""
    CONTENT_CUT = "CONTENT_CUT"
    """The compressed body lacked its end or was damaged there; the result exists and is marked."""
    TEXT_NOT_READ = "TEXT_NOT_READ"
    """The page took more time or memory to read than one may; the result exists without text or with a part of it."""
    ROBOTS_DISALLOWED = "ROBOTS_DISALLOWED"
    ROBOTS_UNREACHABLE = "ROBOTS_UNREACHABLE"
    """Without its robots.txt, nothing of a host may be fetched (RFC 9309 §2.3.1.4)."""
    INTERNAL_ERROR = "INTERNAL_ERROR"


class Block(StrEnum):
    """Reasons of the blocked log: `{url, resolved_ip, reason}`."""

    UNSPECIFIED = "UNSPECIFIED"
    LOOPBACK = "LOOPBACK"
    PRIVATE_IP = "PRIVATE_IP"
    SHARED_ADDRESS = "SHARED_ADDRESS"
    LINK_LOCAL = "LINK_LOCAL"
    METADATA = "METADATA"
    MULTICAST = "MULTICAST"
    TRANSITION = "TRANSITION"
    """An IPv6 address that stands for an IPv4 one (mapped, NAT64, 6to4, Teredo, ISATAP …)."""
    RESERVED = "RESERVED"


class UrlError(Exception):
    """A URL has no result; `hop_url` is where, when that was not the first hop."""

    hop_url: str | None = None


class DiscardedError(UrlError):
    """A URL was given up; `reason` goes to the discard log."""

    def __init__(self, reason: Discard) -> None:
        super().__init__(reason)
        self.reason = reason


class BlockedError(UrlError):
    """A name or URL led to an address that is refused; goes to the blocked log."""

    def __init__(self, resolved_ip: str, reason: Block) -> None:
        super().__init__(reason)
        self.resolved_ip = resolved_ip
        self.reason = reason
