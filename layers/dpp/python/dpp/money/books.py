"""What Postgres knows of a tenant's money, read in one statement and so in one snapshot (D2)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.money", "queries.sql")


@dataclass(frozen=True, slots=True)
class Books:
    """One tenant's side of the ledger identity; amounts in micros, as text where they go on to Lua."""

    credits_minus_charges: int
    open_runs: Sequence[tuple[str, str]]
    """Each run whose money is not settled or refunded, and what it reserved."""
    closed: Sequence[str]
    """Which of the runs asked for have been settled or refunded: a reservation of theirs is a leftover."""
    credits: Sequence[tuple[str, str]]

    def told(self) -> str:
        """As the scripts take it (lua/books.lua)."""
        return json.dumps(
            {
                "credits_minus_charges": str(self.credits_minus_charges),
                "open": self.open_runs,
                "closed": self.closed,
                "credits": self.credits,
            }
        )


def read_books(
    connection: Connection, tenant_id: str, entered: Sequence[str], credits_since_seconds: float | None = None
) -> Books:
    """The books of a tenant; `entered` are the runs in Redis's index of reservations.

    `credits_since_seconds`: list only the credits of so many seconds; all of them by default. The sum always
    holds all. Raises LookupError for an unknown tenant.
    """
    params = {"tenant_id": tenant_id, "run_ids": entered, "credits_since_seconds": credits_since_seconds}
    row = connection.execute(QUERIES["books"], params).fetchone()
    if row is None:
        raise LookupError(f"no tenant {tenant_id}")
    credits_minus_charges, open_runs, closed, credits_ = row
    return Books(
        int(credits_minus_charges),
        [(run_id, amount) for run_id, amount in open_runs],
        closed,
        [(credit_id, amount) for credit_id, amount in credits_],
    )
