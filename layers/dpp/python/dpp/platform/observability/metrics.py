"""Metrics: the table of all there are (RUN-31; docs/metrics.md); dpp/platform/observability/meter.py emits them.

A metric tells what the rows and the ledger know better, so one that is lost with a killed process
costs nobody anything.

Every metric has the dimension `Function`, the name of the Lambda function, which names the deployment too; a metric's
own dimensions come beside it. No dimension takes a value that clients choose or that grows with their number.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aws_lambda_powertools.metrics import MetricUnit

NAMESPACE = "DPP"
FUNCTION = "Function"
"""The dimension that every metric has."""
DIMENSIONS: Mapping[str, str] = {
    FUNCTION: "the Lambda function that emitted it, such as `dpp-prod-run_worker`",
    "Answer": "ACCEPTED, REPLAYED",
    "ReasonCode": "the reason codes of [problems.md](problems.md)",
    "Outcome": "of a message ENDED, SKIPPED, PARKED, LEASE_LOST, CLAIM_LOST, RETURNED; of a run COMPLETED, FAILED,"
    " DISPUTED; of a ticket DONE, FAILED, LEFT, LOST; of an event HANDLED, SKIPPED, RETRY, EARLY, DEAD_LETTERED; of"
    " one from a source ACCEPTED, DUPLICATE, TOO_OLD, IGNORED, SKIPPED; of a message to Slack SENT, REPEATED, FAILED",
    "DecisionType": "PROCESS, RESOLVE, IGNORE, FAIL, ESCALATE",
    "DecidedBy": "OPERATOR, SYSTEM",
    "Reason": "NONE (completed), INPUTS (the client's), LIMIT (time, memory, output), PACK, PROVIDER, PLATFORM (ours)",
    "Step": "the steps of the ops cycle that may fail: `ticket_reaper`, `tickets`; of a look at a task SENT, AT_WORK,"
    " WAITS, RETRIED, ASKED, SUCCEEDED, FAILED, LOST, LEFT",
    "Kind": "the kinds of steps: BEGIN, ACT, COMPLETE, FAIL, LOSE",
    "Operation": "the operations of [workspaces.md](workspaces.md), and NONE",
    "Class": "the classes of data of [retention.md](retention.md)",
    "Role": "SENTINEL, KING, GENERAL, ENVOY, CHAMBERLAIN",
    "Source": "GITHUB, JIRA, SLACK",
    "Item": "EVENT, TASK, MESSAGE",
    "Scan": "the scans of reaper, sweeper, reconcile and retention, such as `stuck_claims`",
}
"""Every dimension and the values that it takes; none grows with clients or runs."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `dimensions` are those beside `Function`, `alarms` the entries of docs/runbook.md that watch it.

    CloudWatch has no unit of money: micros have none.
    """

    name: str
    unit: MetricUnit
    meaning: str
    dimensions: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()


SUBMITS = Metric(
    "Submits",
    MetricUnit.Count,
    "submits answered 202: ACCEPTED for a new run, REPLAYED for a known one",
    ("Answer",),
)
REFUSALS = Metric(
    "Refusals",
    MetricUnit.Count,
    "requests answered with a problem, by its reason_code (problems.md)",
    ("ReasonCode",),
)

MESSAGES = Metric(
    "Messages",
    MetricUnit.Count,
    "messages of the run queue: ENDED its run, SKIPPED, PARKED (disabled), LEASE_LOST, CLAIM_LOST, or RETURNED to come",
    ("Outcome",),
)
QUEUE_AGE = Metric(
    "QueueAge",
    MetricUnit.Seconds,
    "from the sending of a run's message to the lease by which its work begins",
)
RUNS_ENDED = Metric(
    "RunsEnded",
    MetricUnit.Count,
    "runs that ended, or stopped as DISPUTED, counted once by whoever committed them, by the class of the reason",
    ("Outcome", "Reason"),
)
SETTLED_USD_MICROS = Metric(
    "SettledUsdMicros", MetricUnit.NoUnit, "what a run that ended was charged, in millionths of a US dollar"
)
REFUNDED_USD_MICROS = Metric(
    "RefundedUsdMicros",
    MetricUnit.NoUnit,
    "what of its reservation went back when a run ended, in millionths of a US dollar",
)

FIRINGS = Metric(
    "Firings",
    MetricUnit.Count,
    "firings of a scheduled job that came to their end; a silent job has none",
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
INTERVENTIONS = Metric(
    "Interventions",
    MetricUnit.Count,
    "what a firing put right, by the scan that found it; 0 in a quiet minute",
    ("Scan",),
)
LEFT_FOR_NEXT_FIRING = Metric(
    "LeftForNextFiring", MetricUnit.Count, "what a firing could not move since a dependency failed", ("Scan",)
)
STOPPED_EARLY = Metric(
    "StoppedEarly", MetricUnit.Count, "1 where a scan ran into its limit of rows or time, else 0", ("Scan",)
)

LEDGER_DRIFT_USD_MICROS = Metric(
    "LedgerDriftUsdMicros",
    MetricUnit.NoUnit,
    "sum of what balances were off, found in this firing, repaired or not; 0 when all is well",
    alarms=("ledger-drift",),
)
LEDGERS_DISPUTED = Metric(
    "LedgersDisputed",
    MetricUnit.Count,
    "tenants whose ledger waits for an operator; 0 when all is well",
    alarms=("ledger-disputed",),
)
RUNS_DISPUTED = Metric(
    "RunsDisputed",
    MetricUnit.Count,
    "runs whose money waits for an operator (DISPUTED); 0 when all is well",
    alarms=("runs-disputed",),
)
STUCK_CLAIMS = Metric(
    "StuckClaims",
    MetricUnit.Count,
    "claims that reconcile should have finished a firing ago and could not",
    alarms=("stuck-claims",),
)

RUNS_EXPIRED = Metric("RunsExpired", MetricUnit.Count, "runs past their 30 days that became tombstones")
INPUTS_PURGED = Metric("InputsPurged", MetricUnit.Count, "inputs deleted an hour after their run had ended")

TICKETS_FILED = Metric("TicketsFiled", MetricUnit.Count, "tickets filed; a repetition is none")
TICKETS_OPEN = Metric("TicketsOpen", MetricUnit.Count, "tickets that nobody has taken yet")
TICKET_AGE = Metric(
    "TicketAge",
    MetricUnit.Seconds,
    "since when the oldest ticket waits that nobody has taken; 0 when none does",
    alarms=("tickets-waiting",),
)
TICKETS_IN_PROGRESS = Metric(
    "TicketsInProgress", MetricUnit.Count, "tickets that a processor has; stale ones are not among them"
)
TICKETS_STALE = Metric(
    "TicketsStale", MetricUnit.Count, "tickets whose processor has been silent for longer than the threshold"
)
TICKETS_ENDED = Metric(
    "TicketsEnded",
    MetricUnit.Count,
    "tickets that a cycle took: DONE, FAILED, LEFT for later since a dependency failed, or LOST to another",
    ("Outcome",),
)
TICKETS_CLEANED = Metric("TicketsCleaned", MetricUnit.Count, "stale tickets that a cycle's reaper ended")
REAPER_BREAKER = Metric(
    "TicketReaperBreaker",
    MetricUnit.Count,
    "1 where so many tickets are stale that the reaper ended none, else 0",
    alarms=("ticket-reaper-breaker",),
)
EMERGENCY_STOP = Metric(
    "EmergencyStop",
    MetricUnit.Count,
    "1 while the emergency stop is set, else 0",
    alarms=("emergency-stop",),
)
OPS_STEPS_FAILED = Metric(
    "OpsStepsFailed",
    MetricUnit.Count,
    "1 where a step of the ops cycle failed, else 0",
    ("Step",),
    alarms=("ops-step-failed",),
)

AUTH_ERRORS_RECORDED = Metric(
    "AuthErrorsRecorded", MetricUnit.Count, "authentication errors taken in; a repetition is none"
)
AUTH_ERROR_DECISIONS = Metric(
    "AuthErrorDecisions",
    MetricUnit.Count,
    "decisions made of authentication errors",
    ("DecisionType", "DecidedBy"),
    alarms=("auth-errors-escalated",),
)
OUTBOX_PUBLISHED = Metric(
    "OutboxPublished", MetricUnit.Count, "events that went from the outbox to the queue"
)
OUTBOX_DELAY = Metric("OutboxDelay", MetricUnit.Seconds, "from an event's beginning to its publication")
OUTBOX_WAITING = Metric("OutboxWaiting", MetricUnit.Count, "events that are not published yet")
OUTBOX_LAG = Metric(
    "OutboxLag",
    MetricUnit.Seconds,
    "for how long the oldest event that is not published has been due; 0 when none is",
    alarms=("outbox-lag",),
)
OUTBOX_DEAD = Metric(
    "OutboxDead",
    MetricUnit.Count,
    "events that could not be published and wait for an operator; 0 when all is well",
    alarms=("outbox-dead",),
)
OUTBOX_SENT_AGAIN = Metric(
    "OutboxSentAgain", MetricUnit.Count, "events sent once more, since a queue lost their message"
)
EVENTS = Metric(
    "Events",
    MetricUnit.Count,
    "messages of the event queue: HANDLED, SKIPPED, to come again (RETRY, EARLY), or DEAD_LETTERED",
    ("Outcome",),
)
EVENT_AGE = Metric("EventAge", MetricUnit.Seconds, "from an event's beginning to the end of its handling")
EVENTS_RETRYING = Metric(
    "EventsRetrying", MetricUnit.Count, "events whose handling failed and that wait to be tried again"
)
EVENTS_DEAD = Metric(
    "EventsDead",
    MetricUnit.Count,
    "events that could not be handled and wait for an operator; 0 when all is well",
    alarms=("events-dead",),
)
AUTH_CLUSTERS_GROWING = Metric(
    "AuthClustersGrowing", MetricUnit.Count, "clusters that an error joined within ten minutes"
)
AUTH_CLUSTERS_NEW = Metric(
    "AuthClustersNew", MetricUnit.Count, "of those that grow, clusters that are not an hour old"
)

WORKSPACES_CREATED = Metric("WorkspacesCreated", MetricUnit.Count, "workspaces created; a repetition is none")
WORKSPACE_STEPS = Metric(
    "WorkspaceSteps",
    MetricUnit.Count,
    "steps of workspaces: BEGIN, ACT, COMPLETE, FAIL, LOSE",
    ("Kind", "Operation"),
)
WORKSPACE_OUTAGES = Metric(
    "WorkspaceOutages",
    MetricUnit.Count,
    "looks and deeds that the provider of containers, volumes or archives did not answer",
    alarms=("workspaces-outage",),
)
WORKSPACES_SEEDED = Metric(
    "WorkspacesSeeded", MetricUnit.Count, "looks that a beat sent, since they were lost or never sent"
)
WORKSPACES_LOWERED = Metric(
    "WorkspacesLowered",
    MetricUnit.Count,
    "workspaces that nobody used for their time, wanted one level lower",
)
FLEET_LOOKED = Metric("FleetLooked", MetricUnit.Count, "workspaces that were looked at with the fleet")
FLEET_CHANGED = Metric("FleetChanged", MetricUnit.Count, "of these, those that stood otherwise than before")
WORKSPACES_UNSETTLED = Metric(
    "WorkspacesUnsettled", MetricUnit.Count, "workspaces that are not yet as they are wanted, up to 10,000"
)
WORKSPACE_OPERATION_AGE = Metric(
    "WorkspaceOperationAge",
    MetricUnit.Seconds,
    "for how long the oldest operation has been under way; 0 when none is",
    alarms=("workspace-operation-stuck",),
)
WORKSPACES_IN_ERROR = Metric(
    "WorkspacesInError",
    MetricUnit.Count,
    "workspaces that wait for a person (ERROR); 0 when all is well",
    alarms=("workspaces-in-error",),
)
WORKSPACES_LOST = Metric(
    "WorkspacesLost",
    MetricUnit.Count,
    "of those in ERROR, workspaces whose volume vanished with the home on it; 0 when all is well",
    alarms=("workspace-home-lost",),
)
ARCHIVES_COLLECTED = Metric(
    "ArchivesCollected", MetricUnit.Count, "objects of archives that nothing protected, deleted"
)
ARCHIVES_COLLECTED_BYTES = Metric("ArchivesCollectedBytes", MetricUnit.Bytes, "what they held")
ARCHIVES_REFUSED = Metric(
    "ArchivesRefused", MetricUnit.Count, "objects that S3 did not delete; the next collection tries again"
)

CLEANUP_DELETED = Metric(
    "CleanupDeleted", MetricUnit.Count, "rows that the chamberlain deleted, by their class", ("Class",)
)
CLEANUP_ERRORS = Metric(
    "CleanupErrors",
    MetricUnit.Count,
    "batches of a cleanup that failed; the next firing tries again with less",
)
CLEANUP_AGE = Metric(
    "CleanupAge",
    MetricUnit.Seconds,
    "since the last daily cleanup ended",
    alarms=("cleanup-late",),
)
CLASSES_TRIPPED = Metric(
    "ClassesTripped",
    MetricUnit.Count,
    "classes of data of which far more than usual was due, so that none was deleted",
    alarms=("cleanup-breaker",),
)
CLASSES_GIVEN_UP = Metric(
    "ClassesGivenUp",
    MetricUnit.Count,
    "classes of data that the last cleanup gave up after repeated errors",
    alarms=("cleanup-failed",),
)
OBJECTS_DELETED = Metric("ObjectsDeleted", MetricUnit.Count, "objects whose rows were gone, deleted from S3")
OBJECTS_TO_DELETE = Metric(
    "ObjectsToDelete", MetricUnit.Count, "objects whose rows are gone and that S3 has yet to delete"
)
DATA_BYTES = Metric("DataBytes", MetricUnit.Bytes, "what a class of data takes, after a cleanup", ("Class",))
DATA_BYTES_PROJECTED = Metric(
    "DataBytesProjected",
    MetricUnit.Bytes,
    "what it will take once its period is full, at the last day's rate",
    ("Class",),
)
ROLE_SILENCE = Metric(
    "RoleSilence",
    MetricUnit.Seconds,
    "since a role's last heartbeat; a role that is silent for ten minutes is dead",
    ("Role",),
    alarms=("role-dead",),
)
THREADS_OVERDUE = Metric(
    "ThreadsOverdue",
    MetricUnit.Count,
    "threads older than seven days, whose tasks should have ended",
    alarms=("threads-overdue",),
)
QUESTIONS_OVERDUE = Metric(
    "QuestionsOverdue", MetricUnit.Count, "questions that nobody has answered for seven days"
)

EVENTS_TAKEN_IN = Metric(
    "EventsTakenIn",
    MetricUnit.Count,
    "events that were polled or delivered, by what became of them",
    ("Source", "Outcome"),
)
SOURCE_FAILURES = Metric(
    "SourceFailures",
    MetricUnit.Count,
    "how many polls of a source failed in a row; 0 when the last one went well",
    ("Source",),
    alarms=("source-failing",),
)
TASKS_BEGUN = Metric("TasksBegun", MetricUnit.Count, "events that became tasks")
TASK_LOOKS = Metric("TaskLooks", MetricUnit.Count, "looks at tasks, by what they did", ("Step",))
MESSAGES_DELIVERED = Metric(
    "MessagesDelivered", MetricUnit.Count, "attempts to send a message: SENT, REPEATED, FAILED", ("Outcome",)
)
FLOW_WAITING = Metric(
    "FlowWaiting",
    MetricUnit.Count,
    "events that are no tasks yet, tasks that have not ended and ask nobody, messages that are not sent",
    ("Item",),
)
FLOW_AGE = Metric(
    "FlowAge",
    MetricUnit.Seconds,
    "of these, for how long the oldest has waited; 0 when none does",
    ("Item",),
    alarms=("flow-stuck",),
)

COLD_STARTS = Metric("ColdStarts", MetricUnit.Count, "first invocations of a container")

METRICS: tuple[Metric, ...] = tuple(one for one in tuple(globals().values()) if isinstance(one, Metric))
"""All there are, in the order of docs/metrics.md."""
