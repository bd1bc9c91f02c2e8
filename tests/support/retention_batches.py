"""Classes of retention as the chamberlain works through them: batch by batch, each a transaction under his role."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import Any

import psycopg

from dpp.platform.db.postgres import Connection
from dpp.platform.db.retention import Batch, Cursor, RetentionClass
from dpp.platform.db.retention_table import TableClass

ROLE = "dpp_chamberlain"


def named(classes: Iterable[RetentionClass], name: str) -> RetentionClass:
    """The class of that name."""
    (found,) = (one for one in classes if one.name == name)
    return found


def as_kind[Kind: TableClass](kind: type[Kind], one: TableClass) -> Kind:
    """The same class with the methods of a subclass."""
    return kind(**{field.name: getattr(one, field.name) for field in fields(one)})


def batches(connection: Connection, kept: RetentionClass, before: datetime, *, limit: int = 100) -> Iterator[Batch]:
    """Every batch until nothing is left to look at; none looks at a row again."""
    cursor: Cursor | None = None
    while True:
        with connection.transaction():
            batch = kept.delete(connection, before, cursor, limit, None)
        assert batch.deleted <= batch.examined
        if batch.cursor is None:
            assert batch == Batch(0, 0, 0, None)
            return
        assert batch.cursor != cursor
        cursor = batch.cursor
        yield batch


def deleted(connection: Connection, kept: RetentionClass, before: datetime, *, limit: int = 100) -> int:
    """Return how many rows were deleted."""
    return sum(batch.deleted for batch in batches(connection, kept, before, limit=limit))


def refusal(
    connection: psycopg.Connection[Any], statement: str, *, role: str | None = None, **params: Any
) -> str | None:
    """Return the constraint or trigger that rejects the statement, else the SQLSTATE; None if it is allowed."""
    with connection.transaction(force_rollback=True):
        if role is not None:
            connection.execute(f"SET LOCAL ROLE {role}".encode())
        try:
            connection.execute(statement.encode(), params)
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except psycopg.Error as error:
            return error.diag.constraint_name or error.sqlstate
    return None


NO_RIGHT, APPEND_ONLY = "42501", "23001"
