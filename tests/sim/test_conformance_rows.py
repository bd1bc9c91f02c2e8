"""The model of the rows is Postgres: the same store calls on both, compared call by call.

Without this, a simulation would prove the promises of a database that nobody has.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.money import credits as accounts
from dpp.money.audit import audit_tenant
from dpp.money.books import read_books
from dpp.money.drift import disputed_ledgers, due_audits
from dpp.money.ledger import Ledger
from dpp.packs.contract import PackType
from dpp.platform.db.postgres import Connection
from dpp.runs import store
from dpp.runs.machine import MoneyState, Status
from dpp.runs.model import Intent, ResultPointer, Run
from dpp.runs.operations.switch import decide, switches
from dpp.runs.store import Guard, NewRun
from dpp_cli.local.servers import ValkeyServer
from tests.sim.conformance import EXAMPLES, HASH, TENANT, both, outcome, two_ledgers
from tests.sim.model_money import MONEY

T0 = datetime(2026, 1, 1, 12, tzinfo=UTC)
_INTENTS = (
    Intent(Status.COMPLETED, MoneyState.SETTLED, 50_000, 7, ResultPointer("b", "k", HASH)),
    Intent(Status.FAILED, MoneyState.SETTLED, 5_000, reason_code="WORKER_TIMEOUT", detail="late"),
    Intent(Status.FAILED, MoneyState.REFUNDED, 0, reason_code="RESERVATION_EXPIRED", detail="waited"),
    Intent(Status.COMPLETED, MoneyState.SETTLED, 900_000, 7, ResultPointer("b", "k", HASH)),
    Intent(Status.FAILED, MoneyState.SETTLED, 5_000),
    Intent(Status.COMPLETED, MoneyState.SETTLED, 1),
    Intent(Status.COMPLETED, MoneyState.SETTLED, 1, result=ResultPointer("b", "k", "no hash")),
    Intent(Status.FAILED, MoneyState.REFUNDED, 1, reason_code="X"),
    Intent(Status.COMPLETED, MoneyState.REFUNDED, 0, result=ResultPointer("b", "k", HASH)),
    Intent(Status.COMPLETED, MoneyState.SETTLED, 1, -1, ResultPointer("b", "k", HASH)),
    Intent(Status.FAILED, MoneyState.SETTLED, 5_000, reason_code="X" * 65),
    Intent(Status.FAILED, MoneyState.SETTLED, 5_000, reason_code="X", detail="d" * 1_001),
)
_MINUTES = st.sampled_from([0, 1, 2, 3, 6, 7, 61, 50_000])
_SLOT = st.integers(0, 2)
_STALE = st.sampled_from([False, False, False, True])
_OPERATIONS = st.one_of(
    st.tuples(
        st.just("insert"),
        _SLOT,
        _MINUTES,
        st.sampled_from(["key-one!", "key-two!", "short"]),
        st.sampled_from([250_000, 4_900, 0]),
    ),
    st.tuples(st.just("enqueued"), _SLOT, _MINUTES),
    st.tuples(st.just("start"), _SLOT, _MINUTES, _STALE),
    st.tuples(st.just("park"), _SLOT, _MINUTES, _STALE),
    st.tuples(
        st.just("decide"),
        _SLOT,
        _MINUTES,
        st.sampled_from([None, PackType.DECISION, PackType.URL]),
        st.sampled_from([True, True, False]),
    ),
    st.tuples(st.just("extend"), _SLOT, _MINUTES, _STALE),
    st.tuples(
        st.just("claim"),
        _SLOT,
        _MINUTES,
        _STALE,
        st.sampled_from([Status.QUEUED, Status.PROCESSING]),
        st.booleans(),
        st.sampled_from([0, 0, 3_600]),
        st.sampled_from(range(len(_INTENTS))),
    ),
    st.tuples(st.just("reclaim"), _SLOT, _MINUTES, _STALE, st.sampled_from(range(len(_INTENTS)))),
    st.tuples(st.just("commit"), _SLOT, _MINUTES, _STALE, st.booleans()),
    st.tuples(st.just("dispute"), _SLOT, _MINUTES, _STALE),
    st.tuples(st.just("look"), _SLOT, _MINUTES),
)


@dataclass
class _Rows:
    """One side's rows and the runs that its callers hold."""

    connection: Connection
    ids: list[UUID]
    held: dict[int, list[Run]] = field(default_factory=dict)
    step: int = 0

    def do(self, operation: tuple[Any, ...]) -> object:
        """One operation; a run that it answers is the one that its slot's next operation is about."""
        self.step += 1
        name, slot, minutes, *rest = operation
        now = T0 + timedelta(minutes=minutes)
        if name == "insert":
            done = outcome(lambda: store.insert(self.connection, _new(self.ids[slot], *rest), now))
        elif name == "look":
            return self._look(slot, now)
        elif name == "decide":
            return outcome(lambda: self._decide(slot, now, *rest))
        elif slot not in self.held:
            return None
        else:
            runs = self.held[slot]
            stale = name != "enqueued" and rest[0]
            run = runs[-2] if stale and len(runs) > 1 else runs[-1]
            done = outcome(lambda: self._change(name, run, now, *rest[1:]))
        if isinstance(done, Run):
            self.held.setdefault(slot, []).append(done)
        return done

    def _change(  # noqa: PLR0911 - a case an operation
        self, name: str, run: Run, now: datetime, *rest: Any
    ) -> object:
        connection, token = self.connection, f"token-{self.step}"
        match name:
            case "enqueued":
                store.mark_enqueued(connection, run, now)
                return None
            case "start":
                return store.start_processing(connection, run, token, now)
            case "park":
                return store.park(connection, run, now)
            case "extend":
                return store.extend_lease(connection, run, now)
            case "claim":
                status, expired, age, intent = rest
                guard = Guard(status, run.lease_token, expired, age)
                return store.claim(connection, run, guard, _INTENTS[intent], finalize_token=token, now=now)
            case "reclaim":
                return store.reclaim(
                    connection, run, _INTENTS[rest[0]], finalize_token=token, stuck_after_seconds=300, now=now
                )
            case "commit":
                return store.commit(connection, run, release_idempotency_key=rest[0], now=now)
            case _:
                return store.dispute(connection, run, "cannot be proved", now)

    def _decide(self, slot: int, now: datetime, scope: PackType | None, enabled: bool) -> object:
        decided = decide(
            self.connection,
            scope=scope,
            enabled=enabled,
            decision_id=self.ids[slot],
            actor="ops_one",
            reason="for a test",
            decided_at=now,
        )
        return decided, switches(self.connection)

    def _look(self, slot: int, now: datetime) -> list[object]:
        connection, run_id = self.connection, self.ids[slot]
        scans = [
            ("page_expired_leases", 0),
            ("page_waiting", 3_600),
            ("page_stuck_claims", 300),
            ("page_unsent", 60),
        ]
        seen: list[object] = [list(store.page_through(connection, query, now, age)) for query, age in scans]
        seen += [store.find(connection, tenant, run_id) for tenant in (TENANT, "t_another")]
        seen += [
            store.find_for_owner(connection, TENANT, run_id, now),
            store.find_by_key(connection, TENANT, "key-one!"),
            store.find_with_inputs(connection, TENANT, run_id),
            sorted(store.runs_among(connection, TENANT, [*self.ids, uuid4()]), key=lambda run: run.run_id),
            store.runs_among(connection, "t_another", self.ids),
            store.unresolved(connection, 300, now),
            *self._look_as_an_audit(now),
        ]
        return seen

    def _look_as_an_audit(self, now: datetime) -> list[object]:
        books = read_books(self.connection, TENANT, [str(run_id) for run_id in self.ids])
        page: dict[str, object] = {"tenant_id": TENANT, "now": now, "age_seconds": 700_000, "limit": 2}
        after = {"after_time": T0 - timedelta(days=1), "after_id": UUID(int=0)}
        return [
            (books.credits_minus_charges, sorted(books.open_runs), sorted(books.closed), books.credits),
            self.connection.execute(MONEY["closed_since"], page | after).fetchall(),
            self.connection.execute(MONEY["has_credits"], page).fetchall(),
        ]


def _new(run_id: UUID, key: str, reserved: int) -> NewRun:
    return NewRun(
        run_id=run_id,
        tenant_id=TENANT,
        pack_type=PackType.DECISION,
        profile_version="PROFILE_DPP_0_4_2_2",
        idempotency_key=key,
        payload_hash=HASH,
        reserved_usd_micros=reserved,
        timebox_sec=90,
        min_reliability_score=0.8,
        inline_result=False,
        trace_id="t_conformance",
        inputs={"question": "Which?", "mode": {"brief": [1, 2.5, None]}},
    )


@EXAMPLES
@given(operations=st.lists(_OPERATIONS, min_size=3, max_size=30))
def test_any_sequence_of_store_calls_does_the_same_to_the_model_and_to_postgres(
    database_url: str, operations: list[tuple[Any, ...]]
) -> None:
    """Guards, CHECK constraints, unique indexes, scans: every answer and every refusal, by its constraint."""
    with both(database_url) as (model, real):
        ids = [uuid4() for _ in range(3)]
        ours, theirs = _Rows(model, ids), _Rows(real, ids)
        for operation in operations:
            assert ours.do(operation) == theirs.do(operation), operation
        for slot in range(3):
            assert ours.do(("look", slot, 61)) == theirs.do(("look", slot, 61))


_LIVES: dict[str, list[tuple[Any, ...]]] = {
    "completed": [
        ("start", 0, 1, False),
        ("claim", 0, 2, False, Status.PROCESSING, False, 0, 0),
        ("commit", 0, 2, False, False),
    ],
    "reaped": [
        ("start", 0, 1, False),
        ("claim", 0, 6, False, Status.PROCESSING, True, 0, 1),
        ("commit", 0, 6, False, False),
    ],
    "reaped too early": [("start", 0, 1, False), ("claim", 0, 3, False, Status.PROCESSING, True, 0, 1)],
    "swept": [("claim", 0, 61, False, Status.QUEUED, False, 3_600, 2), ("commit", 0, 61, False, False)],
    "never queued": [("claim", 0, 0, False, Status.QUEUED, False, 0, 2), ("commit", 0, 0, False, True)],
    "taken over": [
        ("start", 0, 1, False),
        ("claim", 0, 1, False, Status.PROCESSING, False, 0, 0),
        ("reclaim", 0, 7, False, 1),
        ("commit", 0, 7, True, False),
        ("commit", 0, 7, False, False),
        ("commit", 0, 7, False, False),
    ],
    "disputed": [
        ("start", 0, 1, False),
        ("claim", 0, 1, False, Status.PROCESSING, False, 0, 0),
        ("dispute", 0, 1, False),
        ("commit", 0, 1, False, False),
        ("reclaim", 0, 61, False, 1),
    ],
    "held on to": [
        ("start", 0, 1, False),
        ("extend", 0, 2, False),
        ("extend", 0, 6, False),
        ("enqueued", 0, 6),
    ],
    "parked and resumed": [
        ("enqueued", 0, 0),
        ("decide", 0, 1, PackType.DECISION, False),
        ("insert", 2, 1, "key-two!", 100),
        ("start", 0, 1, False),
        ("park", 0, 1, False),
        ("park", 0, 1, True),
        ("enqueued", 0, 1),
        ("decide", 1, 2, PackType.DECISION, True),
        ("look", 0, 2),
        ("start", 0, 2, False),
        ("park", 0, 2, False),
    ],
    "disabled with all": [
        ("decide", 1, 1, None, False),
        ("insert", 0, 1, "key-one!", 250_000),
        ("start", 0, 1, False),
        ("decide", 0, 0, None, True),
        ("decide", 1, 1, None, True),
        ("decide", 2, 1, PackType.DECISION, True),
        ("start", 0, 1, False),
        ("look", 0, 61),
        ("claim", 0, 61, False, Status.QUEUED, False, 3_600, 2),
        ("park", 0, 61, True),
        ("commit", 0, 61, False, False),
    ],
    "released without right": [
        ("start", 0, 1, False),
        ("claim", 0, 1, False, Status.PROCESSING, False, 0, 0),
        ("commit", 0, 1, False, True),
    ],
}


@pytest.mark.parametrize("life", _LIVES)
def test_a_life_of_a_run_goes_the_same_way(database_url: str, life: str) -> None:
    """Each way through the machine, which random sequences take seldom."""
    with both(database_url) as (model, real):
        ids = [uuid4() for _ in range(3)]
        ours, theirs = _Rows(model, ids), _Rows(real, ids)
        for operation in [("insert", 0, 0, "key-one!", 250_000), *_LIVES[life], ("look", 0, 61)]:
            assert ours.do(operation) == theirs.do(operation), operation
        again = ("insert", 1, 61, "key-one!", 250_000)
        assert ours.do(again) == theirs.do(again)


def test_a_scan_of_several_pages_meets_the_same_runs_in_the_same_order(database_url: str) -> None:
    """More rows than a page holds, all of one moment: the id breaks the tie."""
    with both(database_url) as (model, real):
        ids = [uuid4() for _ in range(130)]
        for index, run_id in enumerate(ids):
            for connection in (model, real):
                store.insert(connection, _new(run_id, f"key-{index:04}", 100), T0)
        later = T0 + timedelta(hours=2)
        pages = [
            [run.run_id for run in store.page_through(connection, "page_unsent", later, 60)]
            for connection in (model, real)
        ]
        assert pages[0] == pages[1] == sorted(ids)


def _listed(connection: Connection, tenant: str, seconds: float | None) -> object:
    books = read_books(connection, tenant, [], seconds)
    return books.credits_minus_charges, sorted(books.credits)


@EXAMPLES
@given(
    given_=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["t_conformance", "t_other"]),
            st.sampled_from([1, 10**9, 2**53 - 1]),
        ),
        max_size=8,
    )
)
def test_credits_and_the_audits_position_are_the_same(
    database_url: str, valkey_server: ValkeyServer, given_: list[tuple[int, str, int]]
) -> None:
    """Once a credit id, never beyond 2^53 - 1 in sum, and the sums that the audit compares."""
    with both(database_url) as (model, real), two_ledgers(valkey_server) as (ours, theirs):
        real.execute("ALTER TABLE budget_credits DISABLE TRIGGER ALL")
        real.execute("DELETE FROM budget_credits")
        theirs.client.delete(*(theirs.keys.balance(t) for t in ("t_conformance", "t_other")))
        theirs.client.delete(*(theirs.keys.credits_applied(t) for t in ("t_conformance", "t_other")))
        ids = [uuid4() for _ in range(3)]
        for connection in (model, real):
            accounts.create_tenant(connection, "t_other", "Another")

        def give(connection: Connection, ledger: Ledger, index: int, tenant: str, amount: int) -> object:
            def call() -> object:
                try:
                    return accounts.credit(
                        connection,
                        ledger,
                        credit_id=ids[index],
                        tenant_id=tenant,
                        amount_usd_micros=amount,
                        reason="for a test",
                    )
                except accounts.CreditConflict as error:
                    return str(error)

            return outcome(call)

        for index, tenant, amount in given_:
            assert give(model, ours, index, tenant, amount) == give(real, theirs, index, tenant, amount)
        for tenant in ("t_conformance", "t_other"):
            assert audit_tenant(model, ours, tenant) == audit_tenant(real, theirs, tenant)
            for seconds in (None, 300.0, -5.0):
                assert _listed(model, tenant, seconds) == _listed(real, tenant, seconds)
        assert list(accounts.all_tenants(model)) == list(accounts.all_tenants(real))


def test_the_record_of_audits_is_the_same(database_url: str) -> None:
    """Who is looked at next, and how many wait for an operator."""
    with both(database_url) as (model, real):
        seen: list[list[object]] = [[], []]
        for connection, notes in zip((model, real), seen, strict=True):
            connection.execute(MONEY["create_tenant"], _a_tenant("t_a"))
            for tenant, minutes, verdict in (
                ("t_a", 0, "BALANCED"),
                (TENANT, 2, "DISPUTED"),
                ("t_a", 5, "REPAIRED"),
                (TENANT, 3, "BUSY"),
            ):
                notes.append(due_audits(connection, T0 + timedelta(minutes=minutes)))
                entry = {"tenant_id": tenant, "verdict": verdict, "now": T0 + timedelta(minutes=minutes)}
                drift = 0 if verdict == "BALANCED" else 7
                connection.execute(
                    MONEY["record_audit"], entry | {"drift_usd_micros": drift, "detail": "as found"}
                )
                notes.append(disputed_ledgers(connection))
            notes.append(due_audits(connection, T0 + timedelta(minutes=9)))
        assert seen[0] == seen[1]


def _a_tenant(tenant_id: str) -> dict[str, object]:
    return {"tenant_id": tenant_id, "display_name": "A tenant", "rate_limit_per_minute": 60}
