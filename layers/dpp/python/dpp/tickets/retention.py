"""The retention classes of tickets (LIFE-8): tickets that ended, receipts of the ops cycle, reports of the reaper.

Never deleted, however old: what is OPEN, IN_PROGRESS, RUNNING or unpublished, a ticket whose decision on the execution
of runs is still in force (TIX-1), and the newest report, which the API returns (TIX-5).
"""

from typing import LiteralString

from dpp.platform.db.retention import RetentionClass
from dpp.platform.db.retention_table import Blocker, TableClass

_IS_NEWEST_REPORT: LiteralString = "report_id = (SELECT max(report_id) FROM ticket_reaper_reports)"

TICKETS = TableClass(
    "tickets",
    "tickets_days",
    table="tickets",
    time="updated_at",
    key="request_id",
    key_type="uuid",
    where="current_status IN ('DONE', 'FAILED')",
    blocked_by=(Blocker("execution_switches", "decision_id"),),
    owned_rows=("ticket_results", "ticket_transitions"),
)
OPS_RECEIPTS = TableClass(
    "ops_receipts", "ops_receipts_days", table="ops_run_receipts", time="finished_at", key="run_id", key_type="uuid"
)
REAPER_REPORTS = TableClass(
    "reaper_reports",
    "reaper_reports_days",
    table="ticket_reaper_reports",
    time="published_at",
    key="report_id",
    key_type="bigint",
    blocked_by=(Blocker("ticket_reaper_reports", "report_id", where=_IS_NEWEST_REPORT),),
)
CLASSES: tuple[RetentionClass, ...] = (TICKETS, OPS_RECEIPTS, REAPER_REPORTS)
