"""The work of bench/runs.py, the same for everyone: what a run is asked, and what it answers."""

from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

TENANT = "t_bench"
CHARGE_USD_MICROS = 50_000
RESERVED_USD_MICROS = 250_000
ANSWERED: dict[str, Any] = {
    "answer_text": "Two monthly rents, and a third where the lease ends early. " * 8,
    "confidence": 0.9,
    "sources": [{"title": f"Lease, clause {number}", "quote": "due with notice"} for number in range(5)],
}
"""What a run answers; some 750 bytes."""


def inputs_of(name: str) -> dict[str, Any]:
    """What a run of this name is asked; some 460 bytes."""
    return {"question": f"What does moving cost, {name}?", "context": "Two monthly rents. " * 20}


def answer(inputs: dict[str, Any]) -> dict[str, Any]:
    """What the no-op does."""
    assert inputs["question"]
    return ANSWERED


def found(database_url: str, query: LiteralString) -> tuple[Any, ...]:
    """The one row that a query of counts answers."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row


@dataclass(frozen=True, slots=True)
class Place:
    """Where a side works: its database, its Redis, and the stand-in of AWS where it has one."""

    database_url: str
    redis_url: str
    endpoint: str
