"""An internet on loopback, for the url pack's tests (RUN-26).

Servers listen on 127.0.0.1; the code under test believes them to be at public addresses. What translates is
the dialer, the part below the check, so the whole check runs as in production, and nothing leaves loopback:
an address without a route is a failure of the test.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore
import pytest

from dpp.packs.url.fetch import Fetcher, Limits, Page
from dpp.packs.url.reader import PageReader
from dpp.packs.url.reasons import Discard, DiscardedError
from tests.packs.certificates import Authority
from tests.packs.loopback import Respond, serving

SITE = "93.184.216.34"
OTHER = "93.184.216.35"
DEAD = "93.184.216.36"


class RoutingDialer(httpcore.NetworkBackend):
    """Connects (address, port) to a port of loopback; refuses, and remembers, what has no route."""

    def __init__(self, routes: dict[tuple[str, int], int]) -> None:
        self.routes = routes
        self.dialled: list[tuple[str, int]] = []
        self.strays: list[tuple[str, int]] = []

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        self.dialled.append((host, port))
        if host == DEAD:
            raise httpcore.ConnectError
        if (host, port) not in self.routes:
            self.strays.append((host, port))
            raise AssertionError(f"{host}:{port} has no route")
        return httpcore.SyncBackend().connect_tcp("127.0.0.1", self.routes[host, port], timeout=timeout)


class Internet:
    """A resolver, a dialer and a fetcher over them; `names` answers the n-th look-up with its n-th entry."""

    def __init__(self, authority: Authority, reader: PageReader) -> None:
        self.reader = reader
        self.names: dict[str, list[Sequence[str]]] = {"site.test": [[SITE]], "other.test": [[OTHER]]}
        self.asked: list[str] = []
        self.dialer = RoutingDialer({})
        self.fetcher = Fetcher(resolver=self.resolve, dialer=self.dialer, ssl_context=authority.client_context())

    def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answers = self.names.get(host)
        if answers is None:
            raise OSError(-2, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def get(
        self,
        url: str = "http://site.test/",
        *,
        seconds: float = 120,
        hops: int = 5,
        http: bool = True,
        wanted: Callable[[str], bool] = lambda _content_type: True,
    ) -> Page:
        limits = Limits(deadline=time.monotonic() + seconds, max_redirect_hops=hops, plain_http_allowed=http)
        return self.fetcher.fetch(url, limits, wanted=wanted)

    def discarded(self, url: str = "http://site.test/", **options: Any) -> Discard:
        with pytest.raises(DiscardedError) as error:
            self.get(url, **options)
        return error.value.reason


def serve(world: Internet, respond: Respond, address: str = SITE) -> Any:
    """Serve plain http at `address`, port 80, for the time of a `with`."""
    return Route(world, (address, 80), serving(respond))


class Route:
    def __init__(self, world: Internet, at: tuple[str, int], server: Any) -> None:
        self.world, self.at, self.server = world, at, server

    def __enter__(self) -> None:
        self.world.dialer.routes[self.at] = self.server.__enter__()

    def __exit__(self, *error: object) -> None:
        del self.world.dialer.routes[self.at]
        self.server.__exit__(*error)
