"""Submits while execution is disabled (TIX-1): refused at no cost, and nothing that was promised is taken back."""

from dataclasses import replace
from typing import Any

import pytest

from dpp.packs.contract import PackType
from dpp.platform.errors import RedisUnavailable
from dpp.runs import admission, submit_store
from dpp.runs.errors import ExecutionDisabled, IdempotencyConflict
from dpp.runs.machine import Status
from dpp.runs.submit import SubmitEffects, submit
from tests.http.faulty import FIND_BY_KEY, INSERT, Faulty, assert_heals
from tests.http.state import footprint, message_count, work
from tests.http.test_problems import assert_problem
from tests.runs.switched import disable, enable
from tests.support.api import ApiClient, a_body
from tests.support.faults import Flaky
from tests.support.proxy import Fault
from tests.support.world import A_CREDIT, A_RESERVATION, World, a_request

KEY = "a-key-of-mine"


@pytest.mark.parametrize("scope", [None, PackType.DECISION])
def test_a_submit_is_refused_and_leaves_nothing(api: ApiClient, world: World, scope: PackType | None) -> None:
    """RUN-9, RUN-13: 503 EXECUTION_DISABLED for a minute; not a micro, row, lock, mapping or message is left."""
    tenant = world.tenant()
    before = footprint(world, tenant)
    disable(world.database, scope)
    answer = api.submit(tenant, a_body(), key=KEY)
    assert_problem(answer, "503 EXECUTION_DISABLED", "/v1/runs")
    assert answer.headers["Retry-After"] == "60"
    assert answer.costs() == ("0.0000", "0.0000", "10.0000", "0")
    assert "X-RateLimit-Remaining" in answer.headers
    assert "run_id" not in answer.body
    assert footprint(world, tenant) == before
    assert world.position(tenant).balance_usd_micros == A_CREDIT
    assert not world.ledger.client.exists(f"idem:{tenant.tenant_id}:{KEY}")


def test_once_enabled_the_same_key_is_a_new_run(api: ApiClient, world: World) -> None:
    """What was refused was no run: the key is free at once, whatever its payload."""
    tenant = world.tenant()
    disable(world.database)
    assert api.submit(tenant, a_body(), key=KEY).status == 503
    enable(world.database)
    answer = api.submit(tenant, a_body(reservation={"max_cost_usd": "0.5"}), key=KEY)
    assert (answer.status, answer.headers["Idempotent-Replayed"]) == (202, "false")
    assert message_count(world) == 1


def test_another_packs_switch_and_one_that_is_on_disturb_nobody(api: ApiClient, world: World) -> None:
    """Each pack by itself, and all together: both must be on."""
    tenant = world.tenant()
    for other in set(PackType) - {PackType.DECISION}:
        disable(world.database, other)
    enable(world.database)
    assert api.submit(tenant, a_body()).status == 202
    disable(world.database)
    enable(world.database, PackType.DECISION)
    assert api.submit(tenant, a_body()).status == 503


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "only the index knows"])
def test_a_repetition_of_an_accepted_run_is_answered_as_ever(
    api: ApiClient, world: World, mapped: bool
) -> None:
    """RUN-4, D4: it promises nothing new; another payload is a conflict as ever, and a read goes on."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    disable(world.database)

    def forget() -> None:
        if not mapped:
            world.ledger.client.delete(f"idem:{tenant.tenant_id}:{KEY}")

    before = footprint(world, tenant)
    forget()
    again = api.submit(tenant, a_body(), key=KEY)
    assert (again.status, again.text) == (202, first.text)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.costs() == first.costs()
    forget()
    other = api.submit(tenant, a_body(inputs={"question": "Another?"}), key=KEY)
    assert (other.status, other.body["reason_code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert other.body["run_id"] == first.body["run_id"]
    assert footprint(world, tenant) == before
    assert api.read(tenant, first.body["run_id"]).body["status"] == "QUEUED"


def test_a_run_that_ended_is_read_and_repeated_while_disabled(api: ApiClient, world: World) -> None:
    """RUN-10: what is over is nobody's execution."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    work(world)
    disable(world.database)
    assert api.read(tenant, first.body["run_id"]).body["status"] == "COMPLETED"
    assert api.submit(tenant, a_body(), key=KEY).text == first.text


def test_disabled_between_the_reservation_and_the_insert(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The insert itself asks, so no look before it can be stale; the money comes back in full."""
    tenant, insert = world.tenant(), submit_store.insert

    def disable_then_insert(*args: Any) -> Any:
        assert world.position(tenant).open_reservations_usd_micros == 0
        assert world.ledger.balance(tenant.tenant_id) == A_CREDIT - A_RESERVATION
        disable(world.database)
        return insert(*args)

    monkeypatch.setattr(submit_store, "insert", disable_then_insert)
    with pytest.raises(ExecutionDisabled) as refused:
        world.submit(tenant)
    assert refused.value.costs.budget_remaining_usd_micros == A_CREDIT
    assert world.position(tenant).balance_usd_micros == A_CREDIT
    assert world.position(tenant).balanced


def test_disabled_after_the_insert_keeps_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Accepted is accepted: the run waits, parked, until it is enabled or its hour is over."""
    tenant, insert = world.tenant(), submit_store.insert

    def insert_then_disable(*args: Any) -> Any:
        run = insert(*args)
        disable(world.database)
        return run

    monkeypatch.setattr(submit_store, "insert", insert_then_disable)
    assert world.run(world.submit(tenant).run).status == Status.QUEUED
    assert message_count(world) == 1


def test_a_submit_takes_as_many_trips_as_without_a_switch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: one call of Redis before the insert and one after it, one statement that inserts, one that marks."""
    statements: list[str] = []
    tenant = world.tenant()
    with world.database.connection() as connection:
        execute = connection.execute

        def counted(query: Any, *args: Any, **kwargs: Any) -> Any:
            statements.append(str(query))
            return execute(query, *args, **kwargs)

        monkeypatch.setattr(connection, "execute", counted)
    world.submit(tenant)
    assert statements == [submit_store.QUERIES["insert_run"], submit_store.QUERIES["mark_enqueued"]]


def test_a_key_taken_by_another_payload_is_a_conflict_while_disabled(world: World) -> None:
    """The living run comes first, then the switch: 409 is final, and 503 would have the client wait for nothing."""
    tenant = world.tenant()
    world.submit(tenant, idempotency_key=KEY)
    world.ledger.client.delete(f"idem:{tenant.tenant_id}:{KEY}")
    disable(world.database)
    with pytest.raises(IdempotencyConflict):
        world.submit(tenant, idempotency_key=KEY, reserved_usd_micros=1_000)
    assert world.position(tenant).balanced


def test_a_refund_that_fails_is_told_as_it_stands_and_made_by_reconcile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the answer says no more than what is there; the orphan comes back within minutes."""
    tenant = world.tenant()
    disable(world.database)
    ledger: Any = Flaky(world.ledger, RedisUnavailable, before={"refund_full"})
    with pytest.raises(ExecutionDisabled) as refused:
        submit(a_request(tenant), SubmitEffects(world.database, ledger, world.queue))
    assert refused.value.costs.budget_remaining_usd_micros == A_CREDIT - A_RESERVATION
    assert_heals(world, tenant)
    assert world.position(tenant).balance_usd_micros == A_CREDIT


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.SWALLOW_REPLY, Fault.HANG])
def test_an_insert_whose_outcome_is_unknown_is_given_back_by_reconcile_alone(
    api: ApiClient, world: World, broken: Faulty, fault: Fault
) -> None:
    """D2: as without a switch. Nobody knows whether the row stands, so nothing is refunded at once."""
    tenant = world.tenant()
    disable(world.database)
    broken.postgres.arm(fault, INSERT)
    answer = api.submit(tenant, a_body(), key=KEY)
    assert (answer.status, answer.body["reason_code"]) == (503, "DEPENDENCY_UNAVAILABLE")
    broken.heal()
    assert world.ledger.balance(tenant.tenant_id) == A_CREDIT - A_RESERVATION
    assert_heals(world, tenant)
    assert world.position(tenant).balance_usd_micros == A_CREDIT


def test_postgres_lost_at_the_look_for_the_key_costs_nothing(
    api: ApiClient, world: World, broken: Faulty
) -> None:
    """The money went back before the look."""
    tenant = world.tenant()
    disable(world.database)
    broken.postgres.arm(Fault.CUT, FIND_BY_KEY)
    assert api.submit(tenant, a_body(), key=KEY).status == 503
    broken.heal()
    assert world.position(tenant).balance_usd_micros == A_CREDIT
    assert world.position(tenant).open_reservations_usd_micros == 0


def test_many_refused_submits_cost_nothing(world: World) -> None:
    """RUN-23: exact to the micro, also where the budget covers only one reservation at a time."""
    tenant = world.tenant(credit_usd_micros=A_RESERVATION)
    disable(world.database)
    for number in range(20):
        with pytest.raises(ExecutionDisabled):
            world.submit(tenant, idempotency_key=f"key-{number:04}")
    assert world.position(tenant).balance_usd_micros == A_RESERVATION
    enable(world.database)
    assert world.run(world.submit(tenant).run).status == Status.QUEUED


def test_the_ticket_of_the_refused_request_holds_no_lock(world: World) -> None:
    """RUN-4: the next request with the key needn't wait 5 s for it."""
    tenant = world.tenant()
    request = a_request(tenant, idempotency_key=KEY)
    disable(world.database)
    for attempt in (request, replace(request, reserved_usd_micros=1)):
        with pytest.raises(ExecutionDisabled):
            submit(attempt, world.submit_effects())
    lock = world.ledger.keys.idempotency_lock(tenant.tenant_id, KEY)
    assert world.ledger.client.get(lock) is None
    assert admission.LOCK_TTL_SECONDS == 5
