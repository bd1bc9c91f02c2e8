"""All alarms, as data: the metric, its threshold, and the entry in docs/runbook.md.

For a metric of `dpp.platform.observability.metrics`, add a line to `_platform`. Thresholds that `dpp top` shares are in
`dpp.platform.observability.limits`.
"""

from collections.abc import Iterator, Mapping

from dpp.auth_errors.machine import DecisionType
from dpp.auth_errors.model import DecidedBy
from dpp.lifecycle.flow.model import Source
from dpp.lifecycle.flow.ports import Role
from dpp.platform.observability import limits, metrics
from dpp.platform.observability.metrics import Metric
from dpp_cdk.functions import table
from dpp_cdk.functions.spec import FunctionSpec, Part
from dpp_cdk.monitoring.alarm_spec import (
    AT_LEAST,
    BELOW,
    MISSING_IS_BREACHING,
    AlarmSpec,
    ResourceNames,
    Watched,
    at_limit,
    platform_metric,
)
from dpp_cdk.settings.sizes import Size
from dpp_cdk.settings.timings import DeployTiming, OperatorTiming

RUNBOOK = "docs/runbook.md"

OPS_STEPS = ("ticket_reaper", "tickets")
"""The steps of the ops cycle that can fail, as the metric names them."""


def alarms(names: ResourceNames, size: Size) -> Iterator[AlarmSpec]:
    """All alarms of a deployment."""
    yield from _platform(names)
    yield from _tickets(names)
    yield from _auth_errors(names)
    yield from _lifecycle(names)
    yield from _queue(names)
    yield from _api(names)
    if Part.WORKSPACES in names.parts:
        yield from _workspaces(names)
    if Part.LIFECYCLE in names.parts:
        yield from _roles(names)
    for spec in table.functions_of(names.parts):
        yield from _function(spec, names)
    if names.database:
        yield from _database(names.database, size)
    for node in names.cache_nodes:
        yield from _cache(node)


def _platform(names: ResourceNames) -> Iterator[AlarmSpec]:
    """Money, runs and scheduled jobs."""
    for limit, metric, periods in (
        (limits.LEDGER_DRIFT, metrics.LEDGER_DRIFT_USD_MICROS, 1),
        (limits.LEDGER_DISPUTED, metrics.LEDGERS_DISPUTED, 1),
        (limits.RUNS_DISPUTED, metrics.RUNS_DISPUTED, 1),
        (limits.STUCK_CLAIMS, metrics.STUCK_CLAIMS, 2),
    ):
        yield at_limit(limit, platform_metric(metric, table.RUN_RECONCILE, names.stage, "Maximum"), periods)
    for spec in table.JOBS:
        job = spec.name.removeprefix("run_").replace("_", " ")
        yield _silent(spec, job, names)


def _silent(spec: FunctionSpec, job: str, names: ResourceNames) -> AlarmSpec:
    return AlarmSpec(
        f"{job.replace(' ', '-')}-silent",
        f"{job.capitalize()}: no tick has finished for five minutes",
        platform_metric(metrics.TICKS, spec, names.stage, "Sum"),
        threshold=1,
        comparison=BELOW,
        missing=MISSING_IS_BREACHING,
    )


def _lifecycle(names: ResourceNames) -> Iterator[AlarmSpec]:
    """The cleanup, and the chamberlain's own heartbeat (LIFE-8, LIFE-10, LIFE-11)."""
    for limit, metric in (
        (limits.CLEANUP_LATE, metrics.CLEANUP_AGE),
        (limits.CLEANUP_BREAKER, metrics.CLASSES_TRIPPED),
        (limits.CLEANUP_FAILED, metrics.CLASSES_GIVEN_UP),
        (limits.THREADS_OVERDUE, metrics.THREADS_OVERDUE),
    ):
        yield at_limit(limit, platform_metric(metric, table.LIFECYCLE_CHAMBERLAIN, names.stage, "Maximum"))
    yield at_limit(
        limits.ROLE_DEAD,
        platform_metric(
            metrics.ROLE_SILENCE, table.LIFECYCLE_CHAMBERLAIN, names.stage, "Maximum", Role=Role.CHAMBERLAIN
        ),
        subject=Role.CHAMBERLAIN.lower(),
    )


def _roles(names: ResourceNames) -> Iterator[AlarmSpec]:
    """The flow from events to answers (LIFE-1 … LIFE-7), and the roles' heartbeats (LIFE-11)."""
    for role in (Role.SENTINEL, Role.KING, Role.GENERAL, Role.ENVOY):
        yield AlarmSpec(
            limits.ROLE_DEAD.anchor,
            f"The {role.lower()} has sent no heartbeat for ten minutes, or never",
            platform_metric(metrics.ROLE_SILENCE, table.LIFECYCLE_CHAMBERLAIN, names.stage, "Maximum", Role=role),
            threshold=limits.ROLE_DEAD.at_least,
            missing=MISSING_IS_BREACHING,
            subject=role.lower(),
        )
    for source in Source:
        yield AlarmSpec(
            limits.SOURCE_FAILING.anchor,
            f"Three polls of {source.title()} failed in a row",
            platform_metric(metrics.SOURCE_FAILURES, table.LIFECYCLE_SENTINEL, names.stage, "Maximum", Source=source),
            threshold=limits.SOURCE_FAILING.at_least,
            subject=source.lower(),
        )
    for item, limit in limits.FLOW_STUCK.items():
        watched = platform_metric(metrics.FLOW_AGE, table.LIFECYCLE_KING, names.stage, "Maximum", Item=item)
        yield at_limit(limit, watched, 2, subject=item.lower())


def _tickets(names: ResourceNames) -> Iterator[AlarmSpec]:
    """Tickets and the ops cycle (TIX-6)."""

    def of_cycle(metric: Metric, **own: str) -> Watched:
        return platform_metric(metric, table.OPS_CYCLE, names.stage, "Maximum", 5, **own)

    yield at_limit(limits.REAPER_BREAKER, of_cycle(metrics.REAPER_BREAKER))
    yield at_limit(limits.TICKETS_WAITING, of_cycle(metrics.TICKET_AGE), 2)
    stopped = of_cycle(metrics.EMERGENCY_STOP)
    # The operator who set it knows; after half an hour it may have been forgotten.
    yield AlarmSpec(
        limits.EMERGENCY_STOP.anchor,
        limits.EMERGENCY_STOP.says,
        stopped,
        threshold=1,
        periods=limits.EMERGENCY_STOP.at_least // (60 * stopped.minutes),
    )
    for step in OPS_STEPS:
        yield AlarmSpec(
            limits.OPS_STEP_FAILED.anchor,
            f"The step {step} of the ops cycle fails",
            of_cycle(metrics.OPS_STEPS_FAILED, Step=step),
            threshold=limits.OPS_STEP_FAILED.at_least,
            periods=2,  # a single failure may be a short outage of a dependency: the next cycle retries
            subject=step,
        )


def _auth_errors(names: ResourceNames) -> Iterator[AlarmSpec]:
    """The outbox and the consumer (AUTH-4, AUTH-5), and escalations by policies."""
    yield _silent(table.AUTH_ERRORS_PUBLISH, "outbox", names)
    for limit, metric, periods in (
        (limits.OUTBOX_LAG, metrics.OUTBOX_LAG, 2),
        (limits.OUTBOX_DEAD, metrics.OUTBOX_DEAD, 1),
        (limits.EVENTS_DEAD, metrics.EVENTS_DEAD, 1),
    ):
        yield at_limit(limit, platform_metric(metric, table.AUTH_ERRORS_PUBLISH, names.stage, "Maximum"), periods)
    yield at_limit(
        limits.AUTH_ERRORS_ESCALATED,
        platform_metric(
            metrics.AUTH_ERROR_DECISIONS,
            table.AUTH_ERRORS_CONSUME,
            names.stage,
            "Sum",
            DecisionType=DecisionType.ESCALATE,
            DecidedBy=DecidedBy.SYSTEM,
        ),
    )


def _workspaces(names: ResourceNames) -> Iterator[AlarmSpec]:
    """Workspaces that do not reach their desired state, or wait for an operator (WS-4, WS-5)."""
    yield _silent(table.WORKSPACES_CONTROL, "workspaces", names)
    for limit, metric, periods in (
        (limits.WORKSPACE_HOME_LOST, metrics.WORKSPACES_LOST, 1),
        (limits.WORKSPACES_IN_ERROR, metrics.WORKSPACES_IN_ERROR, 2),
        (limits.WORKSPACE_OPERATION_STUCK, metrics.WORKSPACE_OPERATION_AGE, 2),
    ):
        yield at_limit(limit, platform_metric(metric, table.WORKSPACES_CONTROL, names.stage, "Maximum"), periods)
    for spec in (table.WORKSPACES_CONTROL, table.WORKSPACES_STORAGE):
        yield AlarmSpec(
            "workspaces-outage",
            f"The provider of containers, volumes or archives does not answer {spec.name}",
            platform_metric(metrics.WORKSPACE_OUTAGES, spec, names.stage, "Sum"),
            threshold=5,
            periods=2,
            subject=spec.name,
        )
    yield AlarmSpec(
        "archives-silent",
        "No collection of archives has finished for three hours",
        platform_metric(metrics.TICKS, table.WORKSPACES_STORAGE, names.stage, "Sum", 60),
        threshold=1,
        periods=3,
        comparison=BELOW,
        missing=MISSING_IS_BREACHING,
    )


def _queue(names: ResourceNames) -> Iterator[AlarmSpec]:
    """For each queue: its dead letters, and the age of its oldest message."""
    for failed, dead_letters, waits, queue in (
        (limits.DEAD_LETTERS, names.dead_letters, limits.QUEUE_AGE, names.runs_queue),
        (limits.EVENT_DEAD_LETTERS, names.auth_errors_dead_letters, limits.EVENT_QUEUE_AGE, names.auth_errors_queue),
    ):
        visible = "ApproximateNumberOfMessagesVisible"
        yield at_limit(failed, Watched("AWS/SQS", visible, {"QueueName": dead_letters}, "Maximum", 1))
        oldest = Watched("AWS/SQS", "ApproximateAgeOfOldestMessage", {"QueueName": queue}, "Maximum")
        yield at_limit(waits, oldest, 2)


def _api(names: ResourceNames) -> Iterator[AlarmSpec]:
    resource = ("AWS/ApiGateway", {"ApiName": names.api, "Stage": names.stage}, "")
    yield from _of_aws(
        *resource,
        ("api-5xx", "More than one answer in a hundred is a 5xx", "5XXError", "Average", 0.01, 2),
        ("api-latency", "One request in twenty takes over two seconds", "Latency", "p95", 2_000, 3),
    )


def _function(spec: FunctionSpec, names: ResourceNames) -> Iterator[AlarmSpec]:
    resource = ("AWS/Lambda", {"FunctionName": spec.function_name(names.stage)}, spec.name)
    failures = 1 if not spec.is_shifted_gradually else 5  # one error is a whole tick, but only one request
    yield from _of_aws(*resource, ("function-errors", f"{spec.name} fails", "Errors", "Sum", failures, 1))
    if not isinstance(spec.timing, DeployTiming | OperatorTiming):  # their callers notice a timeout themselves
        longest = 900 * spec.timing.timeout_seconds  # 90 %, in milliseconds
        says = f"{spec.name} takes 90 % of its timeout"
        yield from _of_aws(*resource, ("function-duration-near-timeout", says, "Duration", "Maximum", longest, 1))
    says = f"{spec.name} is throttled: the account's concurrency is used up"
    yield from _of_aws(*resource, ("function-throttles", says, "Throttles", "Sum", 1, 3))


def _database(identifier: str, size: Size) -> Iterator[AlarmSpec]:
    connections = round(0.8 * size.database.max_connections)
    tenth = size.database.storage_gib * 2**30 / 10
    in_use = "80 % of Postgres's connections are in use"
    little = "Postgres's free storage is less than a tenth of its initial storage"
    resource = ("AWS/RDS", {"DBInstanceIdentifier": identifier}, "")
    yield from _of_aws(
        *resource,
        ("database-cpu", "Postgres uses over 80 % of its CPU", "CPUUtilization", "Average", 80, 3),
        ("database-connections", in_use, "DatabaseConnections", "Maximum", connections, 2),
        ("database-storage", little, "FreeStorageSpace", "Minimum", tenth, 1),
        ("database-memory", "Postgres has less than 64 MiB of free memory", "FreeableMemory", "Minimum", 64 * 2**20, 3),
    )


def _cache(node: str) -> Iterator[AlarmSpec]:
    full = f"{node} is three quarters full; when full, it refuses every reservation"
    resource = ("AWS/ElastiCache", {"CacheClusterId": node}, node)
    yield from _of_aws(
        *resource,
        ("cache-memory", full, "DatabaseMemoryUsagePercentage", "Maximum", 75, 1),
        ("cache-evictions", f"{node} evicted a key, possibly a budget", "Evictions", "Sum", 1, 1),
        ("cache-cpu", f"{node} uses over 80 % of its CPU", "EngineCPUUtilization", "Average", 80, 3),
    )


def _of_aws(
    namespace: str, dimensions: Mapping[str, str], subject: str, *rows: tuple[str, str, str, str, float, int]
) -> Iterator[AlarmSpec]:
    """Alarms of AWS's own metrics of a resource; a row is the anchor, the description, the metric, its statistic, the
    threshold and the periods. A minimum must not fall below its threshold, other values must not reach theirs."""
    for anchor, says, metric, statistic, threshold, periods in rows:
        watched = Watched(namespace, metric, dimensions, statistic)
        comparison = BELOW if statistic == "Minimum" else AT_LEAST
        yield AlarmSpec(anchor, says, watched, threshold, periods, comparison, subject=subject)
