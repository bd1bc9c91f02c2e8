"""The schema accepts exactly the machine's states, and no wrong amount (RUN-24, RUN-29, D2, D3)."""

from itertools import product
from typing import Any

import psycopg
import pytest

from dpp.platform.db.postgres import Connection
from dpp.runs.machine import MACHINE, TERMINAL, FinalizeStage, MoneyState, State, Status
from tests.schema import rows
from tests.schema.rows import (
    LEASE,
    NO_RESULT,
    RESULT,
    claimed,
    completed,
    insert,
    intent,
    processing,
    queued,
    refunded,
    refusal,
    tombstone,
)

_STAGES = (None, *FinalizeStage)
_INTENTS = (intent("COMPLETED", "SETTLED", 100), intent("FAILED", "SETTLED", 100), intent("FAILED", "REFUNDED", 0))
_ACCEPTED: dict[str, dict[str, Any]] = {
    "queued": queued(),
    "processing": processing(),
    "claimed": claimed(),
    "completed": completed(),
    "refunded": refunded(),
    "disputed": claimed(money_state=MoneyState.DISPUTED),
    "disputed before its start": queued(money_state=MoneyState.DISPUTED, **intent("FAILED", "REFUNDED", 0)),
    "a charge of zero": completed(finalize_charge_usd_micros=0, actual_cost_usd_micros=0),
    "a charge of all": completed(finalize_charge_usd_micros=250_000, actual_cost_usd_micros=250_000),
    "the largest reservation": queued(reservation_max_cost_usd_micros=2**53 - 1),
    "a free key of a run that was never queued": refunded(idempotency_released_at="2026-01-01T00:00:00Z"),
    "a tombstone": completed(status=Status.EXPIRED, idempotency_released_at="2026-01-01T00:00:00Z", **NO_RESULT),
}
_REJECTED: dict[str, dict[str, dict[str, Any]]] = {
    "runs_reservation_max_cost_usd_micros_check": {
        "a reservation of zero": queued(reservation_max_cost_usd_micros=0),
        "a negative reservation": queued(reservation_max_cost_usd_micros=-1),
        "a reservation above 2^53 - 1": queued(reservation_max_cost_usd_micros=2**53),
    },
    "runs_minimum_fee_usd_micros_check": {
        "a fee below the minimum": queued(minimum_fee_usd_micros=4_999),
        "a fee above the cap": queued(minimum_fee_usd_micros=100_001),
    },
    "runs_intent_is_payable": {
        "a charge above the reservation": claimed(finalize_charge_usd_micros=250_001),
        "a negative charge": claimed(finalize_charge_usd_micros=-1),
        "a refund with a charge": queued(**intent("FAILED", "REFUNDED", 1)),
        "a claim without a charge": claimed(finalize_charge_usd_micros=None),
    },
    "runs_intent_fits_status": {
        "a completed run that is refunded": processing(**intent("COMPLETED", "REFUNDED", 0), **RESULT),
        "a charge of a run that never started": queued(**intent("FAILED", "SETTLED", 5_000)),
        "a result of a run that never started": queued(**intent("COMPLETED", "SETTLED", 5_000), **RESULT),
        "a refund of a started run": processing(**intent("FAILED", "REFUNDED", 0)),
    },
    "runs_status_and_money_agree": {
        "completed without a result": completed(**NO_RESULT),
        "completed with an error": completed(last_error_reason_code="X"),
        "failed without a reason": refunded(last_error_reason_code=None),
        "queued with a lease": queued(**LEASE),
        "processing without a lease": processing(lease_token=None, lease_expires_at=None),
        "a tombstone with its key": completed(status=Status.EXPIRED, **NO_RESULT),
        "a tombstone with its result": completed(status=Status.EXPIRED, idempotency_released_at="2026-01-01T00:00:00Z"),
    },
    "runs_result_is_whole": {"an incomplete result": completed(result_sha256=None)},
    "runs_result_sha256_check": {"a result hash in capitals": completed(result_sha256="AB" * 32)},
    "runs_lease_is_whole": {"an incomplete lease": processing(lease_expires_at=None)},
    "runs_intent_is_whole": {"an incomplete intent": claimed(finalize_token=None)},
    "runs_commit_follows_intent": {
        "a charge other than the intended": completed(actual_cost_usd_micros=49_999),
        "no charge of an ended run": completed(actual_cost_usd_micros=None),
        "an end other than the intended": completed(
            status=Status.FAILED, last_error_reason_code="X", finalize_outcome="COMPLETED"
        ),
        "a refund instead of the intended settle": completed(
            status=Status.FAILED, money_state=MoneyState.REFUNDED, last_error_reason_code="X", finalize_outcome="FAILED"
        ),
        "charged before the end": claimed(actual_cost_usd_micros=50_000),
    },
    "runs_dispute_has_an_intent": {"disputed without a claim": queued(money_state=MoneyState.DISPUTED)},
    "runs_release_is_final": {
        "a free key of a queued run": queued(idempotency_released_at="2026-01-01T00:00:00Z"),
        "a free key of a charged run": completed(idempotency_released_at="2026-01-01T00:00:00Z"),
    },
    "runs_tokens_consumed_check": {"tokens below zero": queued(tokens_consumed=-1)},
    "runs_timebox_sec_check": {"no timebox": queued(timebox_sec=0), "a timebox over 90 s": queued(timebox_sec=91)},
    "runs_min_reliability_score_check": {
        "a score above 1": queued(min_reliability_score="1.01"),
        "a score of NaN": queued(min_reliability_score="NaN"),
    },
    "runs_idempotency_key_check": {
        "a short idempotency key": queued(idempotency_key="1234567"),
        "a long idempotency key": queued(idempotency_key="k" * 65),
    },
    "idempotency_key": {"no idempotency key": queued(idempotency_key=None)},
    "runs_payload_hash_check": {"an invalid payload hash": queued(payload_hash="x" * 64)},
    "runs_pack_type_check": {"an unknown pack": queued(pack_type="other")},
    "runs_tenant_id_fkey": {"an unknown tenant": queued(tenant_id="nobody")},
    "retention_until": {"no retention": queued(retention_until=None)},
    "runs_version_check": {"a negative version": queued(version=-1)},
}
"""Rows by the constraint that rejects them."""


def _every_row_in(state: State) -> list[dict[str, Any]]:
    """Rows in this state, with every combination of the columns that depend on the state."""
    intents: tuple[dict[str, Any], ...] = ({},)
    if state.stage is not None:
        intents = tuple(chosen | {"finalize_stage": state.stage} for chosen in _INTENTS)
    columns = {"status": state.status, "money_state": state.money}
    found = []
    for chosen, lease, result, error, released in product(intents, (True, False), *((True, False),) * 3):
        row = queued(**columns) | chosen | (LEASE if lease else {}) | (RESULT if result else {})
        row |= {"last_error_reason_code": "X"} if error else {}
        row |= {"idempotency_released_at": "2026-01-01T00:00:00Z"} if released else {}
        if state.status in TERMINAL and chosen:
            row |= {"actual_cost_usd_micros": chosen["finalize_charge_usd_micros"]}
        found.append(row)
    return found


def test_exactly_the_states_of_the_machine_are_accepted(connection: Connection) -> None:
    """RUN-24, D3: each of the 5 × 5 × 3 combinations, with every combination of dependent columns."""
    taken = {
        state
        for state in map(State, *zip(*product(Status, MoneyState, _STAGES), strict=True))
        if any(refusal(connection, row) is None for row in _every_row_in(state))
    }
    assert taken == MACHINE.states


def test_every_terminal_state_is_settled_or_refunded_and_committed() -> None:
    """RUN-24."""
    for state in MACHINE.states:
        terminal = state.status in TERMINAL
        assert terminal == (state.money in (MoneyState.SETTLED, MoneyState.REFUNDED)), state
        assert terminal == (state in MACHINE.terminal), state
        assert terminal == (state.stage == FinalizeStage.COMMITTED), state


def test_ended_runs_can_only_become_tombstones_and_disputed_ones_only_be_resolved() -> None:
    """RUN-24, D3, D7: an ended run keeps its money state; only an operator moves a disputed one."""
    for transition in MACHINE.transitions:
        source, target = transition.source, transition.target
        if source is None:
            continue
        if source.status not in TERMINAL:
            is_disputed = source.money == MoneyState.DISPUTED
            assert is_disputed == (transition.action == "resolve")
            assert not is_disputed or transition.by == "operator"
        else:
            assert source.status != Status.EXPIRED
            assert (target.status, target.money) == (Status.EXPIRED, source.money)


def test_valid_rows_are_accepted(connection: Connection) -> None:
    """Each rejected row below differs from one of these in one change."""
    assert {name: refusal(connection, row) for name, row in _ACCEPTED.items()} == dict.fromkeys(_ACCEPTED)


def test_every_wrong_row_is_rejected_by_its_constraint(connection: Connection) -> None:
    """RUN-24, RUN-29, D2, D3: a wrong write fails in the database."""
    found = {
        constraint: {name: refusal(connection, row) for name, row in wrong.items()}
        for constraint, wrong in _REJECTED.items()
    }
    assert found == {constraint: dict.fromkeys(wrong, constraint) for constraint, wrong in _REJECTED.items()}


def test_an_idempotency_key_is_unique_for_a_tenant_while_not_released(connection: Connection) -> None:
    """D4, RUN-4, RUN-8: an ended run keeps its key; a key can be released several times."""
    key, released = "the-same-key", {"idempotency_released_at": "2026-01-01T00:00:00Z"}
    rows.add_tenant(connection, "t_other")
    insert(connection, refunded(idempotency_key=key, **released))
    insert(connection, refunded(idempotency_key=key, **released))
    insert(connection, completed(idempotency_key=key))
    assert refusal(connection, queued(idempotency_key=key)) == "runs_idempotency"
    assert refusal(connection, queued(idempotency_key=key, tenant_id="t_other")) is None
    assert refusal(connection, queued(idempotency_key=key.upper())) is None


def test_inputs_are_an_object_and_are_deleted_with_their_run(connection: Connection) -> None:
    """D8."""
    row = tombstone()
    insert(connection, row)
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("INSERT INTO run_inputs VALUES (%s, '[]')", (row["run_id"],))
    connection.execute("INSERT INTO run_inputs VALUES (%s, '{}')", (row["run_id"],))
    connection.execute("DELETE FROM runs WHERE run_id = %s", (row["run_id"],))
    assert connection.execute("SELECT count(*) FROM run_inputs").fetchone() == (0,)
