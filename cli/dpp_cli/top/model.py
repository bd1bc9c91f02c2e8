"""The JSON document behind `dpp top`: ids and figures, never text written by users.

A part that could not be read is None: `away` names the dependencies that did not answer, `slow` the parts that took too
long.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    # A newer deployment may send fields that this version of the command does not know.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Level(StrEnum):
    """ALARM: over an alarm's threshold. NOTE: intended by somebody, and easily forgotten."""

    ALARM = "ALARM"
    NOTE = "NOTE"


class Unit(StrEnum):
    """Unit of a condition's value."""

    COUNT = "COUNT"
    SECONDS = "SECONDS"
    USD_MICROS = "USD_MICROS"


class Condition(_Part):
    """A problem. `entry`: page and anchor in docs/ with what to do; `subject`: which of several things is affected.

    `value`: None if there is nothing to count."""

    level: Level
    says: str
    subject: str = ""
    value: float | None = None
    unit: Unit = Unit.COUNT
    entry: str


class RunsPart(_Part):
    """Runs by state; a count of 10,000 means at least that many.

    `parked`: waiting runs whose execution is disabled. `oldest_seconds`: age of the oldest other waiting run.
    `completed`, `failed`: in the last five minutes."""

    waiting: int
    parked: int
    oldest_seconds: float
    processing: int
    ending: int
    disputed: int
    stuck_claims: int
    completed: int
    failed: int
    disabled: tuple[str, ...] = ()
    """Disabled packs, `*` for all."""


class MoneyPart(_Part):
    """Drift found by reconcile in the last five minutes or left to an operator, balances rebuilt for it, and disputed
    ledgers."""

    drift_usd_micros: int
    rebuilt: int
    disputed: int


class TenantLine(_Part):
    """`requests_left`: None if the tenant sent no request for two minutes."""

    tenant_id: str
    balance_usd_micros: int
    reserved_usd_micros: int
    requests_left: int | None


class TenantsPart(_Part):
    """Tenants with the smallest balances, active ones first.

    `looked_at`: how many were checked; `is_all`: whether that is all. `throttled`: tenants without requests left.
    `lost`: tenants that were credited and have no balance in Redis."""

    nearest: tuple[TenantLine, ...]
    looked_at: int
    is_all: bool
    throttled: tuple[str, ...]
    lost: tuple[str, ...]


class QueuePart(_Part):
    """SQS's approximate counts. `taken`: messages in flight."""

    visible: int
    taken: int
    delayed: int


class QueuesPart(_Part):
    """The run queue, its dead letters, and the dead letters of events."""

    runs: QueuePart
    dead_letters: QueuePart
    event_dead_letters: QueuePart


class TicketsPart(_Part):
    """Open tickets and the ops cycle.

    `last_cycle_seconds`: since the last cycle ended, None if none has; `stopped_seconds`: since the emergency stop was
    set, None if it is not set."""

    open: int
    in_progress: int
    stale: int
    oldest_seconds: float
    breaker_trips: bool
    stopped_seconds: float | None
    stopped_by: str | None
    last_cycle_seconds: float | None
    last_cycle_outcome: str | None
    failed_steps: tuple[str, ...]


class EventsPart(_Part):
    """Events of authentication errors. `lag_seconds`: how long the oldest unpublished event has been due;
    `queued`: published but not yet handled; `escalated`: by policies in the last five minutes."""

    to_publish: int
    lag_seconds: float
    dead_in_outbox: int
    queued: int
    queued_seconds: float
    retrying: int
    dead: int
    escalated: int


class WorkspacesPart(_Part):
    """Workspaces by phase (of the 10,000 oldest), and the measures of the control function."""

    by_phase: Mapping[str, int]
    unsettled: int
    operation_seconds: float
    in_error: int
    lost: int


class FlowPart(_Part):
    """Events, tasks and messages.

    `heartbeat_ages`: seconds since each role's last heartbeat, None without any. `sources`: consecutive failed polls.
    """

    events: int
    tasks: int
    asked: int
    messages: int
    oldest_seconds: Mapping[str, float]
    heartbeat_ages: Mapping[str, float | None]
    sources: Mapping[str, int]
    questions_overdue: int


class DataPart(_Part):
    """Cleanups. `cleanup_seconds`: since the last daily cleanup ended, None if none has."""

    cleanup_seconds: float | None
    tripped: tuple[str, ...]
    failed: tuple[str, ...]
    threads_overdue: int
    objects_to_delete: int


class Snapshot(_Part):
    """All parts at one moment. `asof`: Postgres's clock, or this machine's if Postgres did not answer."""

    asof: datetime
    conditions: tuple[Condition, ...] = ()
    runs: RunsPart | None = None
    queues: QueuesPart | None = None
    money: MoneyPart | None = None
    tenants: TenantsPart | None = None
    tickets: TicketsPart | None = None
    events: EventsPart | None = None
    workspaces: WorkspacesPart | None = None
    flow: FlowPart | None = None
    data: DataPart | None = None
    away: Mapping[str, str] = {}
    slow: tuple[str, ...] = ()


PARTS = ("runs", "queues", "money", "tenants", "tickets", "events", "workspaces", "flow", "data")
