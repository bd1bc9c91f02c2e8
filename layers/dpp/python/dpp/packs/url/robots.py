"""Reads which pages a host's robots.txt allows (RFC 9309)."""

import threading
from collections.abc import Callable
from functools import cached_property

from protego import Protego

from dpp.packs.url.fetch import USER_AGENT, Page
from dpp.packs.url.reasons import Discard, DiscardedError
from dpp.packs.url.target import Target

_MAX_BYTES = 500 * 1024
"""The part of a robots.txt that must be read (RFC 9309 §2.5); more is ignored."""

_SAME_FOR_THE_PAGE = frozenset({Discard.DNS_FAILED, Discard.CONNECT_FAILED, Discard.TLS_FAILED, Discard.TIMEOUT})
"""A page of the same host would fail with the same reason, which says more."""


class Robots:
    """The robots.txt of each host, fetched once, when the first of its pages is asked for."""

    def __init__(self, fetch: Callable[[str], Page]) -> None:
        """`fetch` gets a URL with its redirects, raising as `Fetcher.fetch`."""
        self._fetch = fetch
        self._lock = threading.Lock()
        self._hosts: dict[str, _Host] = {}

    def admit(self, target: Target) -> None:
        """Return if a page may be fetched. Raises DiscardedError with the reason if not, and BlockedError."""
        origin = f"{target.scheme}://{target.authority}"
        with self._lock:
            host = self._hosts.setdefault(origin, _Host(origin, self._fetch))
        with host.lock:
            rules = host.rules
        if isinstance(rules, DiscardedError):
            raise DiscardedError(rules.reason)
        if rules is not None and not rules.can_fetch(str(target), USER_AGENT):
            raise DiscardedError(Discard.ROBOTS_DISALLOWED)


class _Host:
    """One host; its lock is held while its rules are fetched, so that its other pages wait for them."""

    def __init__(self, origin: str, fetch: Callable[[str], Page]) -> None:
        self._origin = origin
        self._fetch = fetch
        self.lock = threading.Lock()

    @cached_property
    def rules(self) -> Protego | DiscardedError | None:
        """The rules, why they can't be had, or None where everything is allowed (RFC 9309 §2.3.1)."""
        try:
            page = self._fetch(f"{self._origin}/robots.txt")
        except DiscardedError as error:
            if error.reason is Discard.TOO_MANY_REDIRECTS:
                return None  # as if there were none
            known = error.reason in _SAME_FOR_THE_PAGE
            return DiscardedError(error.reason if known else Discard.ROBOTS_UNREACHABLE)
        if 400 <= page.status_code < 500:
            return None
        if not 200 <= page.status_code < 300:
            return DiscardedError(Discard.ROBOTS_UNREACHABLE)
        return Protego.parse(page.body[:_MAX_BYTES].decode("utf-8-sig", errors="replace"))
