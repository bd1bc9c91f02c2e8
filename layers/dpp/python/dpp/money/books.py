"""The facts of Postgres about a tenant's money, read in one statement and so from one snapshot (D2)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dpp.platform.db.postgres import Connection
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.money", "queries.sql")


@dataclass(frozen=True, slots=True)
class Books:
    """One tenant's side of the ledger identity; amounts in micros, as text where Lua reads them."""

    credits_minus_charges: int
    open_runs: Sequence[tuple[str, str]]
    """Each run that is neither settled nor refunded, and what it reserved."""
    closed: Sequence[str]
    """Those of the runs asked for that are settled or refunded: their reservations are leftovers."""
    credits: Sequence[tuple[str, str]]

    def to_json(self) -> str:
        """The argument of the scripts (lua/books.lua)."""
        return json.dumps(
            {
                "credits_minus_charges": str(self.credits_minus_charges),
                "open": self.open_runs,
                "closed": self.closed,
                "credits": self.credits,
            }
        )


def read_books(
    connection: Connection, tenant_id: str, reserved: Sequence[str], credits_since_seconds: float | None = None
) -> Books:
    """The books of a tenant; `reserved` are the run ids in Redis's index of reservations.

    `credits_since_seconds`: list only credits younger than this; all by default. The sum always includes all.
    Raises LookupError for an unknown tenant.
    """
    params = {"tenant_id": tenant_id, "run_ids": reserved, "credits_since_seconds": credits_since_seconds}
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
