"""Reconcile (RUN-22, D2, D3, D5): finishes what a crash left unfinished, in six scans.

- lost ledgers: the balance of a tenant that Redis has lost is rebuilt from Postgres.
- stuck claims: repeated with their recorded intent; if the result never reached S3, the run fails.
- expired leases: like the reaper, but an envelope in S3 completes the run at its cost.
- unsent runs: their message is sent; for a disabled pack once it is enabled.
- orphaned reservations: without a run, they are refunded; for an ended run (a failover of Redis can bring them back),
  they are closed again as the run ended.
- audits: each tenant's balance is compared with Postgres, oldest audit first. Drift that Postgres proves is repaired;
  other drift is left to an operator.

Each scan has its share of the tick's time, so a scan that can't finish starves no other. Each step is a CAS or a
repeatable ledger move, so any number of ticks at once, with the reaper among them, do the work once.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import assert_never
from uuid import UUID

from dpp.money.credits import tenants_in_turn
from dpp.money.drift import Verdict, audit, disputed_ledgers, due_audits
from dpp.money.fees import charge_within
from dpp.money.ledger import Ledger, NoReservation
from dpp.money.rebuild import RebuildReason, is_lost, rebuild
from dpp.platform.aws.queue import Queue
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.errors import RedisUnavailable
from dpp.platform.ids import parse_uuid
from dpp.runs import finalize, store, submit_store
from dpp.runs.envelope import EnvelopeUnreadable, StoredEnvelope, read_stored
from dpp.runs.finalize import STUCK_AFTER_SECONDS, FinalizeEffects
from dpp.runs.jobs.batch import BatchReport, in_time, work_through
from dpp.runs.jobs.reap import expired_lease, timed_out
from dpp.runs.machine import FinalizeStage, MoneyState, Reason, Status
from dpp.runs.message import RunMessage
from dpp.runs.model import Intent, ResultPointer, Run, envelope_key
from dpp.runs.store import Unresolved

_LOG = logging.getLogger("dpp.runs.jobs.reconcile")
UNSENT_AFTER_SECONDS = 60
ORPHANED_AFTER_SECONDS = 300
LEFT_STUCK_AFTER_SECONDS = STUCK_AFTER_SECONDS + 60
"""A claim of this age was due at an earlier tick, which could not finish it."""
SCAN_SECONDS = 8
"""Each of the six scans may take this much of the function's minute."""


@dataclass(slots=True)
class AuditReport(BatchReport):
    """The audits of one tick; `ended` counts repairs, `lost` ledgers that were too busy to be measured."""

    drift_usd_micros: int = 0
    """Sum of the absolute drifts found, repaired or not."""
    disputed: int = 0
    """Tenants whose ledger waits for an operator, found now or before."""


@dataclass(slots=True)
class ReconcileReport:
    """The work of one tick by scan, and the rest that is left to an operator."""

    lost_ledgers: BatchReport = field(default_factory=BatchReport)
    stuck_claims: BatchReport = field(default_factory=BatchReport)
    expired_leases: BatchReport = field(default_factory=BatchReport)
    unsent: BatchReport = field(default_factory=BatchReport)
    orphans: BatchReport = field(default_factory=BatchReport)
    audits: AuditReport = field(default_factory=AuditReport)
    unresolved: Unresolved = field(default_factory=Unresolved)

    @property
    def scans(self) -> dict[str, BatchReport]:
        """The reports, by scan."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "unresolved"}

    def as_dict(self) -> dict[str, dict[str, int | bool]]:
        """The figures, for the log."""
        return {one.name: getattr(self, one.name).as_dict() for one in fields(self)}


@dataclass(frozen=True, slots=True)
class ReconcileEffects:
    """Connections and clients that reconcile uses."""

    database: Database
    ledger: Ledger
    storage: ObjectStore
    queue: Queue

    @property
    def ends(self) -> FinalizeEffects:
        """Those that ending a run uses."""
        return FinalizeEffects(self.database, self.ledger, self.storage)


def reconcile(effects: ReconcileEffects, scan: Database, now: datetime | None = None) -> ReconcileReport:
    """One tick with all six scans. `scan` reads the pages on its own connection."""
    report = ReconcileReport()
    with scan.connection() as connection:
        for tenant_id in in_time(tenants_in_turn(connection), report.lost_ledgers, SCAN_SECONDS):
            rebuild_if_lost(effects, tenant_id, report.lost_ledgers)

        def work(query: str, step: Callable[[Run], Run | None], done: BatchReport, *age_seconds: int) -> None:
            runs = store.page_through(connection, query, now, *age_seconds)
            work_through(runs, step, done, seconds=SCAN_SECONDS)

        work("page_stuck_claims", lambda run: finish_stuck(effects, run, now), report.stuck_claims, STUCK_AFTER_SECONDS)
        work("page_expired_leases", lambda run: finish_expired(effects, run, now), report.expired_leases)
        work("page_unsent", lambda run: send_again(effects, run, now), report.unsent, UNSENT_AFTER_SECONDS)
        for tenant_id in in_time(tenants_in_turn(connection), report.orphans, SCAN_SECONDS):
            refund_orphans(effects, tenant_id, report.orphans)
        for tenant_id in in_time(due_audits(connection, now), report.audits, SCAN_SECONDS):
            audit_ledger(effects, tenant_id, report.audits, now)
        report.audits.disputed = disputed_ledgers(connection)
        report.unresolved = store.unresolved(connection, LEFT_STUCK_AFTER_SECONDS, now)
    return report


def rebuild_if_lost(effects: ReconcileEffects, tenant_id: str, report: BatchReport) -> None:
    """Rebuild a tenant's balance from Postgres if Redis has lost it (D2)."""
    try:
        with effects.database.connection() as connection:
            if not is_lost(connection, effects.ledger, tenant_id):
                return
            report.seen += 1
            rebuilt = rebuild(connection, effects.ledger, tenant_id, RebuildReason.LOST)
    except RedisUnavailable:
        report.failed += 1
        _LOG.error("ledger left for the next tick", extra={"tenant_id": tenant_id})
        return
    report.ended += 1
    extra = {"tenant_id": tenant_id, "balance_usd_micros": rebuilt.balance_usd_micros}
    _LOG.error("lost ledger rebuilt", extra=extra)


def audit_ledger(effects: ReconcileEffects, tenant_id: str, report: AuditReport, now: datetime | None = None) -> None:
    """Compare a tenant's balance with Postgres, and repair drift that Postgres proves (D2)."""
    report.seen += 1
    try:
        found = effects.database.using(audit, effects.ledger, tenant_id, now)
    except RedisUnavailable:
        report.failed += 1
        _LOG.error("audit left for the next tick", extra={"tenant_id": tenant_id})
        return
    report.drift_usd_micros += abs(found.drift_usd_micros)
    match found.verdict:
        case Verdict.REPAIRED:
            report.ended += 1
        case Verdict.BUSY:
            report.lost += 1
        case Verdict.BALANCED | Verdict.DISPUTED:
            pass
        case _:
            assert_never(found.verdict)


def finish_stuck(effects: ReconcileEffects, run: Run, now: datetime | None = None) -> Run | None:
    """Repeat a claim that was never committed; None if it has changed meanwhile.

    The upload precedes the settle, so a missing envelope means that nothing was settled yet, and the intent may still
    become a failure. If a receipt contradicts that, the run is disputed; nothing is guessed (D3).
    """
    return finalize.take_over(effects.ends, run, valid_intent(effects.storage, run), now=now)


def valid_intent(storage: ObjectStore, run: Run) -> Intent:
    """The recorded intent of a claimed run, or a failure if its result never reached S3."""
    intent = run.intent
    if intent.result is None:
        return intent
    stored = _stored_envelope(storage, run, intent.result.key)
    if stored is None or stored.sha256 != intent.result.sha256:
        return _without_result(run, intent)
    return intent


def finish_expired(effects: ReconcileEffects, run: Run, now: datetime | None = None) -> Run | None:
    """End a run whose lease has expired, by its envelope in S3 if there is one; None if another process was first."""
    key = envelope_key(run)
    stored = _stored_envelope(effects.storage, run, key)
    intent = timed_out(run)
    if stored is not None and stored.completed:
        intent = Intent(
            outcome=Status.COMPLETED,
            money_state=MoneyState.SETTLED,
            charge_usd_micros=charge_within(stored.used_usd_micros, run.reservation_max_cost_usd_micros),
            tokens_consumed=stored.tokens_consumed,
            result=ResultPointer(effects.storage.bucket, key, stored.sha256, stored.parts),
        )
    return finalize.finish(effects.ends, run, expired_lease(run), intent, now=now)


def send_again(effects: ReconcileEffects, run: Run, now: datetime | None = None) -> Run:
    """Send the message of a run that was never sent, or was parked (D5). A second message is harmless."""
    effects.queue.send(RunMessage.of(run, datetime.now(UTC)).model_dump_json())
    effects.database.using(submit_store.mark_enqueued, run, now)
    return run


def refund_orphans(
    effects: ReconcileEffects, tenant_id: str, report: BatchReport, age_seconds: int = ORPHANED_AFTER_SECONDS
) -> None:
    """Close a tenant's reservations that have no run, or only an ended one (D2).

    A submit's function is killed long before `age_seconds`, so no run can still be inserted for them.
    """
    try:
        old = effects.ledger.reservations_older_than(tenant_id, age_seconds)
        if not old:
            return
        ids = [run_id for text in old if (run_id := parse_uuid(text)) is not None]
        known = effects.database.using(store.runs_among, tenant_id, ids)
        for orphan in sorted(set(ids) - {run.run_id for run in known}):
            report.seen += 1
            _refund_orphan(effects.ledger, tenant_id, orphan, report)
        for run in known:
            if run.finalize_stage == FinalizeStage.COMMITTED:
                _close_leftover(effects.ledger, run, report)
    except RedisUnavailable:
        report.failed += 1
        _LOG.error("orphans left for the next tick", extra={"tenant_id": tenant_id})


def _refund_orphan(ledger: Ledger, tenant_id: str, orphan: UUID, report: BatchReport) -> None:
    try:
        closed = ledger.refund_full(tenant_id, str(orphan))
    except NoReservation:  # another tick was first, and its receipt has expired
        report.lost += 1
        return
    report.ended += 1
    extra = {"tenant_id": tenant_id, "run_id": str(orphan), "refund_usd_micros": closed.refund_usd_micros}
    _LOG.warning("orphaned reservation refunded", extra=extra)


def _close_leftover(ledger: Ledger, run: Run, report: BatchReport) -> None:
    try:
        closed = finalize.repeat_move(ledger, run)
    except NoReservation:  # a rebuild was first
        return
    if closed.repeated:  # it ended after its reservation was read and before its row was
        return
    report.seen += 1
    report.ended += 1
    extra = {"tenant_id": run.tenant_id, "run_id": run.id, "charge_usd_micros": closed.charge_usd_micros}
    _LOG.error("leftover reservation of an ended run closed", extra=extra)


def _stored_envelope(storage: ObjectStore, run: Run, key: str) -> StoredEnvelope | None:
    body = storage.get(key)
    if body is None:
        return None
    try:
        return read_stored(run, body)
    except EnvelopeUnreadable:
        _LOG.error("envelope unreadable", extra={"run_id": run.id, "tenant_id": run.tenant_id})
        return None


def _without_result(run: Run, intent: Intent) -> Intent:
    if intent.outcome == Status.FAILED:
        return replace(intent, result=None)
    return replace(
        timed_out(run), reason_code=Reason.RESULT_MISSING, detail="The result was lost before it was stored."
    )
