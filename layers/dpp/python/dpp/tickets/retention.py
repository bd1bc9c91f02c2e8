"""What of tickets outlives its use (LIFE-8): tickets that ended, receipts of the ops cycle, the reaper's reports.

Never what is OPEN, IN_PROGRESS, RUNNING or unpublished, however old; nor a ticket whose decision on the execution of
runs still stands (TIX-1), nor the newest report (TIX-5).
"""

from dpp.platform.db.retention import QueriedClass, RetentionClass
from dpp.platform.db.sql import Queries

QUERIES = Queries("dpp.tickets", "retention.sql")
CLASSES: tuple[RetentionClass, ...] = (
    QueriedClass("tickets", "tickets_days", QUERIES),
    QueriedClass("ops_receipts", "ops_receipts_days", QUERIES),
    QueriedClass("reaper_reports", "reaper_reports_days", QUERIES),
)
