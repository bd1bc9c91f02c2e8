"""Finds the problems in a snapshot, by the thresholds of the alarms (`dpp.platform.observability.limits`)."""

from collections.abc import Callable, Iterator

from dpp.lifecycle.flow.ports import Role
from dpp.platform.observability import limits
from dpp.platform.observability.limits import Limit
from dpp_cli.top.model import (
    Condition,
    DataPart,
    EventsPart,
    FlowPart,
    Level,
    MoneyPart,
    QueuesPart,
    RunsPart,
    Snapshot,
    TenantsPart,
    TicketsPart,
    Unit,
    WorkspacesPart,
)

_RUNBOOK = "runbook.md"


def judge(found: Snapshot) -> tuple[Condition, ...]:
    """Return all problems, money first and notes last."""
    judged = [condition for part in _parts(found) for condition in part]
    return tuple(sorted(judged, key=lambda one: one.level is Level.NOTE))


def _parts(found: Snapshot) -> Iterator[Iterator[Condition]]:
    def of[Part](part: Part | None, judged: Callable[[Part], Iterator[Condition]]) -> Iterator[Condition]:
        return iter(()) if part is None else judged(part)

    yield of(found.money, _of_money)
    yield of(found.tenants, _of_tenants)
    yield of(found.runs, _of_runs)
    yield of(found.queues, _of_queues)
    yield of(found.tickets, _of_tickets)
    yield of(found.events, _of_events)
    yield of(found.workspaces, _of_workspaces)
    yield of(found.flow, _of_flow)
    yield of(found.data, _of_data)


def _over(limit: Limit, value: float, unit: Unit = Unit.COUNT, subject: str = "") -> Iterator[Condition]:
    if value >= limit.at_least:
        yield _alarm(limit, value, unit, subject)


def _alarm(limit: Limit, value: float | None = None, unit: Unit = Unit.COUNT, subject: str = "") -> Condition:
    return Condition(
        level=Level.ALARM, says=limit.says, subject=subject, value=value, unit=unit, entry=f"{_RUNBOOK}#{limit.anchor}"
    )


def _of_money(part: MoneyPart) -> Iterator[Condition]:
    yield from _over(limits.LEDGER_DRIFT, part.drift_usd_micros, Unit.USD_MICROS)
    yield from _over(limits.LEDGER_DISPUTED, part.disputed)


def _of_tenants(part: TenantsPart) -> Iterator[Condition]:
    if part.lost:
        yield Condition(
            level=Level.ALARM,
            says="Redis has no balance of tenants that have money",
            value=len(part.lost),
            entry=f"{_RUNBOOK}#redis-lost-its-data",
        )


def _of_runs(part: RunsPart) -> Iterator[Condition]:
    yield from _over(limits.RUNS_DISPUTED, part.disputed)
    yield from _over(limits.STUCK_CLAIMS, part.stuck_claims)
    yield from _over(limits.QUEUE_AGE, part.oldest_seconds, Unit.SECONDS)
    if part.disabled:
        yield Condition(
            level=Level.NOTE,
            says="Execution disabled, runs parked",
            subject="all packs" if "*" in part.disabled else ", ".join(part.disabled),
            value=part.parked,
            entry="operations.md#execution-disabled",
        )


def _of_queues(part: QueuesPart) -> Iterator[Condition]:
    yield from _over(limits.DEAD_LETTERS, part.dead_letters.visible)
    yield from _over(limits.EVENT_DEAD_LETTERS, part.event_dead_letters.visible)


def _of_tickets(part: TicketsPart) -> Iterator[Condition]:
    if part.stopped_seconds is not None:
        forgotten = tuple(_over(limits.EMERGENCY_STOP, part.stopped_seconds, Unit.SECONDS, part.stopped_by or ""))
        yield from forgotten or (
            Condition(
                level=Level.NOTE,
                says="The emergency stop is set",
                subject=part.stopped_by or "",
                value=part.stopped_seconds,
                unit=Unit.SECONDS,
                entry=f"{_RUNBOOK}#{limits.EMERGENCY_STOP.anchor}",
            ),
        )
    if part.breaker_trips:
        yield _alarm(limits.REAPER_BREAKER)
    yield from _over(limits.TICKETS_WAITING, part.oldest_seconds, Unit.SECONDS)
    if part.last_cycle_seconds is not None:
        yield from _over(limits.OPS_CYCLE_SILENT, part.last_cycle_seconds, Unit.SECONDS)
    for step in part.failed_steps:
        yield _alarm(limits.OPS_STEP_FAILED, subject=step)


def _of_events(part: EventsPart) -> Iterator[Condition]:
    yield from _over(limits.OUTBOX_LAG, part.lag_seconds, Unit.SECONDS)
    yield from _over(limits.OUTBOX_DEAD, part.dead_in_outbox)
    yield from _over(limits.EVENTS_DEAD, part.dead)
    yield from _over(limits.EVENT_QUEUE_AGE, part.queued_seconds, Unit.SECONDS)
    yield from _over(limits.AUTH_ERRORS_ESCALATED, part.escalated)


def _of_workspaces(part: WorkspacesPart) -> Iterator[Condition]:
    yield from _over(limits.WORKSPACE_HOME_LOST, part.lost)
    yield from _over(limits.WORKSPACES_IN_ERROR, part.in_error)
    yield from _over(limits.WORKSPACE_OPERATION_STUCK, part.operation_seconds, Unit.SECONDS)


def _of_flow(part: FlowPart) -> Iterator[Condition]:
    for role, seconds in part.heartbeat_ages.items():
        if seconds is not None:
            yield from _over(limits.ROLE_DEAD, seconds, Unit.SECONDS, role.lower())
    # Without any heartbeat the deployment has no event flow; with one it has all roles.
    flow = {role: part.heartbeat_ages.get(role) for role in Role if role is not Role.CHAMBERLAIN}
    if any(seconds is not None for seconds in flow.values()):
        for role in (role for role, seconds in flow.items() if seconds is None):
            yield _alarm(limits.ROLE_DEAD, subject=f"{role.lower()}, no heartbeat yet")
    for source, failures in part.sources.items():
        yield from _over(limits.SOURCE_FAILING, failures, subject=source.lower())
    for item, seconds in part.oldest_seconds.items():
        if limit := limits.FLOW_STUCK.get(item):
            yield from _over(limit, seconds, Unit.SECONDS)


def _of_data(part: DataPart) -> Iterator[Condition]:
    if part.cleanup_seconds is not None:
        yield from _over(limits.CLEANUP_LATE, part.cleanup_seconds, Unit.SECONDS)
    yield from _over(limits.CLEANUP_BREAKER, len(part.tripped), subject=", ".join(part.tripped))
    yield from _over(limits.CLEANUP_FAILED, len(part.failed), subject=", ".join(part.failed))
    yield from _over(limits.THREADS_OVERDUE, part.threads_overdue)
