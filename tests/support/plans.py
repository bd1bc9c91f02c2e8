"""Plans and costs of statements, for tests of what a statement reads."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from dpp_cli.local.servers import PostgresServer


@contextmanager
def database(server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database of one's own, with the schema and no rows; it is dropped at the end."""
    name = f"full_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template_dpp").format(sql.Identifier(name)))
        try:
            with psycopg.connect(server.url(name), autocommit=True) as connection:
                yield connection
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def explained(
    connection: psycopg.Connection[Any], query: str, params: Mapping[str, Any], *, role: str | None = None
) -> dict[str, Any]:
    """The plan as it was carried out, under a role where one is named; nothing of it stays."""
    with connection.transaction(force_rollback=True):
        if role is not None:
            connection.execute(f"SET LOCAL ROLE {role}".encode())
        text = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query
        row = connection.execute(text.encode(), params).fetchone()
    assert row is not None
    found: dict[str, Any] = row[0][0]["Plan"]
    return found


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The plan and all its nodes."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def pages(plan: dict[str, Any]) -> int:
    """The number of pages read."""
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@dataclass(frozen=True, slots=True)
class Cost:
    """Return what a statement and its triggers read, in rows of each table: all of a table, and one by one."""

    scanned: Mapping[str, int]
    fetched: Mapping[str, int]


def cost(
    connection: psycopg.Connection[Any], query: str, params: Mapping[str, Any], *, role: str | None = None
) -> Cost:
    """Carry a statement out, under a role where one is named, and undo it. Unlike its plan, what it cost reports its
    triggers, foreign keys and functions, too."""
    with connection.transaction(force_rollback=True):
        if role is not None:
            connection.execute(f"SET LOCAL ROLE {role}".encode())
        scanned, fetched = _read(connection)
        connection.execute(query.encode(), params)
        scanned_by_then, fetched_by_then = _read(connection)
    return Cost(_more(scanned, scanned_by_then), _more(fetched, fetched_by_then))


def _read(connection: psycopg.Connection[Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Return what this session has read of tables since the server last took it in."""
    rows = connection.execute(
        "SELECT relname, seq_tup_read, coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
    ).fetchall()
    return {str(row[0]): int(row[1]) for row in rows}, {str(row[0]): int(row[2]) for row in rows}


def _more(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {table: rows - before.get(table, 0) for table, rows in after.items()}
