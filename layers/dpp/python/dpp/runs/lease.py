"""A worker's lease of a run (RUN-16): the row decides; the lease in Redis and the message's visibility follow it.

`Heartbeat` extends all three every 30 s on its own thread. Only the row decides that the lease is lost. If Redis or SQS
can't extend, nothing but a log line follows, because a second delivery loses its CAS.
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
    """Connections and clients that a heartbeat uses. `database` must be its own: a connection serves one thread."""

    database: Database
    ledger: Ledger
    queue: Queue


def take_in_redis(ledger: Ledger, run: Run) -> None:
    """Write the lease to Redis (`lease:{run}`, 120 s), for information: a lost write has no effect."""
    try:
        with unavailable_as_typed():
            key = ledger.keys.lease(run.tenant_id, run.id)
            ledger.client.set(key, run.lease_token or "", nx=True, ex=store.LEASE_TTL_SECONDS)
    except RedisUnavailable:
        _LOG.warning("lease not written to redis", extra={"run_id": run.id})


def release_in_redis(ledger: Ledger, run: Run) -> None:
    """Delete the lease in Redis, if it is still this worker's; otherwise it expires."""
    try:
        _RELEASE.run(ledger.client, [ledger.keys.lease(run.tenant_id, run.id)], (run.lease_token or "",))
    except RedisUnavailable:
        _LOG.warning("lease left to expire in redis", extra={"run_id": run.id})


class Heartbeat:
    """Extends a lease while its block runs; sets `lost` once the row's lease has expired or is another worker's."""

    def __init__(
        self, effects: LeaseEffects, run: Run, receipt_handle: str, interval_seconds: float = HEARTBEAT_INTERVAL_SECONDS
    ) -> None:
        self.lost = threading.Event()
        self._effects = effects
        self._run = run
        self._receipt_handle = receipt_handle
        self._interval_seconds = interval_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._extend_until_stopped, name=f"heartbeat-{run.id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._effects.database.close()

    def extend(self) -> bool:
        """Extend all three once; False if the lease is lost."""
        try:
            held = self._effects.database.using(store.extend_lease, self._run)
        except PostgresUnavailable:
            _LOG.warning("heartbeat missed", extra={"run_id": self._run.id})
            return True  # it may not be lost; the next heartbeat tries again
        if held:
            self._follow()
        return held

    def _extend_until_stopped(self) -> None:
        while not self._stopped.wait(self._interval_seconds):
            if not self.extend():
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
            _LOG.warning("heartbeat partly missed", extra={"run_id": run.id, "error": {"dependency": error.dependency}})
