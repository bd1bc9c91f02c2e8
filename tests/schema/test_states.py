"""The schema takes the machine's states and no other, and no wrong amount (RUN-24, RUN-29, D2, D3)."""

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
_INTENTS = (
    intent("COMPLETED", "SETTLED", 100),
    intent("FAILED", "SETTLED", 100),
    intent("FAILED", "REFUNDED", 0),
)
_TAKEN: dict[str, dict[str, Any]] = {
    "queued": queued(),
    "processing": processing(),
    "claimed": claimed(),
    "completed": completed(),
    "refunded": refunded(),
    "disputed": claimed(money_state=MoneyState.DISPUTED),
    "disputed before it ran": queued(money_state=MoneyState.DISPUTED, **intent("FAILED", "REFUNDED", 0)),
    "charged nothing": completed(finalize_charge_usd_micros=0, actual_cost_usd_micros=0),
    "charged all": completed(finalize_charge_usd_micros=250_000, actual_cost_usd_micros=250_000),
    "the largest reservation": queued(reservation_max_cost_usd_micros=2**53 - 1),
    "released after it never reached the queue": refunded(idempotency_released_at="2026-01-01T00:00:00Z"),
    "a tombstone": completed(
        status=Status.EXPIRED, idempotency_released_at="2026-01-01T00:00:00Z", **NO_RESULT
    ),
}
_REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "reserved nothing": (
        queued(reservation_max_cost_usd_micros=0),
        "runs_reservation_max_cost_usd_micros_check",
    ),
    "reserved less than nothing": (
        queued(reservation_max_cost_usd_micros=-1),
        "runs_reservation_max_cost_usd_micros_check",
    ),
    "reserved beyond 2^53 - 1": (
        queued(reservation_max_cost_usd_micros=2**53),
        "runs_reservation_max_cost_usd_micros_check",
    ),
    "a fee below the minimum": (queued(minimum_fee_usd_micros=4_999), "runs_minimum_fee_usd_micros_check"),
    "a fee above the cap": (queued(minimum_fee_usd_micros=100_001), "runs_minimum_fee_usd_micros_check"),
    "a charge above the reservation": (
        claimed(finalize_charge_usd_micros=250_001),
        "runs_intent_is_payable",
    ),
    "a negative charge": (claimed(finalize_charge_usd_micros=-1), "runs_intent_is_payable"),
    "a refund that keeps something": (
        queued(**intent("FAILED", "REFUNDED", 1)),
        "runs_intent_is_payable",
    ),
    "a completed run that is refunded": (
        processing(**intent("COMPLETED", "REFUNDED", 0), **RESULT),
        "runs_intent_fits_status",
    ),
    "a charge of what never ran": (queued(**intent("FAILED", "SETTLED", 5_000)), "runs_intent_fits_status"),
    "a result of what never ran": (
        queued(**intent("COMPLETED", "SETTLED", 5_000), **RESULT),
        "runs_intent_fits_status",
    ),
    "a refund of what ran": (processing(**intent("FAILED", "REFUNDED", 0)), "runs_intent_fits_status"),
    "completed without a result": (completed(**NO_RESULT), "runs_status_and_money_agree"),
    "completed with an error": (completed(last_error_reason_code="X"), "runs_status_and_money_agree"),
    "failed without a reason": (refunded(last_error_reason_code=None), "runs_status_and_money_agree"),
    "half a result": (completed(result_sha256=None), "runs_result_is_whole"),
    "a result hash in capitals": (completed(result_sha256="AB" * 32), "runs_result_sha256_check"),
    "half a lease": (processing(lease_expires_at=None), "runs_lease_is_whole"),
    "queued with a lease": (queued(**LEASE), "runs_status_and_money_agree"),
    "processing without a lease": (
        processing(lease_token=None, lease_expires_at=None),
        "runs_status_and_money_agree",
    ),
    "half an intent": (claimed(finalize_token=None), "runs_intent_is_whole"),
    "a claim without a charge": (claimed(finalize_charge_usd_micros=None), "runs_intent_is_payable"),
    "charged other than intended": (
        completed(actual_cost_usd_micros=49_999),
        "runs_commit_follows_intent",
    ),
    "charged nothing that is known": (
        completed(actual_cost_usd_micros=None),
        "runs_commit_follows_intent",
    ),
    "ended other than intended": (
        completed(status=Status.FAILED, last_error_reason_code="X", finalize_outcome="COMPLETED"),
        "runs_commit_follows_intent",
    ),
    "refunded where a settle was intended": (
        completed(
            status=Status.FAILED,
            money_state=MoneyState.REFUNDED,
            last_error_reason_code="X",
            finalize_outcome="FAILED",
        ),
        "runs_commit_follows_intent",
    ),
    "charged before the end": (
        claimed(actual_cost_usd_micros=50_000),
        "runs_commit_follows_intent",
    ),
    "disputed without a claim": (queued(money_state=MoneyState.DISPUTED), "runs_dispute_has_an_intent"),
    "a free key of a run that waits": (
        queued(idempotency_released_at="2026-01-01T00:00:00Z"),
        "runs_release_is_final",
    ),
    "a free key of a run that was paid": (
        completed(idempotency_released_at="2026-01-01T00:00:00Z"),
        "runs_release_is_final",
    ),
    "a tombstone that keeps its key": (
        completed(status=Status.EXPIRED, **NO_RESULT),
        "runs_status_and_money_agree",
    ),
    "a tombstone that keeps its result": (
        completed(status=Status.EXPIRED, idempotency_released_at="2026-01-01T00:00:00Z"),
        "runs_status_and_money_agree",
    ),
    "tokens below zero": (queued(tokens_consumed=-1), "runs_tokens_consumed_check"),
    "no timebox": (queued(timebox_sec=0), "runs_timebox_sec_check"),
    "a timebox over 90 s": (queued(timebox_sec=91), "runs_timebox_sec_check"),
    "a score above 1": (queued(min_reliability_score="1.01"), "runs_min_reliability_score_check"),
    "a score that is no number": (queued(min_reliability_score="NaN"), "runs_min_reliability_score_check"),
    "a short idempotency key": (queued(idempotency_key="1234567"), "runs_idempotency_key_check"),
    "a long idempotency key": (queued(idempotency_key="k" * 65), "runs_idempotency_key_check"),
    "no idempotency key": (queued(idempotency_key=None), "idempotency_key"),
    "a payload hash that is none": (queued(payload_hash="x" * 64), "runs_payload_hash_check"),
    "an unknown pack": (queued(pack_type="other"), "runs_pack_type_check"),
    "an unknown tenant": (queued(tenant_id="nobody"), "runs_tenant_id_fkey"),
    "no retention": (queued(retention_until=None), "retention_until"),
    "a negative version": (queued(version=-1), "runs_version_check"),
}


def _every_row_in(state: State) -> list[dict[str, Any]]:
    """Rows in this state with and without each of all that goes with some state."""
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


def test_exactly_the_states_of_the_machine_are_taken(connection: Connection) -> None:
    """RUN-24, D3: each of the 5 × 5 × 3 combinations, with every choice of what may go with it."""
    taken = {
        state
        for state in map(State, *zip(*product(Status, MoneyState, _STAGES), strict=True))
        if any(refusal(connection, row) is None for row in _every_row_in(state))
    }
    assert taken == MACHINE.states


def test_every_terminal_state_is_settled_or_refunded_and_committed() -> None:
    """RUN-24: in the table itself."""
    for state in MACHINE.states:
        terminal = state.status in TERMINAL
        assert terminal == (state.money in (MoneyState.SETTLED, MoneyState.REFUNDED)), state
        assert terminal == (state in MACHINE.terminal), state
        assert terminal == (state.stage == FinalizeStage.COMMITTED), state


def test_no_way_leads_out_of_an_ended_state_but_to_its_tombstone_nor_out_of_a_dispute_but_by_an_operator() -> (
    None
):
    """RUN-24, D3, D7: an ended run stays ended and keeps its money state; a disputed one waits for a decision."""
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


def test_rows_as_the_code_writes_them_are_taken(connection: Connection) -> None:
    """The refusals below are of one change each to one of these."""
    assert {name: refusal(connection, row) for name, row in _TAKEN.items()} == dict.fromkeys(_TAKEN)


def test_every_wrong_row_is_refused_by_the_constraint_that_names_why(connection: Connection) -> None:
    """RUN-24, RUN-29, D2, D3: a wrong write fails in the database."""
    found = {name: refusal(connection, row) for name, (row, _) in _REFUSED.items()}
    assert found == {name: constraint for name, (_, constraint) in _REFUSED.items()}


def test_an_idempotency_key_is_unique_for_a_tenant_while_not_released(connection: Connection) -> None:
    """D4, RUN-4, RUN-8: a run that ended still holds its key; a released one gives it back, as often as it must."""
    key, released = "the-same-key", {"idempotency_released_at": "2026-01-01T00:00:00Z"}
    rows.add_tenant(connection, "t_other")
    insert(connection, refunded(idempotency_key=key, **released))
    insert(connection, refunded(idempotency_key=key, **released))
    insert(connection, completed(idempotency_key=key))
    assert refusal(connection, queued(idempotency_key=key)) == "runs_idempotency"
    assert refusal(connection, queued(idempotency_key=key, tenant_id="t_other")) is None
    assert refusal(connection, queued(idempotency_key=key.upper())) is None


def test_inputs_are_an_object_and_go_with_their_run(connection: Connection) -> None:
    """D8: apart from the hot row."""
    row = tombstone()
    insert(connection, row)
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute("INSERT INTO run_inputs VALUES (%s, '[]')", (row["run_id"],))
    connection.execute("INSERT INTO run_inputs VALUES (%s, '{}')", (row["run_id"],))
    connection.execute("DELETE FROM runs WHERE run_id = %s", (row["run_id"],))
    assert connection.execute("SELECT count(*) FROM run_inputs").fetchone() == (0,)
