"""Each transition of the machine is made by its query, and no query makes another (RUN-16, RUN-19, RUN-22, D3)."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from dpp.platform.db.postgres import Connection
from dpp.runs import store, submit_store
from dpp.runs.machine import MACHINE, MoneyState, State, Status
from dpp.runs.model import Intent, ResultPointer, Run
from dpp.runs.store import Guard
from tests.schema.rows import HASH, TENANT_ID
from tests.support.world import a_request

_COMPLETED = Intent(Status.COMPLETED, MoneyState.SETTLED, 50_000, 7, ResultPointer("bucket", "key", HASH))
_FAILED = Intent(Status.FAILED, MoneyState.SETTLED, 5_000, reason_code="WORKER_TIMEOUT", detail="gone")
_REFUNDED = Intent(Status.FAILED, MoneyState.REFUNDED, 0, reason_code="RESERVATION_EXPIRED")
_INTENTS = (_COMPLETED, _FAILED, _REFUNDED)
_QUERIES = ("start_processing", "park", "claim", "reclaim", "commit", "dispute", "resolve", "expire")


def _state(run: Run) -> State:
    return State(run.status, run.money_state, run.finalize_stage)


def _inserted(connection: Connection, now: datetime | None = None) -> Run:
    return submit_store.insert(connection, a_request(TENANT_ID, inputs={"question": "What?"}), uuid4(), now)


def _leased(connection: Connection) -> Run:
    return _not_none(store.start_processing(connection, _inserted(connection), "lease"))


def _claimed(connection: Connection, run: Run, intent: Intent) -> Run:
    return _not_none(store.claim(connection, run, Guard(run.status, run.lease_token), intent, finalize_token="token"))


def _committed(connection: Connection, run: Run, intent: Intent) -> Run:
    return _not_none(store.commit(connection, _claimed(connection, run, intent), release_idempotency_key=False))


def _expired(connection: Connection, run: Run) -> Run:
    return _not_none(store.expire(connection, run, run.retention_until))


def _not_none(run: Run | None) -> Run:
    assert run is not None
    return run


def _one_run_in_every_state(connection: Connection) -> Iterator[Run]:
    """One run in each state, made by the store's functions; claimed once for each possible intent."""
    yield _inserted(connection)
    yield _claimed(connection, _inserted(connection), _REFUNDED)
    yield _not_none(store.dispute(connection, _claimed(connection, _inserted(connection), _REFUNDED), "?"))
    yield _leased(connection)
    for intent in (_COMPLETED, _FAILED):
        yield _claimed(connection, _leased(connection), intent)
        yield _not_none(store.dispute(connection, _claimed(connection, _leased(connection), intent), "?"))
        yield _committed(connection, _leased(connection), intent)
        yield _expired(connection, _committed(connection, _leased(connection), intent))
    yield _committed(connection, _inserted(connection), _REFUNDED)
    yield _expired(connection, _committed(connection, _inserted(connection), _REFUNDED))


def _attempts(  # noqa: PLR0911 - one case per query
    connection: Connection, query: str, run: Run, later: datetime
) -> list[Callable[[], Run | None]]:
    """All calls of the query for the run, by a caller that knows its version and tokens."""
    guards = [Guard(status, token) for status in Status for token in {run.lease_token, None}]
    match query:
        case "start_processing":
            return [lambda: store.start_processing(connection, run, "another")]
        case "park":
            return [lambda: store.park(connection, run)]
        case "claim":
            return [
                lambda guard=guard, intent=intent: store.claim(  # type: ignore[misc]
                    connection, run, guard, intent, finalize_token="new"
                )
                for guard in guards
                for intent in _INTENTS
            ]
        case "reclaim":
            return [
                lambda intent=intent: store.reclaim(  # type: ignore[misc]
                    connection, run, intent, finalize_token="new", stuck_after_seconds=1, now=later
                )
                for intent in _INTENTS
            ]
        case "commit":
            return [
                lambda release=release: store.commit(connection, run, release_idempotency_key=release)  # type: ignore[misc]
                for release in {False, run.finalize_money_state == MoneyState.REFUNDED}
            ]
        case "resolve":
            return [
                lambda intent=intent: store.resolve(connection, run, intent, finalize_token="new")  # type: ignore[misc]
                for intent in _INTENTS
            ]
        case "expire":
            return [lambda: store.expire(connection, run, run.retention_until)]
        case _:
            return [lambda: store.dispute(connection, run, "?")]


def _reached(connection: Connection, query: str, run: Run, later: datetime) -> set[State]:
    """The states that the query moves the run to, in all its attempts; each is rolled back."""
    found = set()
    for attempt in _attempts(connection, query, run, later):
        with connection.transaction(force_rollback=True):
            try:
                moved = attempt()
            except psycopg.errors.CheckViolation:
                assert query in ("claim", "reclaim", "resolve"), "the schema only rejects an intent that doesn't fit"
                continue
            stored = _not_none(store.find(connection, run.tenant_id, run.run_id))
            assert stored == (moved or run), "a loser gets zero rows, and nothing was written"
            if moved is not None and moved != run:  # a repeated commit finds its own result
                assert moved.version == run.version + 1
                found.add(_state(moved))
    return found


@pytest.fixture
def later(connection: Connection) -> datetime:
    """An hour ahead of Postgres's clock (D1)."""
    row = connection.execute("SELECT now() + interval '1 hour'").fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def test_each_query_makes_exactly_the_transitions_of_the_machine(connection: Connection, later: datetime) -> None:
    """RUN-24, D3: every query, for a run in every state; other transitions affect no row."""
    reached: set[tuple[State, State, str]] = set()
    seen = set()
    for run in list(_one_run_in_every_state(connection)):
        seen.add(_state(run))
        for query in _QUERIES:
            reached |= {(_state(run), target, query) for target in _reached(connection, query, run, later)}
    assert seen == MACHINE.states
    table = {(way.source, way.target, way.action) for way in MACHINE.transitions if way.source is not None}
    assert reached == table


def test_a_new_run_is_in_the_machines_first_state(connection: Connection) -> None:
    """RUN-2: the one transition without a source."""
    begin = [way for way in MACHINE.transitions if way.source is None]
    assert [(way.target, way.action) for way in begin] == [(_state(_inserted(connection)), "insert_run")]
    assert {way.action for way in MACHINE.transitions} == {"insert_run", *_QUERIES}


def test_a_stale_version_moves_nothing(connection: Connection, later: datetime) -> None:
    """DEC-4210: every compare-and-swap tests the version."""
    for run in list(_one_run_in_every_state(connection)):
        for version in (run.version - 1, run.version + 1):
            stale = replace(run, version=version)
            for query in _QUERIES:
                for attempt in _attempts(connection, query, stale, later):
                    assert attempt() in (None, run)
        assert store.find(connection, TENANT_ID, run.run_id) == run


def test_only_the_lease_holder_can_claim(connection: Connection) -> None:
    """RUN-16, RUN-19: another token or none gets no row."""
    run = _leased(connection)
    for token in ("another", "", None):
        guard = Guard(Status.PROCESSING, token)
        assert store.claim(connection, run, guard, _FAILED, finalize_token="f") is None
    assert store.find(connection, TENANT_ID, run.run_id) == run


def test_the_reaper_claims_only_a_lease_that_is_expired_when_it_writes(connection: Connection, later: datetime) -> None:
    """RUN-20: a heartbeat between scan and claim keeps the lease."""
    run = _leased(connection)
    guard = Guard(Status.PROCESSING, run.lease_token, lease_must_have_expired=True)
    assert store.claim(connection, run, guard, _FAILED, finalize_token="f") is None
    assert store.extend_lease(connection, run, later - timedelta(minutes=59))
    assert store.claim(connection, run, guard, _FAILED, finalize_token="f", now=later - timedelta(minutes=58)) is None
    assert store.claim(connection, run, guard, _FAILED, finalize_token="f", now=later) is not None


def test_the_sweeper_claims_only_a_run_that_waited_long_enough(connection: Connection, later: datetime) -> None:
    """RUN-21: by Postgres's clock, when it writes."""
    run = _inserted(connection)
    guard = Guard(Status.QUEUED, None, minimum_age_seconds=3_600)
    almost = run.created_at + timedelta(seconds=3_599)
    assert store.claim(connection, run, guard, _REFUNDED, finalize_token="f", now=almost) is None
    due = run.created_at + timedelta(seconds=3_600)
    assert store.claim(connection, run, guard, _REFUNDED, finalize_token="f", now=due) is not None


def test_only_a_stuck_claim_is_taken_over_and_its_first_holder_then_commits_nothing(
    connection: Connection, later: datetime
) -> None:
    """RUN-22, D3: the finalize token has changed, so the first holder gets no row."""
    claimed = _claimed(connection, _leased(connection), _COMPLETED)
    early = store.reclaim(connection, claimed, _FAILED, finalize_token="second", stuck_after_seconds=300)
    assert early is None
    taken = store.reclaim(connection, claimed, _FAILED, finalize_token="second", stuck_after_seconds=300, now=later)
    assert taken is not None
    assert (taken.finalize_token, taken.intent) == ("second", replace(_FAILED, tokens_consumed=0))
    assert store.commit(connection, claimed, release_idempotency_key=False) is None
    forged = replace(taken, finalize_token="token")
    assert store.commit(connection, forged, release_idempotency_key=False) is None
    assert store.dispute(connection, forged, "?") is None
    assert store.commit(connection, taken, release_idempotency_key=False) is not None


def test_a_claim_or_commit_whose_reply_was_lost_is_found_only_by_its_token(connection: Connection) -> None:
    """RUN-19, D3: the winner may repeat the call; any other caller loses."""
    run = _leased(connection)
    guard = Guard(Status.PROCESSING, run.lease_token)
    claimed = _claimed(connection, run, _COMPLETED)
    assert store.claim(connection, run, guard, _COMPLETED, finalize_token="token") == claimed
    assert store.claim(connection, run, guard, _COMPLETED, finalize_token="another") is None
    committed = store.commit(connection, claimed, release_idempotency_key=False)
    assert store.commit(connection, claimed, release_idempotency_key=False) == committed
    another = replace(claimed, finalize_token="another")
    assert store.commit(connection, another, release_idempotency_key=False) is None
    assert store.claim(connection, run, guard, _COMPLETED, finalize_token="token") is None


def test_a_commit_writes_the_intent_of_the_claim(connection: Connection) -> None:
    """D3, RUN-19: outcome, charge and pointer are recorded before any money moves."""
    ended = _committed(connection, _leased(connection), _COMPLETED)
    assert (ended.status, ended.money_state, ended.actual_cost_usd_micros) == (
        Status.COMPLETED,
        MoneyState.SETTLED,
        50_000,
    )
    assert (ended.result, ended.tokens_consumed) == (_COMPLETED.result, 7)


def test_a_lease_is_extended_only_by_its_holder_before_a_claim_and_before_it_expires(
    connection: Connection, later: datetime
) -> None:
    """RUN-16: a late heartbeat does not revive it."""
    run = _leased(connection)
    assert store.extend_lease(connection, run)
    assert not store.extend_lease(connection, replace(run, lease_token="another"))
    assert not store.extend_lease(connection, run, later)
    assert store.find(connection, TENANT_ID, run.run_id) == run, "a heartbeat changes no version"
    _claimed(connection, run, _FAILED)
    assert not store.extend_lease(connection, run)


def test_a_run_that_is_sent_twice_keeps_its_first_time(connection: Connection, later: datetime) -> None:
    """D5."""
    run = _inserted(connection)
    submit_store.mark_enqueued(connection, run)
    first = connection.execute("SELECT enqueued_at, version FROM runs").fetchone()
    submit_store.mark_enqueued(connection, run, later)
    store.start_processing(connection, run, "lease", later)
    assert first is not None
    assert connection.execute("SELECT enqueued_at, version FROM runs").fetchone() == (first[0], 1)


def test_a_run_is_read_only_by_its_tenant(connection: Connection, later: datetime) -> None:
    """RUN-11, RUN-12: its retention is 30 days by Postgres's clock."""
    run = _inserted(connection)
    assert store.find(connection, "t_other", run.run_id) is None
    assert store.find_for_owner(connection, "t_other", run.run_id) is None
    assert submit_store.find_by_key(connection, "t_other", "key") is None
    assert run.retention_until - run.created_at == timedelta(days=30)
    last = run.retention_until - timedelta(microseconds=1)
    assert store.find_for_owner(connection, TENANT_ID, run.run_id, last) == (run, False)
    assert store.find_for_owner(connection, TENANT_ID, run.run_id, run.retention_until) == (run, True)
    assert store.runs_among(connection, TENANT_ID, [run.run_id, uuid4()]) == [run]
    assert store.runs_among(connection, "t_other", [run.run_id]) == []


def test_inputs_are_read_unchanged(connection: Connection) -> None:
    """D8: None after their deletion, and no run for another tenant."""
    run = _inserted(connection)
    assert store.find_with_inputs(connection, TENANT_ID, run.run_id) == (run, {"question": "What?"})
    connection.execute("DELETE FROM run_inputs")
    assert store.find_with_inputs(connection, TENANT_ID, run.run_id) == (run, None)
    assert store.find_with_inputs(connection, "t_other", run.run_id) is None
