"""The state of one schedule, and the connection between its actors and the in-memory servers."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from dpp.money.audit import audit_tenant
from dpp.money.keys import KeySpace
from dpp.money.ledger import Ledger
from dpp.packs.contract import PackResult
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database as PostgresDatabase
from tests.sim import patches
from tests.sim.choices import Choices
from tests.sim.database import BEGINNING, Database, Row
from tests.sim.faults import ALL, ANYWHERE, Fault
from tests.sim.keys import Keys, Saved
from tests.sim.ports import AWAY, Messages, SimConnection, SimRedis, SimS3, SimSqs, Wire
from tests.sim.scheduler import Process, Scheduler, Vanished

BUCKET = "results"
_FAULT_RATES = (0.03, 0.08, 0.2)
_SWITCH_RATES = (0.3, 0.7, 0.1)
_DELAYS_MS = (500, 6_000, 40_000, 130_000)
_SKEWS_MS = (0, 600_000, -600_000, 5_000)
_UNDO_LIMIT = 12
_OFTEN = frozenset({Fault.HEARTBEAT_STILL, Fault.MARK_LATE})
"""These faults can strike only once a run, so they strike more often."""
_LAGS_MS = (5, 60, 1_000, 10_000)


class Step(NamedTuple):
    """One line of the printed schedule."""

    at_ms: int
    actor: str
    port: str
    operation: str
    fault: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A client received 202."""

    client: str
    tenant_id: str
    idempotency_key: str
    payload_hash: str
    run_id: UUID


@dataclass(slots=True)
class Connections:
    """A function's connections: the platform's own adapters on the simulated drivers."""

    database: PostgresDatabase
    new_database: Callable[[], PostgresDatabase]
    scan: PostgresDatabase
    ledger: Ledger
    queue: Queue
    sqs: SimSqs
    storage: ObjectStore


@dataclass(slots=True, eq=False)
class Simulation(Wire):
    """One schedule."""

    choices: Choices
    allowed: frozenset[Fault] = ALL
    scheduler: Scheduler = field(init=False)
    database: Database = field(default_factory=Database)
    keys: Keys = field(default_factory=Keys)
    messages: Messages = field(default_factory=Messages)
    objects: dict[str, bytes] = field(default_factory=dict)
    trace: list[Step] = field(default_factory=list)
    accepted: list[Accepted] = field(default_factory=list)
    started: Counter[str] = field(default_factory=Counter)
    """The number of starts of each run's pack."""
    answers: dict[str, list[PackResult]] = field(default_factory=dict)
    credits: list[tuple[UUID, str, int]] = field(default_factory=list)
    stays_disabled: bool = False
    """True if execution stays disabled during the recovery."""
    writes_lost: int = 0
    flushes: int = 0
    _enabled: frozenset[Fault] = frozenset()
    _anywhere: tuple[Fault, ...] = ()
    _rate: float = 0.0
    _ids: int = 0
    _undo: deque[tuple[int, Saved]] = field(default_factory=lambda: deque(maxlen=_UNDO_LIMIT))

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.choices)

    def draw_faults(self) -> None:
        """Decide which faults this schedule has, and how many: each mix finds bugs that another hides."""
        drawn = [fault for fault in Fault if fault in self.allowed and self.choices.pick(2)]
        self._enabled = frozenset(drawn)
        self._anywhere = tuple(fault for fault in drawn if fault in ANYWHERE)
        self._rate = _FAULT_RATES[self.choices.pick(len(_FAULT_RATES))]
        self.scheduler.switch_rate = _SWITCH_RATES[self.choices.pick(len(_SWITCH_RATES))]

    # --- calls of the actors --------------------------------------------------------------------------------

    def call[Result](
        self, port: str, operation: str, effect: Callable[[], Result], only: Sequence[Fault] | None = None
    ) -> Result:
        """Let others act first, then make the call, fail, or let the caller die."""
        self.scheduler.step()
        fault = self._strike(only)
        self.note(port, operation, fault or "")
        match fault:
            case None:
                return effect()
            case Fault.REFUSED:
                raise AWAY[port]()
            case Fault.REPLY_LOST:
                effect()
                self.scheduler.wait(5_000 * self.choices.pick(2))
                raise AWAY[port]()
            case Fault.SLOW:
                self.scheduler.wait(self.delay_ms())
                return effect()
            case Fault.CRASH_AFTER:
                effect()
            case Fault.CRASH_IN_FLIGHT:
                self._land_later(effect)
            case _:
                pass
        self.scheduler.current.process.dead = True
        raise Vanished

    def wait(self, milliseconds: int, ready: Callable[[], bool]) -> bool:
        """Wait for a lock, or only for time to pass."""
        self.note("postgres", "waits", "")
        return self.scheduler.wait(milliseconds, ready)

    def _strike(self, only: Sequence[Fault] | None) -> Fault | None:
        anywhere = self._anywhere
        if only is not None:
            anywhere = tuple(fault for fault in anywhere if fault in only)
        drawn = self.choices.rarely(self._rate, len(anywhere))
        return anywhere[drawn - 1] if drawn else None

    def _land_later(self, effect: Callable[[], object]) -> None:
        delay_ms = self.delay_ms() % 100_000  # a server drops a statement that waits longer
        name = f"{self.scheduler.current.name} in flight"

        def land() -> None:
            self.scheduler.wait(delay_ms)
            self.note("", "lands", "")
            with suppress(psycopg.errors.UniqueViolation, psycopg.OperationalError):  # the caller is dead
                effect()

        self.scheduler.spawn(name, land)

    def strikes(self, fault: Fault) -> bool:
        """Decide if this fault strikes the current call."""
        rate = 0.5 if fault in _OFTEN else self._rate
        struck = fault in self._enabled and self.choices.rarely(rate, 1) == 1
        if struck:
            self.note("", "", fault)
        return struck

    def delay_ms(self) -> int:
        return _DELAYS_MS[self.choices.pick(len(_DELAYS_MS))]

    def now_ms(self) -> int:
        """The servers' clock, in ms since `BEGINNING`."""
        return self.scheduler.now_ms

    def now(self) -> datetime:
        """The servers' clock."""
        return BEGINNING + timedelta(milliseconds=self.scheduler.now_ms)

    def note(self, port: str, operation: str, fault: str) -> None:
        """Add a line to the schedule."""
        scheduler = self.scheduler
        self.trace.append(Step(scheduler.now_ms, scheduler.current.name, port, operation, fault))

    # --- connections and processes of the actors ------------------------------------------------------------

    def connections(self) -> Connections:
        """The connections of a new container."""

        def database() -> PostgresDatabase:
            return PostgresDatabase("sim", wall_clock=lambda: patches.local_ms() / 1000)

        client: Any = SimRedis(self, self.keys, self._before_write)
        sqs = SimSqs(self, self.messages)
        any_sqs: Any = sqs
        any_s3: Any = SimS3(self, self.objects)
        return Connections(
            database=database(),
            new_database=database,
            scan=database(),
            ledger=Ledger(client, KeySpace()),
            queue=Queue("sim", lambda: any_sqs),
            sqs=sqs,
            storage=ObjectStore(BUCKET, lambda: any_s3),
        )

    def process(self, name: str, lifetime_seconds: int) -> Process:
        """An invocation, which dies at its timeout; its clock can be wrong."""
        skew_ms = _SKEWS_MS[self.choices.pick(len(_SKEWS_MS))] if self.has(Fault.CLOCK_SKEW) else 0
        return Process(name, self.scheduler.now_ms + lifetime_seconds * 1000, skew_ms)

    def connect(self) -> SimConnection:
        """A connection to Postgres, unless a fault refuses it."""
        return self.call("postgres", "connect", lambda: SimConnection(self, self.database))

    def new_id(self) -> UUID:
        """The next id: a small number, so that schedules are readable."""
        self._ids += 1
        return UUID(int=(self._ids << 96) | 0x4000_8000_0000_0000_0000)

    def rows(self, table: str) -> list[Row]:
        return self.database.rows(table)

    def drift_of(self, tenant_id: str) -> int:
        """The drift that the platform's own audit finds, in micros."""
        found: list[int] = []
        ledger = self.connections().ledger
        connection: Any = SimConnection(self, self.database)

        def audit() -> None:
            found.append(audit_tenant(connection, ledger, tenant_id).drift_usd_micros)

        self.scheduler.spawn("audit", audit)
        self.scheduler.run()
        [drift] = found
        return drift

    # --- failovers of Redis ---------------------------------------------------------------------------------

    def has(self, fault: Fault) -> bool:
        """True if this kind of fault can occur in the schedule."""
        return fault in self._enabled

    def _before_write(self, names: Sequence[str]) -> None:
        if self.has(Fault.REDIS_LOSS):
            self._undo.append((self.scheduler.now_ms, self.keys.saved(names)))

    def lose_writes(self) -> None:
        """Fail over to a replica that lags behind: the last writes are lost."""
        since_ms = self.scheduler.now_ms - _LAGS_MS[self.choices.pick(len(_LAGS_MS))]
        lost = 0
        while self._undo and self._undo[-1][0] >= since_ms:
            self.keys.restore(self._undo.pop()[1])
            lost += 1
        self.writes_lost += lost
        self.note("redis", f"fails over, {lost} writes lost", Fault.REDIS_LOSS)

    def lose_all(self) -> None:
        """Restart without data."""
        self.keys.clear()
        self._undo.clear()
        self.flushes += 1
        self.note("redis", "starts empty", Fault.REDIS_FLUSH)
