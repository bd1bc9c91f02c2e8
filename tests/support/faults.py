"""Dependencies that fail on demand: a call is never made, or it is made and its reply is lost."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import EndpointConnectionError

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached, PostgresUnavailable, StorageUnavailable


class AwayDatabase(Database):
    """A database that refuses every connection."""

    def __init__(self) -> None:
        super().__init__("postgresql://nobody@127.0.0.1:1/none")

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Raise PostgresNotReached."""
        yield self._refused()

    def _refused(self) -> Connection:
        raise PostgresNotReached("away")


class FlakyDatabase(Database):
    """Fails at its n-th uses (from 1): before the statement (`refuse`), or after it took effect (`lose_reply`)."""

    def __init__(self, url: str, *, refuse: Collection[int] = (), lose_reply: Collection[int] = ()) -> None:
        super().__init__(url)
        self.uses = 0
        self._refuse = refuse
        self._lose_reply = lose_reply

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """One use."""
        self.uses += 1
        use = self.uses
        if use in self._refuse:
            raise PostgresUnavailable("refused")
        with super().connection() as connection:
            yield connection
        if use in self._lose_reply:
            raise PostgresUnavailable("reply lost")


class Flaky:
    """Any other effect, of which the named calls fail: `before` they are made, or `after` they took effect.

    They fail every time, or only the first `times`.
    """

    def __init__(
        self,
        real: Any,
        error: type[DependencyUnavailable],
        *,
        before: Collection[str] = (),
        after: Collection[str] = (),
        times: int | None = None,
    ) -> None:
        self._times_left = times
        self._real = real
        self._error = error
        self._before = set(before)
        self._after = set(after)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in self._before | self._after:
            return found
        return self._failing(name, found)

    def _failing(self, name: str, call: Callable[..., object]) -> Callable[..., object]:
        def failing(*args: object, **kwargs: object) -> object:
            if self._times_left == 0:
                return call(*args, **kwargs)
            if self._times_left is not None:
                self._times_left -= 1
            if name in self._after:
                call(*args, **kwargs)
            raise self._error("on demand")

        return failing


class DiesAfter:
    """Any other effect, of which one method works for a number of calls and fails from then on."""

    def __init__(self, real: Any, method: str, calls: int) -> None:
        self._real, self._method, self._calls_left = real, method, calls

    def __getattr__(self, name: str) -> Any:
        if name == self._method:
            if self._calls_left == 0:
                raise StorageUnavailable("on demand")
            self._calls_left -= 1
        return getattr(self._real, name)


class FailingClient:
    """An AWS client of which every call fails; where the real client is given, after the call took effect."""

    exceptions = SimpleNamespace(NoSuchKey=KeyError)

    def __init__(self, real: Any = None) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._real is not None:
                getattr(self._real, name)(*args, **kwargs)
            raise EndpointConnectionError(endpoint_url="http://nowhere.invalid")

        return call
