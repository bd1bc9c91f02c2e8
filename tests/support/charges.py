"""The charges of the ledger, compared with the rows that they are the sum of (D2)."""

from typing import Any

import psycopg

_DIFFERENT = """
SELECT tenant_id, kept, counted
FROM (SELECT tenant_id,
        (SELECT coalesce(sum(charges_usd_micros), 0) FROM ledger_charges k WHERE k.tenant_id = t.tenant_id) AS kept,
        (SELECT coalesce(sum(actual_cost_usd_micros), 0) FROM runs r
          WHERE r.tenant_id = t.tenant_id AND r.money_state = 'SETTLED')
        + (SELECT coalesce(sum(charges_usd_micros), 0) FROM ledger_carried c WHERE c.tenant_id = t.tenant_id) AS counted
      FROM tenants t) AS sums
WHERE kept <> counted
"""


def miscounted(connection: psycopg.Connection[Any]) -> list[str]:
    """A sentence for each tenant whose charges differ from those of its runs."""
    return [
        f"{tenant_id}'s charges are kept as {kept}, and its runs were charged {counted} micros"
        for tenant_id, kept, counted in connection.execute(_DIFFERENT)
    ]
