"""A provider whose calls are counted: any of them fails as a provider would have it (tests/support/crash_points.py)."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from dpp.platform.errors import DependencyUnavailable, StorageUnavailable
from dpp.workspaces.errors import ProviderUnavailable
from dpp.workspaces.ports import Heartbeat, Provider
from tests.support.crash_points import Call, Points

_READS = frozenset({"observe", "find", "read", "read_proof", "head", "page"})


def _no_heartbeat() -> None:
    pass


class _CountedPort:
    """One port. What is streamed is passed on in one piece, so that a call can be made once more when it lands late."""

    def __init__(self, real: Any, points: Points, port: str, error: type[DependencyUnavailable]) -> None:
        self._real = real
        self._points = points
        self._port = port
        self._error = error

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._pass(name, lambda: found(*args, **kwargs))

        return call

    def read(self, key: str, heartbeat: Heartbeat) -> Iterator[bytes]:
        """A read that breaks off gave nothing."""
        yield from self._pass("read", lambda: list(self._real.read(key, heartbeat)))

    def write(
        self, key: str, chunks: Iterator[bytes], heartbeat: Heartbeat, replaces: str | None = None
    ) -> Any:
        """Sent once all of it is packed; late, with nobody to heartbeat for."""
        pieces = list(chunks)
        return self._pass(
            "write",
            lambda: self._real.write(key, iter(pieces), heartbeat, replaces),
            lambda: self._real.write(key, iter(pieces), _no_heartbeat, replaces),
        )

    def _pass(self, name: str, make: Callable[[], Any], late: Callable[[], Any] | None = None) -> Any:
        writes = name not in _READS
        call = Call(
            "provider",
            f"{self._port}.{name}",
            writes,
            make,
            self._error,
            self._error,
            (late or make) if writes else None,
        )
        return self._points.pass_through(call)


def counted_provider(real: Provider, points: Points) -> Provider:
    """The same provider, its calls counted."""
    return Provider(
        cast(Any, _CountedPort(real.containers, points, "containers", ProviderUnavailable)),
        cast(Any, _CountedPort(real.volumes, points, "volumes", ProviderUnavailable)),
        cast(Any, _CountedPort(real.archives, points, "archives", StorageUnavailable)),
        real.homes,
    )
