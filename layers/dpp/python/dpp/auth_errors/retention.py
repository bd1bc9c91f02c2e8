"""What of authentication errors outlives its use (LIFE-8): events that were handled, and errors that ended.

The consumer's ledger must outlive every message that may come again: `config.check_outbox_days` says for how long, and
whoever reads the retention section asks it. A cluster's `error_count` is how many of its errors are kept; a cluster
that loses its last one goes with it. Deployments and versions of policies stay: they are few, and evidence.
"""

from dpp.platform.db.retention import QueriedClass, RetentionClass
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.auth_errors", "retention.sql")
CLASSES: tuple[RetentionClass, ...] = (
    QueriedClass("outbox", "outbox_days", QUERIES, points_at=("auth_errors",)),
    QueriedClass("auth_errors", "auth_errors_days", QUERIES),
)
