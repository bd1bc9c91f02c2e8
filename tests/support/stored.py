"""One call that reads or changes rows of a database."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate

from dpp.platform.db.postgres import Connection, Database


class Stored:
    """The base of what has a database."""

    __slots__ = ()
    database: Database

    def using[**P, R](self, use: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `use` with a connection to the database."""
        return self.database.using(use, *args, **kwargs)

    def sql(
        self, statement: str, params: Sequence[object] | Mapping[str, object] | None = None
    ) -> list[tuple[Any, ...]]:
        """Run one statement; the rows that it returns, if any."""
        with self.database.connection() as connection:
            cursor = connection.execute(statement.encode(), params)
            return cursor.fetchall() if cursor.description else []


def existing[T](found: T | None) -> T:
    """The value, which must not be None."""
    assert found is not None
    return found
