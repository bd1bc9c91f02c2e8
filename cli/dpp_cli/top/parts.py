"""The parts of `dpp top` that are read from Postgres, with the same queries as the dashboard's metrics."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from dpp.auth_errors import store as auth_error_store
from dpp.auth_errors.outbox import tables
from dpp.lifecycle.flow import heartbeat
from dpp.lifecycle.flow.intake import source_rows
from dpp.lifecycle.flow.ports import Role
from dpp.lifecycle.flow.reading import read
from dpp.lifecycle.retention.stats import read_stats as read_data_stats
from dpp.money import stats as money_stats
from dpp.platform.db.postgres import Connection
from dpp.runs.machine import Status
from dpp.runs.operations import stats as run_stats
from dpp.runs.operations.switch import switches
from dpp.tickets import cycle, stop
from dpp.tickets import store as ticket_store
from dpp.tickets.errors import NoReceiptYet
from dpp.tickets.receipt import StepOutcome
from dpp.tickets.staleness import ReaperRules
from dpp.workspaces import store as workspace_store
from dpp.workspaces.control.tick import MAX_COUNTED
from dpp_cli.top.model import DataPart, EventsPart, FlowPart, MoneyPart, RunsPart, TicketsPart, WorkspacesPart

_STEPS = ("ticket_reaper", "tickets")
_ESCALATED_SECONDS = 300


def runs(connection: Connection) -> RunsPart:
    """Count runs by state, and those that ended recently."""
    found = run_stats.read_stats(connection)
    off = tuple(one.scope or "*" for one in switches(connection) if not one.enabled)
    return RunsPart(
        waiting=found.waiting,
        parked=found.parked,
        oldest_seconds=found.oldest_seconds,
        processing=found.processing,
        ending=found.ending,
        disputed=found.disputed,
        stuck_claims=found.stuck_claims,
        completed=found.ended_recently.get(Status.COMPLETED, 0),
        failed=found.ended_recently.get(Status.FAILED, 0),
        disabled=off,
    )


def money(connection: Connection) -> MoneyPart:
    """Read reconcile's findings."""
    found = money_stats.read_stats(connection)
    return MoneyPart(drift_usd_micros=found.drift_usd_micros, rebuilt=found.rebuilt, disputed=found.disputed)


def tickets(connection: Connection, rules: ReaperRules, asof: datetime) -> TicketsPart:
    """Count open tickets and read the state of the ops cycle."""
    waiting = ticket_store.count_waiting(connection, rules)
    backlog = ticket_store.backlog(connection, rules)
    stopped = stop.read(connection)
    receipts = _ended_receipts(connection)
    last = receipts[0] if receipts else {}
    opened = [one for one in waiting if one.state == "OPEN"]
    return TicketsPart(
        open=sum(one.count for one in opened),
        in_progress=backlog.in_progress - backlog.stale,
        stale=backlog.stale,
        oldest_seconds=max((_seconds(one.oldest_at, asof) for one in opened), default=0.0),
        breaker_trips=rules.breaker.trips(backlog, 0),
        stopped_seconds=_seconds(stopped.changed_at, asof) if stopped.stopped else None,
        stopped_by=stopped.actor if stopped.stopped else None,
        last_cycle_seconds=_seconds(datetime.fromisoformat(last["finished_at"]), asof) if last else None,
        last_cycle_outcome=last.get("outcome"),
        failed_steps=tuple(step for step in _STEPS if (last.get(step) or {}).get("outcome") == StepOutcome.FAILED),
    )


def events(connection: Connection) -> EventsPart:
    """Count events from the outbox to their end."""
    lag = tables.lag(connection)
    queued, queued_seconds = tables.unhandled(connection)
    return EventsPart(
        to_publish=lag.unpublished,
        lag_seconds=lag.oldest_due_seconds,
        dead_in_outbox=lag.dead_in_outbox,
        queued=queued,
        queued_seconds=queued_seconds,
        retrying=lag.waiting_for_retry,
        dead=lag.dead_in_ledger,
        escalated=auth_error_store.escalated_lately(connection, _ESCALATED_SECONDS),
    )


def workspaces(connection: Connection) -> WorkspacesPart:
    """Read the measures of the workspace control function."""
    found = workspace_store.fleet_stats(connection, MAX_COUNTED)
    return WorkspacesPart(
        by_phase=workspace_store.count_by_phase(connection, MAX_COUNTED),
        unsettled=found.unsettled,
        operation_seconds=found.oldest_operation_seconds,
        in_error=found.in_error,
        lost=found.lost,
    )


def flow(connection: Connection) -> FlowPart:
    """Read open work, heartbeats and failing sources."""
    found = read.backlog(connection)
    heartbeat_ages = heartbeat.ages(connection)
    return FlowPart(
        events=found.events_pending,
        tasks=found.tasks_pending + found.tasks_in_progress,
        asked=found.tasks_waiting_for_person,
        messages=found.messages_pending,
        oldest_seconds={
            "EVENT": found.oldest_event_seconds,
            "TASK": found.oldest_task_seconds,
            "MESSAGE": found.oldest_message_seconds,
        },
        heartbeat_ages={role: heartbeat_ages.get(role) for role in Role},
        sources={one.source: one.failures for one in source_rows.statuses(connection)},
        questions_overdue=found.old_awaiting,
    )


def data(connection: Connection) -> DataPart:
    """Read the state of cleanups."""
    found = read_data_stats(connection)
    return DataPart(
        cleanup_seconds=found.cleanup_age_seconds,
        tripped=found.tripped,
        failed=found.failed,
        threads_overdue=found.overdue_threads,
        objects_to_delete=found.deletions.objects,
    )


PARTS: Mapping[str, Callable[[Connection], BaseModel]] = {
    "runs": runs,
    "money": money,
    "events": events,
    "workspaces": workspaces,
    "flow": flow,
    "data": data,
}
"""Parts that need only a connection, by name."""


def _ended_receipts(connection: Connection) -> list[Mapping[str, Any]]:
    """Return those of the last two cycles that ended; one may be in progress."""
    try:
        return [one for one in cycle.latest(connection, 2) if one.get("finished_at")]
    except NoReceiptYet:
        return []


def _seconds(since: datetime, asof: datetime) -> float:
    return max(0.0, (asof - since).total_seconds())
