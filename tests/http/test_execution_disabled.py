"""Submits while execution is disabled (TIX-1): refused without a charge; accepted runs stay accepted."""

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
    """RUN-9, RUN-13: 503 EXECUTION_DISABLED; no reservation, row, lock, mapping or message is left."""
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


def test_once_enabled_the_same_key_creates_a_run(api: ApiClient, world: World) -> None:
    """The key is free at once, for any payload."""
    tenant = world.tenant()
    disable(world.database)
    assert api.submit(tenant, a_body(), key=KEY).status == 503
    enable(world.database)
    answer = api.submit(tenant, a_body(reservation={"max_cost_usd": "0.5"}), key=KEY)
    assert (answer.status, answer.headers["Idempotent-Replayed"]) == (202, "false")
    assert message_count(world) == 1


def test_the_switch_of_another_pack_has_no_effect(api: ApiClient, world: World) -> None:
    """Only the switches of the run's pack and of all packs count."""
    tenant = world.tenant()
    for other in set(PackType) - {PackType.DECISION}:
        disable(world.database, other)
    enable(world.database)
    assert api.submit(tenant, a_body()).status == 202
    disable(world.database)
    enable(world.database, PackType.DECISION)
    assert api.submit(tenant, a_body()).status == 503


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "only the index knows"])
def test_a_repetition_of_an_accepted_submit_gets_its_receipt(api: ApiClient, world: World, mapped: bool) -> None:
    """RUN-4, D4: nothing new is promised; another payload is a conflict, and reads work."""
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
    """RUN-10."""
    tenant = world.tenant()
    first = api.submit(tenant, a_body(), key=KEY)
    work(world)
    disable(world.database)
    assert api.read(tenant, first.body["run_id"]).body["status"] == "COMPLETED"
    assert api.submit(tenant, a_body(), key=KEY).text == first.text


def test_disabled_between_the_reservation_and_the_insert(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The insert tests the switch itself, so the value is never stale; the reservation is refunded in full."""
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
    """The accepted run is parked until execution is enabled or its hour is over."""
    tenant, insert = world.tenant(), submit_store.insert

    def insert_then_disable(*args: Any) -> Any:
        run = insert(*args)
        disable(world.database)
        return run

    monkeypatch.setattr(submit_store, "insert", insert_then_disable)
    assert world.run(world.submit(tenant).run).status == Status.QUEUED
    assert message_count(world) == 1


def test_the_switch_costs_a_submit_no_round_trip(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: one Redis call before the insert and one after it; one statement inserts, one marks."""
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
    """The live run is tested before the switch: the conflict is final, and a 503 would make the client wait in vain."""
    tenant = world.tenant()
    world.submit(tenant, idempotency_key=KEY)
    world.ledger.client.delete(f"idem:{tenant.tenant_id}:{KEY}")
    disable(world.database)
    with pytest.raises(IdempotencyConflict):
        world.submit(tenant, idempotency_key=KEY, reserved_usd_micros=1_000)
    assert world.position(tenant).balanced


def test_a_refund_that_fails_is_not_reported_and_made_by_reconcile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the response has the lower balance; the orphan is refunded within minutes."""
    tenant = world.tenant()
    disable(world.database)
    ledger: Any = Flaky(world.ledger, RedisUnavailable, before={"refund_full"})
    with pytest.raises(ExecutionDisabled) as refused:
        submit(a_request(tenant), SubmitEffects(world.database, ledger, world.queue))
    assert refused.value.costs.budget_remaining_usd_micros == A_CREDIT - A_RESERVATION
    assert_heals(world, tenant)
    assert world.position(tenant).balance_usd_micros == A_CREDIT


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.SWALLOW_REPLY, Fault.HANG])
def test_an_insert_with_an_unknown_outcome_is_refunded_by_reconcile_only(
    api: ApiClient, world: World, broken: Faulty, fault: Fault
) -> None:
    """D2: the row may exist, so nothing is refunded at once."""
    tenant = world.tenant()
    disable(world.database)
    broken.postgres.arm(fault, INSERT)
    answer = api.submit(tenant, a_body(), key=KEY)
    assert (answer.status, answer.body["reason_code"]) == (503, "DEPENDENCY_UNAVAILABLE")
    broken.heal()
    assert world.ledger.balance(tenant.tenant_id) == A_CREDIT - A_RESERVATION
    assert_heals(world, tenant)
    assert world.position(tenant).balance_usd_micros == A_CREDIT


def test_losing_postgres_at_the_key_look_up_costs_nothing(api: ApiClient, world: World, broken: Faulty) -> None:
    """The reservation was refunded before the look-up."""
    tenant = world.tenant()
    disable(world.database)
    broken.postgres.arm(Fault.CUT, FIND_BY_KEY)
    assert api.submit(tenant, a_body(), key=KEY).status == 503
    broken.heal()
    assert world.position(tenant).balance_usd_micros == A_CREDIT
    assert world.position(tenant).open_reservations_usd_micros == 0


def test_many_refused_submits_cost_nothing(world: World) -> None:
    """RUN-23: to the micro, also if the budget covers only one reservation at a time."""
    tenant = world.tenant(credit_usd_micros=A_RESERVATION)
    disable(world.database)
    for number in range(20):
        with pytest.raises(ExecutionDisabled):
            world.submit(tenant, idempotency_key=f"key-{number:04}")
    assert world.position(tenant).balance_usd_micros == A_RESERVATION
    enable(world.database)
    assert world.run(world.submit(tenant).run).status == Status.QUEUED


def test_a_refused_request_holds_no_lock(world: World) -> None:
    """RUN-4: the next request with the key does not wait 5 s."""
    tenant = world.tenant()
    request = a_request(tenant, idempotency_key=KEY)
    disable(world.database)
    for attempt in (request, replace(request, reserved_usd_micros=1)):
        with pytest.raises(ExecutionDisabled):
            submit(attempt, world.submit_effects())
    lock = world.ledger.keys.idempotency_lock(tenant.tenant_id, KEY)
    assert world.ledger.client.get(lock) is None
    assert admission.LOCK_TTL_SECONDS == 5
