"""Snapshots to draw: one where all is well, and what is changed in it."""

from datetime import UTC, datetime
from typing import Any

from dpp_cli.top import model
from dpp_cli.top.problems import judge

NOON = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
_EMPTY = model.QueuePart(visible=0, taken=0, delayed=0)
ROLES = ("SENTINEL", "KING", "GENERAL", "ENVOY", "CHAMBERLAIN")


def tenant(name: str, balance: int, reserved: int = 0, requests_left: int | None = None) -> model.TenantLine:
    """One line of the table, amounts in micros."""
    return model.TenantLine(
        tenant_id=name, balance_usd_micros=balance, reserved_usd_micros=reserved, requests_left=requests_left
    )


WELL = model.Snapshot(
    asof=NOON,
    runs=model.RunsPart(
        waiting=12,
        parked=0,
        oldest_seconds=4.2,
        processing=3,
        ending=1,
        disputed=0,
        stuck_claims=0,
        completed=69,
        failed=2,
    ),
    queues=model.QueuesPart(
        runs=model.QueuePart(visible=12, taken=3, delayed=0), dead_letters=_EMPTY, event_dead_letters=_EMPTY
    ),
    money=model.MoneyPart(drift_usd_micros=0, rebuilt=0, disputed=0),
    tenants=model.TenantsPart(
        nearest=(
            tenant("acme", 12_000, 250_000, requests_left=0),
            tenant("beta-works", 1_200_000, 0),
            tenant("zeta", 25_000_000, 500_000, requests_left=40),
        ),
        looked_at=3,
        is_all=True,
        throttled=("acme",),
        lost=(),
    ),
    tickets=model.TicketsPart(
        open=1,
        in_progress=0,
        stale=0,
        oldest_seconds=31,
        breaker_trips=False,
        stopped_seconds=None,
        stopped_by=None,
        last_cycle_seconds=34,
        last_cycle_outcome="COMPLETED",
        failed_steps=(),
    ),
    events=model.EventsPart(
        to_publish=0, lag_seconds=0, dead_in_outbox=0, queued=0, queued_seconds=0, retrying=0, dead=0, escalated=0
    ),
    workspaces=model.WorkspacesPart(
        by_phase={"RUNNING": 12, "STANDBY": 3}, unsettled=0, operation_seconds=0, in_error=0, lost=0
    ),
    flow=model.FlowPart(
        events=0,
        tasks=2,
        asked=1,
        messages=0,
        oldest_seconds={"EVENT": 0, "TASK": 130, "MESSAGE": 0},
        heartbeat_ages=dict.fromkeys(ROLES, 12.0),
        sources={"GITHUB": 0},
        questions_overdue=0,
    ),
    data=model.DataPart(cleanup_seconds=11_000, tripped=(), failed=(), threads_overdue=0, objects_to_delete=0),
)


def but(**parts: dict[str, Any]) -> model.Snapshot:
    """The one where all is well, some members of its parts changed, and judged."""
    changed = {name: getattr(WELL, name).model_copy(update=changes) for name, changes in parts.items()}
    found = WELL.model_copy(update=changed)
    return found.model_copy(update={"conditions": judge(found)})
