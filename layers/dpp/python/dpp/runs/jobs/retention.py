"""What of runs outlives its use (LIFE-8): tombstones (D7), once their owners have read 410 for long enough.

Afterwards an owner reads the 404 of any unknown id (D13). What a run was charged stays in the books without it: they
are added up in `ledger_charges` when a run ends, and the statement that deletes one adds its charge to
`ledger_carried`, so that the two can be held against the rows for ever (D2). A reservation that a restored Redis brings
back for one is an orphan by then, and is refunded as such.
"""

from dpp.platform.db.retention import QueriedClass, RetentionClass
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.runs.jobs", "retention.sql")
CLASSES: tuple[RetentionClass, ...] = (QueriedClass("tombstones", "tombstones_days", QUERIES),)
