"""Gathers a snapshot for `dpp top`: rows in one read-only transaction, balances in one Redis trip, then each queue.

Every query reads an index and counts up to a bound, so that a snapshot per second causes no load. Dependencies that do
not answer are named; the rest is gathered all the same.
"""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, LiteralString, Self

from psycopg.errors import QueryCanceled

from dpp.auth_errors.config import EventDeadLetterSettings
from dpp.money import stats as money
from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Depth, Queue
from dpp.platform.config import DeadLetterSettings, QueueSettings
from dpp.platform.db.postgres import Connection, Database, one_snapshot
from dpp.platform.errors import DependencyUnavailable, PostgresUnavailable, QueueUnavailable
from dpp.runs.operations import stats as runs
from dpp.runs.operations.stats import WatchedTenant
from dpp.tickets import store as clock_store
from dpp.tickets.config import ReaperSettings
from dpp_cli.operator.connect import BackendSettings, Reach
from dpp_cli.top import parts
from dpp_cli.top.model import QueuePart, QueuesPart, Snapshot, TenantLine, TenantsPart
from dpp_cli.top.problems import judge

_REPLY_SECONDS = 4.0
_BOUND: LiteralString = "SET LOCAL statement_timeout = '2s'"
_TENANTS = 1_000
"""At most this many balances are read."""
_NEAREST = 20


class TopSettings(BackendSettings, QueueSettings, DeadLetterSettings, EventDeadLetterSettings, ReaperSettings):
    """Settings of database, ledger, queues, the reaper's threshold and the time zone."""


class Gatherer:
    """Takes snapshots on connections that it keeps open; not safe for use by two threads at once."""

    def __init__(self, at: Reach[TopSettings]) -> None:
        self._settings = settings = at.settings
        self._database = Database(settings.database, reply_timeout_seconds=_REPLY_SECONDS)
        self._ledger: Ledger | None = None
        urls = (settings.run_queue_url, settings.run_dead_letter_queue_url, settings.event_dead_letter_queue_url)
        self._queues = [Queue(url, lambda: at.client("sqs", attempts=1)) for url in urls]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._database.close()
        if self._ledger is not None:
            with closing(self._ledger.client):
                self._ledger = None

    def __call__(self) -> Snapshot:
        """Take a snapshot. Dependencies that do not answer raise nothing; the snapshot names them."""
        away: dict[str, str] = {}
        found: dict[str, Any] = {"asof": datetime.now(UTC)}
        tenants: list[WatchedTenant] | None = None
        try:
            with self._database.connection() as connection:
                rows = _Rows(connection, self._settings)
                found, tenants = rows.read()
                balances = None if tenants is None else self._balances(tenants, away)
                if tenants is not None and balances is not None:
                    found["tenants"] = rows.section("tenants", lambda on: _tenants(on, tenants, balances))
                found["slow"] = tuple(rows.slow)
        except PostgresUnavailable as error:
            away["postgres"] = _why(error)
            self._ping(away)
        found["queues"] = self._depths(away)
        found["asof"] = found["asof"].astimezone(self._settings.zone)
        snapshot = Snapshot(**found, away=away)
        return snapshot.model_copy(update={"conditions": judge(snapshot)})

    def _balances(self, tenants: list[WatchedTenant], away: dict[str, str]) -> list[money.TenantBalance] | None:
        try:
            asked = [(one.tenant_id, one.rate_limit_per_minute) for one in tenants]
            return money.read_balances(self._connected(), asked)
        except DependencyUnavailable as error:
            away["redis"] = _why(error)
            return None

    def _ping(self, away: dict[str, str]) -> None:
        """Check whether Redis answers, when there are no tenants to read balances of."""
        self._balances([WatchedTenant("", 1, is_busy=False, was_credited=False)], away)

    def _connected(self) -> Ledger:
        if self._ledger is None:
            self._ledger = Ledger.connect(self._settings.redis, cluster=self._settings.redis_cluster)
        return self._ledger

    def _depths(self, away: dict[str, str]) -> QueuesPart | None:
        try:
            depths = [_queue(queue.depth()) for queue in self._queues]
        except QueueUnavailable as error:
            away["sqs"] = _why(error)
            return None
        return QueuesPart(runs=depths[0], dead_letters=depths[1], event_dead_letters=depths[2])


class _Rows:
    """Reads all parts from Postgres in one snapshot; a part that is too slow does not hide the others."""

    def __init__(self, connection: Connection, settings: TopSettings) -> None:
        self._connection = connection
        self._settings = settings
        self.slow: list[str] = []

    def read(self) -> tuple[dict[str, Any], list[WatchedTenant] | None]:
        """Return the parts by name with the time, and the tenants to check; None for a part that took too long."""
        rules = self._settings.rules
        with one_snapshot(self._connection):
            self._connection.execute(_BOUND)
            found: dict[str, Any] = {"asof": clock_store.clock(self._connection)}
            for name, read in parts.PARTS.items():
                found[name] = self._part(name, read)
            found["tickets"] = self._part("tickets", lambda on: parts.tickets(on, rules, found["asof"]))
            tenants = self._part("tenants", lambda on: runs.watched_tenants(on, _TENANTS + 1))
        return found, tenants

    def section[Part](self, name: str, read: Callable[[Connection], Part]) -> Part | None:
        """Read one part in a transaction of its own."""
        with one_snapshot(self._connection):
            self._connection.execute(_BOUND)
            return self._part(name, read)

    def _part[Part](self, name: str, read: Callable[[Connection], Part]) -> Part | None:
        try:
            with self._connection.transaction():
                return read(self._connection)
        except QueryCanceled:
            self.slow.append(name)
            return None


def _tenants(connection: Connection, tenants: list[WatchedTenant], balances: list[money.TenantBalance]) -> TenantsPart:
    """List active tenants first, and among them those with the smallest balance first."""
    both = list(zip(tenants[:_TENANTS], balances, strict=False))
    at_work = {one.tenant_id: one.is_busy or balance.requests_left is not None for one, balance in both}
    known = sorted(
        (not at_work[balance.tenant_id], balance.balance_usd_micros, balance.tenant_id, balance)
        for _, balance in both
        if balance.balance_usd_micros is not None
    )
    nearest = [balance for *_, balance in known[:_NEAREST]]
    reserved = runs.reserved(connection, [balance.tenant_id for balance in nearest])
    return TenantsPart(
        nearest=tuple(
            TenantLine(
                tenant_id=balance.tenant_id,
                balance_usd_micros=balance.balance_usd_micros or 0,
                reserved_usd_micros=reserved.get(balance.tenant_id, 0),
                requests_left=balance.requests_left,
            )
            for balance in nearest
        ),
        looked_at=len(both),
        is_all=len(tenants) <= _TENANTS,
        throttled=tuple(balance.tenant_id for _, balance in both if balance.requests_left == 0)[:_NEAREST],
        lost=tuple(one.tenant_id for one, balance in both if one.was_credited and balance.balance_usd_micros is None)[
            :_NEAREST
        ],
    )


def _queue(depth: Depth) -> QueuePart:
    return QueuePart(visible=depth.visible, taken=depth.in_flight, delayed=depth.delayed)


def _why(error: DependencyUnavailable) -> str:
    """Return the driver's message in one line; it contains hosts and ports but no password."""
    message = str(error.__cause__ or error).strip() or type(error).__name__
    return message.splitlines()[0][:200]
