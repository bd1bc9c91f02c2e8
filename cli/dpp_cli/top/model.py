"""What `dpp top` shows, as one JSON document: ids and figures, never a word that somebody wrote.

A part that could not be asked is None: `away` says which dependency did not answer, `slow` which part took too long.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    # A deployment may tell more than this version of the command knows.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Level(StrEnum):
    """ALARM: as much as an alarm rises for, if it lasts. NOTE: somebody meant it so, and should not forget it."""

    ALARM = "ALARM"
    NOTE = "NOTE"


class Unit(StrEnum):
    """Of a condition's figure."""

    COUNT = "COUNT"
    SECONDS = "SECONDS"
    USD_MICROS = "USD_MICROS"


class Condition(_Part):
    """Something that is wrong. `entry`: what to do, in docs/; `subject`: of several with one entry, which.

    `value`: None where there is nothing to count."""

    level: Level
    says: str
    subject: str = ""
    value: float | None = None
    unit: Unit = Unit.COUNT
    entry: str


class RunsPart(_Part):
    """Runs by state; a count of 10,000 means so many or more.

    `parked`: of those that wait, runs whose execution is disabled. `oldest_seconds`: how long the oldest of the others
    has waited. `completed`, `failed`: within five minutes."""

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
    """The packs whose execution is disabled, `*` for all."""


class MoneyPart(_Part):
    """Drift that reconcile found within five minutes or left to an operator, balances that it wrote anew for it, and
    ledgers that wait for an operator."""

    drift_usd_micros: int
    rebuilt: int
    disputed: int


class TenantLine(_Part):
    """`requests_left`: None where none came for two minutes."""

    tenant_id: str
    balance_usd_micros: int
    reserved_usd_micros: int
    requests_left: int | None


class TenantsPart(_Part):
    """Tenants nearest to an empty budget, those that are at work first.

    `looked_at`: so many were; `is_all`: there are no more. `throttled`: those that have no request left. `lost`: those
    that were given money and have no balance."""

    nearest: tuple[TenantLine, ...]
    looked_at: int
    is_all: bool
    throttled: tuple[str, ...]
    lost: tuple[str, ...]


class QueuePart(_Part):
    """SQS's own approximation. `taken`: messages that somebody works on."""

    visible: int
    taken: int
    delayed: int


class QueuesPart(_Part):
    """The queue of runs, its dead letters, and those of events."""

    runs: QueuePart
    dead_letters: QueuePart
    event_dead_letters: QueuePart


class TicketsPart(_Part):
    """Tickets that have not ended, and the ops cycle.

    `last_cycle_seconds`: since the last one that ended did, None where none has; `stopped_seconds`: since the emergency
    stop was set, None where it is not."""

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
    """Events of authentication errors. `lag_seconds`: for how long the oldest has been due to be published;
    `queued`: published, and nobody works on them; `escalated`: within five minutes, by policies."""

    to_publish: int
    lag_seconds: float
    dead_in_outbox: int
    queued: int
    queued_seconds: float
    retrying: int
    dead: int
    escalated: int


class WorkspacesPart(_Part):
    """The fleet by phase, of the 10,000 that were made first; and as its control measures it."""

    by_phase: Mapping[str, int]
    unsettled: int
    operation_seconds: float
    in_error: int
    lost: int


class FlowPart(_Part):
    """Events that become tasks, and their messages.

    `heartbeat_ages`: seconds since each role's last heartbeat, None if it never sent one. `sources`: how many polls
    failed in a row."""

    events: int
    tasks: int
    asked: int
    messages: int
    oldest_seconds: Mapping[str, float]
    heartbeat_ages: Mapping[str, float | None]
    sources: Mapping[str, int]
    questions_overdue: int


class DataPart(_Part):
    """Cleanups, and what outlived its use. `cleanup_seconds`: since the last daily one ended, None where none has."""

    cleanup_seconds: float | None
    tripped: tuple[str, ...]
    failed: tuple[str, ...]
    threads_overdue: int
    objects_to_delete: int


class Snapshot(_Part):
    """Everything at one moment. `asof`: by Postgres's clock, by this machine's where that did not answer."""

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
