"""The retention class of runs (LIFE-8): tombstones (D7), whose owners have read 410 for long enough.

After that an owner reads 404, as for an unknown id (D13). The charges stay in the books: `ledger_charges` adds them up
when a run ends, and a trigger adds the charge of a deleted run to `ledger_carried`, so that both can be compared with
the rows at any time (D2). The inputs of a run are deleted with it, by their foreign key. If a restored Redis brings
back a reservation of a deleted run, it is an orphan and is refunded as one.
"""

from dpp.platform.db.retention import RetentionClass
from dpp.platform.db.retention_table import TableClass

TOMBSTONES = TableClass(
    "tombstones",
    "tombstones_days",
    table="runs",
    time="updated_at",
    key="run_id",
    key_type="uuid",
    where="status = 'EXPIRED'",
)
CLASSES: tuple[RetentionClass, ...] = (TOMBSTONES,)
