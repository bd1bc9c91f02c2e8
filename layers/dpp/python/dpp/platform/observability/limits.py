"""Thresholds shared by the alarms (`cdk/dpp_cdk/monitoring/alarms.py`) and `dpp top`.

Thresholds that only CloudWatch can check (functions, API, servers, jobs without rows) are defined with the alarms.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """A threshold. `anchor`: its entry in docs/runbook.md; `says`: the alarm's text; `at_least`: the value from which
    it is raised."""

    anchor: str
    says: str
    at_least: int


LEDGER_DRIFT = Limit("ledger-drift", "Balances differ from the books", 1)
LEDGER_DISPUTED = Limit("ledger-disputed", "A ledger waits for an operator", 1)
RUNS_DISPUTED = Limit("runs-disputed", "The money of a run waits for an operator", 1)
STUCK_CLAIMS = Limit("stuck-claims", "Claims remain unfinished", 1)

DEAD_LETTERS = Limit("dead-letters", "A run's message failed three times", 1)
QUEUE_AGE = Limit("queue-age", "Runs wait for more than five minutes", 300)
EVENT_DEAD_LETTERS = Limit("auth-errors-dead-letters", "An event's message can't be handled", 1)
EVENT_QUEUE_AGE = Limit("auth-errors-queue-age", "Events wait for more than five minutes", 300)

OPS_CYCLE_SILENT = Limit("ops-cycle-silent", "Ops cycle: no tick has finished for five minutes", 300)
REAPER_BREAKER = Limit("ticket-reaper-breaker", "Too many tickets are stale, so the reaper ends none", 1)
EMERGENCY_STOP = Limit("emergency-stop", "The emergency stop has been set for half an hour", 1_800)
TICKETS_WAITING = Limit("tickets-waiting", "A ticket waits for more than a quarter of an hour", 900)
OPS_STEP_FAILED = Limit("ops-step-failed", "A step of the ops cycle fails", 1)

OUTBOX_LAG = Limit("outbox-lag", "Events wait for more than a minute to be published", 60)
OUTBOX_DEAD = Limit("outbox-dead", "An event could not be published", 1)
EVENTS_DEAD = Limit("events-dead", "An event could not be handled", 1)
AUTH_ERRORS_ESCALATED = Limit("auth-errors-escalated", "A policy escalated an authentication error to operators", 1)

WORKSPACE_HOME_LOST = Limit("workspace-home-lost", "A volume vanished with the home on it", 1)
WORKSPACES_IN_ERROR = Limit("workspaces-in-error", "A workspace waits for an operator", 1)
WORKSPACE_OPERATION_STUCK = Limit(
    "workspace-operation-stuck", "An operation has been in progress for more than an hour", 3_600
)

CLEANUP_LATE = Limit("cleanup-late", "No daily cleanup has finished for 26 hours", 26 * 3_600)
CLEANUP_BREAKER = Limit("cleanup-breaker", "Far more data than usual is due for deletion", 1)
CLEANUP_FAILED = Limit("cleanup-failed", "A cleanup gave up a retention class", 1)
THREADS_OVERDUE = Limit("threads-overdue", "Threads are older than their tasks can be", 1)

ROLE_DEAD = Limit("role-dead", "A lifecycle role has sent no heartbeat for ten minutes", 600)
"""Ten ticks: each role has at least one per minute."""
SOURCE_FAILING = Limit("source-failing", "A source could not be polled three times in a row", 3)


def _flow(item: str, seconds: int) -> Limit:
    return Limit("flow-stuck", f"An item of the event flow waits for too long: {item}", seconds)


FLOW_STUCK: Mapping[str, Limit] = {
    "EVENT": _flow("event", 900),
    "TASK": _flow("task", 3_600),
    "MESSAGE": _flow("message", 3_600),
}
"""The longest wait: of an event for the king (dispatcher), of a task for its end (three attempts take far less), of a
message for Slack."""
