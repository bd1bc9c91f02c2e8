"""A worker's hold on a run (RUN-16): the row's lease decides; Redis's lease and the message's visibility follow it.

`Heartbeat` extends all three every 30 s on a thread of its own. Only the row can say that the lease is lost;
Redis or SQS failing to extend costs nothing but a log line, since a second delivery loses its CAS.
"""

import logging
import threading
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.platform.db.redis import Script, unavailable_as_typed
from dpp.platform.errors import DependencyUnavailable, PostgresUnavailable, RedisUnavailable
from dpp.runs import store
from dpp.runs.model import Run

_LOG = logging.getLogger("dpp.runs.lease")
HEARTBEAT_INTERVAL_SECONDS = 30.0
VISIBILITY_SECONDS = 120

_LUA = "dpp.runs.lua"
_EXTEND = Script((_LUA, "extend_lease.lua"))
_RELEASE = Script((_LUA, "release_lease.lua"))


@dataclass(frozen=True, slots=True)
class LeaseEffects:
    """What a heartbeat touches. `database` must be the heartbeat's own: a connection serves one thread."""

    database: Database
    ledger: Ledger
    queue: Queue


def take_in_redis(ledger: Ledger, run: Run) -> None:
    """Show the lease in Redis (`lease:{run}`, 120 s). Losing this write loses nothing."""
    try:
        with unavailable_as_typed():
            key = ledger.keys.lease(run.tenant_id, run.id)
            ledger.client.set(key, run.lease_token or "", nx=True, ex=store.LEASE_TTL_SECONDS)
    except RedisUnavailable:
        _LOG.warning("lease not shown in redis", extra={"run_id": run.id})


def release_in_redis(ledger: Ledger, run: Run) -> None:
    """Take the lease out of Redis, if it is still this worker's; otherwise it ends by itself."""
    try:
        _RELEASE.run(ledger.client, [ledger.keys.lease(run.tenant_id, run.id)], (run.lease_token or "",))
    except RedisUnavailable:
        _LOG.warning("lease left to expire in redis", extra={"run_id": run.id})


class Heartbeat:
    """Extends a lease until it is left; `lost` is set once the row says that the lease is another's or over."""

    def __init__(
        self,
        effects: LeaseEffects,
        run: Run,
        receipt_handle: str,
        interval_seconds: float = HEARTBEAT_INTERVAL_SECONDS,
    ) -> None:
        self.lost = threading.Event()
        self._effects = effects
        self._run = run
        self._receipt_handle = receipt_handle
        self._interval_seconds = interval_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._beat_until_stopped, name=f"heartbeat-{run.id}", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._effects.database.close()

    def beat(self) -> bool:
        """Extend all three once; False where the lease is lost."""
        try:
            with self._effects.database.connection() as connection:
                held = store.extend_lease(connection, self._run)
        except PostgresUnavailable:
            _LOG.warning("heartbeat missed", extra={"run_id": self._run.id})
            return True  # nobody said that it is lost; the next beat asks again
        if held:
            self._follow()
        return held

    def _beat_until_stopped(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            if not self.beat():
                _LOG.warning("lease lost", extra={"run_id": self._run.id, "tenant_id": self._run.tenant_id})
                self.lost.set()
                return

    def _follow(self) -> None:
        run, ledger = self._run, self._effects.ledger
        try:
            lease = ledger.keys.lease(run.tenant_id, run.id)
            _EXTEND.run(ledger.client, [lease], (run.lease_token or "", store.LEASE_TTL_SECONDS * 1000))
            self._effects.queue.extend_visibility(self._receipt_handle, VISIBILITY_SECONDS)
        except DependencyUnavailable as error:
            _LOG.warning(
                "heartbeat partly missed", extra={"run_id": run.id, "error": {"dependency": error.dependency}}
            )
