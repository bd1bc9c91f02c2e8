"""The retention classes of authentication errors (LIFE-8): handled outbox events, and errors that ended (AUTH-3).

The consumer's ledger (`processed_message`) must outlive every message that may be delivered again:
`config.check_outbox_days` checks the period. An event that is DEAD stays until an operator has handled it (AUTH-5). An
error with an event in the outbox stays: a message that is delivered again must find it (AUTH-7). The database keeps a
cluster's `error_count` equal to the number of its errors, and deletes a cluster together with its last error.
Deployments and versions of policies are kept: they are few, and they are evidence.
"""

from dpp.platform.db.retention import RetentionClass
from dpp.platform.db.retention_table import Blocker, TableClass

OUTBOX = TableClass(
    "outbox",
    "outbox_days",
    table="outbox_message",
    time="handled_at",
    key="outbox_id",
    key_type="bigint",
    points_at=("auth_errors",),
    blocked_by=(Blocker("processed_message", "outbox_id", where="status = 'DONE'", absent=True),),
    owned_rows=("processed_message",),
)
AUTH_ERRORS = TableClass(
    "auth_errors",
    "auth_errors_days",
    table="auth_error",
    time="updated_at",
    key="auth_error_id",
    key_type="uuid",
    where="status IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED')",
    blocked_by=(Blocker("outbox_message", "aggregate_id"),),
    owned_rows=("auth_error_transition", "auth_error_decision", "auth_error_cluster_item"),
    also_measured=("auth_error_cluster",),
)
CLASSES: tuple[RetentionClass, ...] = (OUTBOX, AUTH_ERRORS)
