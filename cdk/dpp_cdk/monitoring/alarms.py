"""Every alarm, as data: what is watched, from when it is too much, and its entry in docs/runbook.md.

To watch a metric of `dpp.platform.observability.metrics`, add a line to `_platform`. Thresholds that `dpp top` shares
are in `dpp.platform.observability.limits`.
"""

from collections.abc import Iterator

from dpp.auth_errors.machine import DecisionType
from dpp.auth_errors.model import DecidedBy
from dpp.lifecycle.flow.model import Source
from dpp.lifecycle.flow.ports import Role
from dpp.platform.observability import limits, metrics
from dpp.platform.observability.metrics import Metric
from dpp_cdk.functions.spec import FunctionSpec, Part
from dpp_cdk.functions.table import (
    AUTH_ERRORS_CONSUME,
    AUTH_ERRORS_PUBLISH,
    JOBS,
    LIFECYCLE_CHAMBERLAIN,
    LIFECYCLE_KING,
    LIFECYCLE_SENTINEL,
    OPS_CYCLE,
    RUN_RECONCILE,
    WORKSPACES_CONTROL,
    WORKSPACES_STORAGE,
    functions_of,
)
from dpp_cdk.monitoring.alarm_spec import BELOW, QUIET_IS_BAD, AlarmSpec, Named, Watched, at_limit, of_ours
from dpp_cdk.settings.sizes import Size
from dpp_cdk.settings.timings import DeployTiming, OperatorTiming

RUNBOOK = "docs/runbook.md"

OPS_STEPS = ("ticket_reaper", "tickets")
"""The steps of the ops cycle that can fail, as the metric names them."""


def alarms(named: Named, size: Size) -> Iterator[AlarmSpec]:
    """All alarms of a deployment."""
    yield from _platform(named)
    yield from _tickets(named)
    yield from _auth_errors(named)
    yield from _lifecycle(named)
    yield from _queue(named)
    yield from _api(named)
    if Part.WORKSPACES in named.parts:
        yield from _workspaces(named)
    if Part.LIFECYCLE in named.parts:
        yield from _roles(named)
    for spec in functions_of(named.parts):
        yield from _function(spec, named)
    if named.database:
        yield from _database(named.database, size)
    for node in named.cache_nodes:
        yield from _cache(node)


def _platform(named: Named) -> Iterator[AlarmSpec]:
    """What only the platform knows of itself: its money, its runs, its jobs."""
    for limit, metric, periods in (
        (limits.LEDGER_DRIFT, metrics.LEDGER_DRIFT_USD_MICROS, 1),
        (limits.LEDGER_DISPUTED, metrics.LEDGERS_DISPUTED, 1),
        (limits.RUNS_DISPUTED, metrics.RUNS_DISPUTED, 1),
        (limits.STUCK_CLAIMS, metrics.STUCK_CLAIMS, 2),
    ):
        yield at_limit(limit, of_ours(metric, RUN_RECONCILE, named.stage, "Maximum"), periods)
    for spec in JOBS:
        job = spec.name.removeprefix("run_").replace("_", " ")
        yield _silent(spec, job, named)


def _silent(spec: FunctionSpec, job: str, named: Named) -> AlarmSpec:
    return AlarmSpec(
        f"{job.replace(' ', '-')}-silent",
        f"{job.capitalize()} came to no end for five minutes",
        of_ours(metrics.TICKS, spec, named.stage, "Sum"),
        threshold=1,
        comparison=BELOW,
        missing=QUIET_IS_BAD,
    )


def _lifecycle(named: Named) -> Iterator[AlarmSpec]:
    """What has outlived its use, and who works on the life of data (LIFE-8, LIFE-10, LIFE-11)."""
    for limit, metric in (
        (limits.CLEANUP_LATE, metrics.CLEANUP_AGE),
        (limits.CLEANUP_BREAKER, metrics.CLASSES_TRIPPED),
        (limits.CLEANUP_FAILED, metrics.CLASSES_GIVEN_UP),
        (limits.THREADS_OVERDUE, metrics.THREADS_OVERDUE),
    ):
        yield at_limit(limit, of_ours(metric, LIFECYCLE_CHAMBERLAIN, named.stage, "Maximum"))
    yield at_limit(
        limits.ROLE_DEAD,
        of_ours(metrics.ROLE_SILENCE, LIFECYCLE_CHAMBERLAIN, named.stage, "Maximum", Role=Role.CHAMBERLAIN),
        subject=Role.CHAMBERLAIN.lower(),
    )


def _roles(named: Named) -> Iterator[AlarmSpec]:
    """Whether events get to their answers (LIFE-1 … LIFE-7), and who fell silent on the way (LIFE-11)."""
    for role in (Role.SENTINEL, Role.KING, Role.GENERAL, Role.ENVOY):
        yield AlarmSpec(
            limits.ROLE_DEAD.anchor,
            f"The {role.lower()} fell silent, or was never heard",
            of_ours(metrics.ROLE_SILENCE, LIFECYCLE_CHAMBERLAIN, named.stage, "Maximum", Role=role),
            threshold=limits.ROLE_DEAD.at_least,
            missing=QUIET_IS_BAD,
            subject=role.lower(),
        )
    for source in Source:
        yield AlarmSpec(
            limits.SOURCE_FAILING.anchor,
            f"{source.title()} could not be polled three times in a row",
            of_ours(metrics.SOURCE_FAILURES, LIFECYCLE_SENTINEL, named.stage, "Maximum", Source=source),
            threshold=limits.SOURCE_FAILING.at_least,
            subject=source.lower(),
        )
    for item, limit in limits.FLOW_STUCK.items():
        watched = of_ours(metrics.FLOW_AGE, LIFECYCLE_KING, named.stage, "Maximum", Item=item)
        yield at_limit(limit, watched, 2, subject=item.lower())


def _tickets(named: Named) -> Iterator[AlarmSpec]:
    """What operators and automations wait for (TIX-6)."""

    def of_cycle(metric: Metric, **own: str) -> Watched:
        return of_ours(metric, OPS_CYCLE, named.stage, "Maximum", 5, **own)

    yield at_limit(limits.REAPER_BREAKER, of_cycle(metrics.REAPER_BREAKER))
    yield at_limit(limits.TICKETS_WAITING, of_cycle(metrics.TICKET_AGE), 2)
    stopped = of_cycle(metrics.EMERGENCY_STOP)
    # Whoever sets it knows; after half an hour somebody should ask whether it was forgotten.
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
            periods=2,  # once is a dependency that was away for a moment: the next cycle does what was left
            subject=step,
        )


def _auth_errors(named: Named) -> Iterator[AlarmSpec]:
    """Whether events get from the outbox to their end (AUTH-4, AUTH-5), and what policies call an operator to."""
    yield _silent(AUTH_ERRORS_PUBLISH, "outbox", named)
    for limit, metric, periods in (
        (limits.OUTBOX_LAG, metrics.OUTBOX_LAG, 2),
        (limits.OUTBOX_DEAD, metrics.OUTBOX_DEAD, 1),
        (limits.EVENTS_DEAD, metrics.EVENTS_DEAD, 1),
    ):
        yield at_limit(limit, of_ours(metric, AUTH_ERRORS_PUBLISH, named.stage, "Maximum"), periods)
    yield at_limit(
        limits.AUTH_ERRORS_ESCALATED,
        of_ours(
            metrics.AUTH_ERROR_DECISIONS,
            AUTH_ERRORS_CONSUME,
            named.stage,
            "Sum",
            DecisionType=DecisionType.ESCALATE,
            DecidedBy=DecidedBy.SYSTEM,
        ),
    )


def _workspaces(named: Named) -> Iterator[AlarmSpec]:
    """Whether workspaces get where they are wanted, and which wait for a person (WS-4, WS-5)."""
    yield _silent(WORKSPACES_CONTROL, "workspaces", named)
    for limit, metric, periods in (
        (limits.WORKSPACE_HOME_LOST, metrics.WORKSPACES_LOST, 1),
        (limits.WORKSPACES_IN_ERROR, metrics.WORKSPACES_IN_ERROR, 2),
        (limits.WORKSPACE_OPERATION_STUCK, metrics.WORKSPACE_OPERATION_AGE, 2),
    ):
        yield at_limit(limit, of_ours(metric, WORKSPACES_CONTROL, named.stage, "Maximum"), periods)
    for spec in (WORKSPACES_CONTROL, WORKSPACES_STORAGE):
        yield AlarmSpec(
            "workspaces-outage",
            f"The provider of containers, volumes or archives does not answer {spec.name}",
            of_ours(metrics.WORKSPACE_OUTAGES, spec, named.stage, "Sum"),
            threshold=5,
            periods=2,
            subject=spec.name,
        )
    yield AlarmSpec(
        "archives-silent",
        "Archives were not collected for three hours",
        of_ours(metrics.TICKS, WORKSPACES_STORAGE, named.stage, "Sum", 60),
        threshold=1,
        periods=3,
        comparison=BELOW,
        missing=QUIET_IS_BAD,
    )


def _queue(named: Named) -> Iterator[AlarmSpec]:
    """Of each queue: what nobody could deal with, and how long the oldest waits."""
    for failed, dead_letters, waits, queue in (
        (limits.DEAD_LETTERS, named.dead_letters, limits.QUEUE_AGE, named.runs_queue),
        (
            limits.EVENT_DEAD_LETTERS,
            named.auth_errors_dead_letters,
            limits.EVENT_QUEUE_AGE,
            named.auth_errors_queue,
        ),
    ):
        there = {"QueueName": dead_letters}
        yield at_limit(failed, Watched("AWS/SQS", "ApproximateNumberOfMessagesVisible", there, "Maximum", 1))
        oldest = Watched("AWS/SQS", "ApproximateAgeOfOldestMessage", {"QueueName": queue}, "Maximum")
        yield at_limit(waits, oldest, 2)


def _api(named: Named) -> Iterator[AlarmSpec]:
    dimensions = {"ApiName": named.api, "Stage": named.stage}
    yield AlarmSpec(
        "api-5xx",
        "More than one answer in a hundred is a 5xx",
        Watched("AWS/ApiGateway", "5XXError", dimensions, "Average"),
        threshold=0.01,
        periods=2,
    )
    yield AlarmSpec(
        "api-latency",
        "One request in twenty takes over two seconds",
        Watched("AWS/ApiGateway", "Latency", dimensions, "p95"),
        threshold=2_000,
        periods=3,
    )


def _function(spec: FunctionSpec, named: Named) -> Iterator[AlarmSpec]:
    dimensions = {"FunctionName": spec.function_name(named.stage)}
    yield AlarmSpec(
        "function-errors",
        f"{spec.name} fails",
        Watched("AWS/Lambda", "Errors", dimensions, "Sum"),
        threshold=1 if not spec.is_shifted_gradually else 5,  # a job fails as a whole, a request alone
        subject=spec.name,
    )
    if not isinstance(spec.timing, DeployTiming | OperatorTiming):  # whose caller sees how long it takes
        yield AlarmSpec(
            "function-duration-near-timeout",
            f"{spec.name} takes nearly as long as it may",
            Watched("AWS/Lambda", "Duration", dimensions, "Maximum"),
            threshold=900 * spec.timing.timeout_seconds,  # 90 % of it, in milliseconds
            subject=spec.name,
        )
    yield AlarmSpec(
        "function-throttles",
        f"{spec.name} is refused for lack of concurrency",
        Watched("AWS/Lambda", "Throttles", dimensions, "Sum"),
        threshold=1,
        periods=3,
        subject=spec.name,
    )


def _database(identifier: str, size: Size) -> Iterator[AlarmSpec]:
    def watched(name: str, statistic: str) -> Watched:
        return Watched("AWS/RDS", name, {"DBInstanceIdentifier": identifier}, statistic)

    wanted = size.database
    yield AlarmSpec(
        "database-cpu", "Postgres is busy above 80 %", watched("CPUUtilization", "Average"), 80, periods=3
    )
    yield AlarmSpec(
        "database-connections",
        "Postgres has given out 80 % of its connections",
        watched("DatabaseConnections", "Maximum"),
        threshold=round(0.8 * wanted.max_connections),
        periods=2,
    )
    yield AlarmSpec(
        "database-storage",
        "Postgres has less than a tenth of its first storage left",
        watched("FreeStorageSpace", "Minimum"),
        threshold=wanted.storage_gib * 2**30 / 10,
        comparison=BELOW,
    )
    yield AlarmSpec(
        "database-memory",
        "Postgres has less than 64 MiB of memory left",
        watched("FreeableMemory", "Minimum"),
        threshold=64 * 2**20,
        periods=3,
        comparison=BELOW,
    )


def _cache(node: str) -> Iterator[AlarmSpec]:
    def watched(name: str, statistic: str) -> Watched:
        return Watched("AWS/ElastiCache", name, {"CacheClusterId": node}, statistic)

    yield AlarmSpec(
        "cache-memory",
        f"{node} is three quarters full; full, it refuses every reservation",
        watched("DatabaseMemoryUsagePercentage", "Maximum"),
        threshold=75,
        subject=node,
    )
    yield AlarmSpec(
        "cache-evictions",
        f"{node} evicted a key, which may have been a budget",
        watched("Evictions", "Sum"),
        threshold=1,
        subject=node,
    )
    yield AlarmSpec(
        "cache-cpu",
        f"{node} is busy above 80 %",
        watched("EngineCPUUtilization", "Average"),
        threshold=80,
        periods=3,
        subject=node,
    )
