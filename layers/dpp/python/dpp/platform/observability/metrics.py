"""The table of all metrics (RUN-31; docs/metrics.md); `meter.py` emits them.

The rows and the ledger are authoritative, so a metric lost with a killed process does no harm.

Every metric has the dimension `Function`: the name of the Lambda function, which contains the deployment's name. Its
own dimensions are added. No dimension has values that clients choose or whose number grows with clients.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_lambda_powertools.metrics import MetricUnit

NAMESPACE = "DPP"
FUNCTION = "Function"
"""The dimension of every metric."""
DIMENSIONS: Mapping[str, str] = {
    FUNCTION: "the Lambda function that emitted it, such as `dpp-prod-run_worker`",
    "Answer": "ACCEPTED, REPLAYED",
    "ReasonCode": "the reason codes of [problems.md](problems.md)",
    "Outcome": "of a run message ENDED, SKIPPED, PARKED, LEASE_LOST, CLAIM_LOST, RETURNED; of a run COMPLETED, FAILED,"
    " DISPUTED; of a ticket DONE, FAILED, LEFT, LOST; of an auth error's event HANDLED, SKIPPED, RETRY, EARLY,"
    " DEAD_LETTERED; of a source's event ACCEPTED, DUPLICATE, TOO_OLD, IGNORED, SKIPPED; of a Slack message SENT,"
    " REPEATED, FAILED",
    "DecisionType": "PROCESS, RESOLVE, IGNORE, FAIL, ESCALATE",
    "DecidedBy": "OPERATOR, SYSTEM",
    "Reason": "NONE (completed), INPUTS (the client's), LIMIT (time, memory, output), PACK, PROVIDER, PLATFORM",
    "Step": "of the ops cycle `ticket_reaper`, `tickets`; of a task SENT, AT_WORK, WAITS, RETRIED, ASKED, SUCCEEDED,"
    " FAILED, LOST, LEFT",
    "Kind": "the kinds of workspace steps: BEGIN, ACT, COMPLETE, FAIL, LOSE",
    "Operation": "the operations of [workspaces.md](workspaces.md), and NONE",
    "Class": "the retention classes of [retention.md](retention.md)",
    "Role": "SENTINEL, KING, GENERAL, ENVOY, CHAMBERLAIN",
    "Source": "GITHUB, JIRA, SLACK",
    "Item": "EVENT, TASK, MESSAGE",
    "Scan": "the scans of reaper, sweeper, reconcile and retention, such as `stuck_claims`",
}
"""Every dimension with its values; none grows with clients or runs."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `dimensions`: those besides `Function`; `alarms`: the entries of docs/runbook.md of its alarms.

    CloudWatch has no unit of money, so amounts have none.
    """

    name: str
    meaning: str
    dimensions: tuple[str, ...] = ()
    unit: MetricUnit = MetricUnit.Count
    alarms: tuple[str, ...] = ()


SUBMITS = Metric("Submits", "submits answered 202: ACCEPTED for a new run, REPLAYED for a known one", ("Answer",))
REFUSALS = Metric("Refusals", "requests answered with a problem, by its reason_code (problems.md)", ("ReasonCode",))

MESSAGES = Metric(
    "Messages",
    "messages of the run queue: ENDED their run, SKIPPED, PARKED (disabled), LEASE_LOST, CLAIM_LOST, RETURNED",
    ("Outcome",),
)
QUEUE_AGE = Metric("QueueAge", "from the sending of a run's message to the start of its work", unit=MetricUnit.Seconds)
RUNS_ENDED = Metric(
    "RunsEnded",
    "runs that ended or became DISPUTED, counted by the function that committed them, by the class of the reason",
    ("Outcome", "Reason"),
)
SETTLED_USD_MICROS = Metric(
    "SettledUsdMicros", "the charge of an ended run, in millionths of a US dollar", unit=MetricUnit.NoUnit
)
REFUNDED_USD_MICROS = Metric(
    "RefundedUsdMicros",
    "the refunded part of an ended run's reservation, in millionths of a US dollar",
    unit=MetricUnit.NoUnit,
)

TICKS = Metric(
    "Firings",
    "ticks of a scheduled job that finished",
    alarms=(
        "reaper-silent",
        "sweeper-silent",
        "reconcile-silent",
        "retention-silent",
        "ops-cycle-silent",
        "outbox-silent",
        "workspaces-silent",
        "archives-silent",
        "lifecycle-chamberlain-silent",
    ),
)
INTERVENTIONS = Metric("Interventions", "rows that a tick repaired, by the scan that found them; usually 0", ("Scan",))
LEFT_FOR_NEXT_TICK = Metric(
    "LeftForNextFiring", "rows that a tick could not move because a dependency failed", ("Scan",)
)
STOPPED_EARLY = Metric("StoppedEarly", "1 if a scan reached its limit of rows or time, else 0", ("Scan",))

LEDGER_DRIFT_USD_MICROS = Metric(
    "LedgerDriftUsdMicros",
    "sum of the differences between balances and books found in this tick, repaired or not; normally 0",
    unit=MetricUnit.NoUnit,
    alarms=("ledger-drift",),
)
LEDGERS_DISPUTED = Metric(
    "LedgersDisputed", "tenants whose ledger waits for an operator; normally 0", alarms=("ledger-disputed",)
)
RUNS_DISPUTED = Metric(
    "RunsDisputed", "runs whose money waits for an operator (DISPUTED); normally 0", alarms=("runs-disputed",)
)
STUCK_CLAIMS = Metric(
    "StuckClaims", "claims that reconcile failed to finish for at least one tick", alarms=("stuck-claims",)
)

RUNS_EXPIRED = Metric("RunsExpired", "runs past their 30 days that became tombstones")
INPUTS_PURGED = Metric("InputsPurged", "inputs deleted an hour after their run had ended")

TICKETS_FILED = Metric("TicketsFiled", "tickets filed, without repetitions")
TICKETS_OPEN = Metric("TicketsOpen", "tickets not yet taken")
TICKET_AGE = Metric(
    "TicketAge",
    "age of the oldest ticket not yet taken; 0 if there is none",
    unit=MetricUnit.Seconds,
    alarms=("tickets-waiting",),
)
TICKETS_IN_PROGRESS = Metric("TicketsInProgress", "tickets in progress, without stale ones")
TICKETS_STALE = Metric("TicketsStale", "tickets whose processor has been silent for longer than the threshold")
TICKETS_ENDED = Metric(
    "TicketsEnded",
    "tickets that a cycle took: DONE, FAILED, LEFT for later because a dependency failed, or LOST to another cycle",
    ("Outcome",),
)
TICKETS_CLEANED = Metric("TicketsCleaned", "stale tickets ended by a cycle's reaper")
REAPER_BREAKER = Metric(
    "TicketReaperBreaker",
    "1 if the reaper ended no ticket because too many are stale, else 0",
    alarms=("ticket-reaper-breaker",),
)
EMERGENCY_STOP = Metric("EmergencyStop", "1 while the emergency stop is set, else 0", alarms=("emergency-stop",))
OPS_STEPS_FAILED = Metric(
    "OpsStepsFailed", "1 if a step of the ops cycle failed, else 0", ("Step",), alarms=("ops-step-failed",)
)

AUTH_ERRORS_RECORDED = Metric("AuthErrorsRecorded", "authentication errors recorded, without repetitions")
AUTH_ERROR_DECISIONS = Metric(
    "AuthErrorDecisions",
    "decisions on authentication errors",
    ("DecisionType", "DecidedBy"),
    alarms=("auth-errors-escalated",),
)
OUTBOX_PUBLISHED = Metric("OutboxPublished", "events published from the outbox to the queue")
OUTBOX_DELAY = Metric("OutboxDelay", "from an event's creation to its publication", unit=MetricUnit.Seconds)
OUTBOX_WAITING = Metric("OutboxWaiting", "events not yet published")
OUTBOX_LAG = Metric(
    "OutboxLag",
    "how long the oldest unpublished event has been due; 0 if none is",
    unit=MetricUnit.Seconds,
    alarms=("outbox-lag",),
)
OUTBOX_DEAD = Metric(
    "OutboxDead", "events that could not be published and wait for an operator; normally 0", alarms=("outbox-dead",)
)
OUTBOX_SENT_AGAIN = Metric("OutboxSentAgain", "events sent again because their message was lost")
EVENTS = Metric(
    "Events", "messages of the event queue: HANDLED, SKIPPED, returned (RETRY, EARLY), or DEAD_LETTERED", ("Outcome",)
)
EVENT_AGE = Metric("EventAge", "from an event's creation to the end of its handling", unit=MetricUnit.Seconds)
EVENTS_RETRYING = Metric("EventsRetrying", "events whose handling failed and that wait for a retry")
EVENTS_DEAD = Metric(
    "EventsDead", "events that could not be handled and wait for an operator; normally 0", alarms=("events-dead",)
)
AUTH_CLUSTERS_GROWING = Metric("AuthClustersGrowing", "clusters that gained an error within the last ten minutes")
AUTH_CLUSTERS_NEW = Metric("AuthClustersNew", "growing clusters that are less than an hour old")

WORKSPACES_CREATED = Metric("WorkspacesCreated", "workspaces created, without repetitions")
WORKSPACE_STEPS = Metric(
    "WorkspaceSteps", "steps of workspaces: BEGIN, ACT, COMPLETE, FAIL, LOSE", ("Kind", "Operation")
)
WORKSPACE_OUTAGES = Metric(
    "WorkspaceOutages",
    "observations and actions that the provider of containers, volumes or archives did not answer",
    alarms=("workspaces-outage",),
)
WORKSPACES_SEEDED = Metric("WorkspacesSeeded", "hints that a tick sent because they were lost or never sent")
WORKSPACES_LOWERED = Metric("WorkspacesLowered", "idle workspaces whose desired state was lowered by one level")
FLEET_OBSERVED = Metric("FleetLooked", "workspaces observed with the fleet")
FLEET_CHANGED = Metric("FleetChanged", "workspaces of these whose state had changed")
WORKSPACES_UNSETTLED = Metric("WorkspacesUnsettled", "workspaces not yet in their desired state, up to 10,000")
WORKSPACE_OPERATION_AGE = Metric(
    "WorkspaceOperationAge",
    "age of the oldest operation in progress; 0 if there is none",
    unit=MetricUnit.Seconds,
    alarms=("workspace-operation-stuck",),
)
WORKSPACES_IN_ERROR = Metric(
    "WorkspacesInError", "workspaces that wait for an operator (ERROR); normally 0", alarms=("workspaces-in-error",)
)
WORKSPACES_LOST = Metric(
    "WorkspacesLost",
    "workspaces in ERROR whose volume vanished with the home on it; normally 0",
    alarms=("workspace-home-lost",),
)
ARCHIVES_COLLECTED = Metric("ArchivesCollected", "unprotected archive objects deleted")
ARCHIVES_COLLECTED_BYTES = Metric("ArchivesCollectedBytes", "total size of these objects", unit=MetricUnit.Bytes)
ARCHIVES_REFUSED = Metric("ArchivesRefused", "objects that S3 did not delete; the next collection retries")

CLEANUP_DELETED = Metric("CleanupDeleted", "rows deleted by the chamberlain, by retention class", ("Class",))
CLEANUP_ERRORS = Metric("CleanupErrors", "failed batches of a cleanup; the next tick retries with a smaller batch")
CLEANUP_AGE = Metric(
    "CleanupAge", "time since the last daily cleanup ended", unit=MetricUnit.Seconds, alarms=("cleanup-late",)
)
CLASSES_TRIPPED = Metric(
    "ClassesTripped",
    "retention classes that were not cleaned because far more rows than usual were due",
    alarms=("cleanup-breaker",),
)
CLASSES_GIVEN_UP = Metric(
    "ClassesGivenUp",
    "retention classes that the last cleanup gave up after repeated errors",
    alarms=("cleanup-failed",),
)
OBJECTS_DELETED = Metric("ObjectsDeleted", "objects of deleted rows, deleted from S3")
OBJECTS_TO_DELETE = Metric("ObjectsToDelete", "objects of deleted rows, not yet deleted from S3")
DATA_BYTES = Metric("DataBytes", "size of a retention class after a cleanup", ("Class",), unit=MetricUnit.Bytes)
DATA_BYTES_PROJECTED = Metric(
    "DataBytesProjected",
    "its size after one retention period at the last day's rate",
    ("Class",),
    unit=MetricUnit.Bytes,
)
ROLE_SILENCE = Metric(
    "RoleSilence",
    "time since a role's last heartbeat; a role silent for ten minutes is dead",
    ("Role",),
    unit=MetricUnit.Seconds,
    alarms=("role-dead",),
)
THREADS_OVERDUE = Metric(
    "ThreadsOverdue", "threads older than seven days, whose tasks should have ended", alarms=("threads-overdue",)
)
QUESTIONS_OVERDUE = Metric("QuestionsOverdue", "questions unanswered for seven days")

EVENTS_TAKEN_IN = Metric("EventsTakenIn", "events polled or delivered, by outcome", ("Source", "Outcome"))
SOURCE_FAILURES = Metric(
    "SourceFailures",
    "consecutive failed polls of a source; 0 after a successful one",
    ("Source",),
    alarms=("source-failing",),
)
TASKS_BEGUN = Metric("TasksBegun", "events that became tasks")
TASK_STEPS = Metric("TaskLooks", "observations of tasks, by result", ("Step",))
MESSAGES_DELIVERED = Metric(
    "MessagesDelivered", "attempts to send a Slack message: SENT, REPEATED, FAILED", ("Outcome",)
)
FLOW_WAITING = Metric(
    "FlowWaiting", "events without a task, unfinished tasks that wait for no answer, unsent messages", ("Item",)
)
FLOW_AGE = Metric(
    "FlowAge",
    "age of the oldest of these; 0 if there is none",
    ("Item",),
    unit=MetricUnit.Seconds,
    alarms=("flow-stuck",),
)

COLD_STARTS = Metric("ColdStarts", "first invocations of containers")

METRICS: tuple[Metric, ...] = tuple(one for one in tuple(globals().values()) if isinstance(one, Metric))
"""All metrics, in the order of docs/metrics.md."""
