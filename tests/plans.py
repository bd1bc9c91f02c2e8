"""What a statement did, as Postgres explains it: for the tests that hold statements to what they may read."""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg


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
    """The plan and all in it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def pages(plan: dict[str, Any]) -> int:
    """How many pages were touched."""
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
