"""Dependencies that fail on demand: the call never made, or made and its reply lost."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached, PostgresUnavailable


class AwayDatabase(Database):
    """Nothing listens there."""

    def __init__(self) -> None:
        super().__init__("postgresql://nobody@127.0.0.1:1/none")

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Refused."""
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
    """Any other effect whose named calls fail: `before` they are made, or `after` they took effect.

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
