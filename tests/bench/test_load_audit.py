"""The audit of `make bench-load` sees what it is there for: each planted fault is told."""

from dataclasses import replace

import pytest

from bench.load.audit import Findings, Kept, Row, audit
from bench.load.fire import Shot
from tests.soak.clients import Account

_TENANT = Account("t_load", "token")
_CHARGE = 50_000


def _row(number: int) -> Row:
    return Row(
        run_id=f"run-{number}",
        tenant_id=_TENANT.tenant_id,
        key=f"key-{number}",
        status="COMPLETED",
        stage="COMMITTED",
        money_state="SETTLED",
        charge_usd_micros=_CHARGE,
        result_key=f"result-{number}",
        sha256=f"digest-{number}",
    )


def _accepted(number: int) -> Shot:
    return Shot(_TENANT, 0.0, f"key-{number}", status=202, run_id=f"run-{number}")


_SHOTS = [_accepted(number) for number in range(3)]
_KEPT = Kept(
    rows=[_row(number) for number in range(3)],
    receipts={f"run-{number}": ("SETTLED", str(_CHARGE)) for number in range(3)},
    digests={f"result-{number}": f"digest-{number}" for number in range(3)},
    spent_usd_micros={_TENANT.tenant_id: 3 * _CHARGE},
)


def _found(kept: Kept, shots: list[Shot] | None = None) -> Findings:
    return audit(_SHOTS if shots is None else shots, kept)


def test_books_that_are_right_are_sound() -> None:
    found = _found(_KEPT)
    assert found.sound
    assert found.outcomes == {"COMPLETED": 3}


def test_a_run_that_was_promised_and_is_missing_is_lost() -> None:
    found = _found(replace(_KEPT, rows=_KEPT.rows[:2], spent_usd_micros={_TENANT.tenant_id: 2 * _CHARGE}))
    assert len(found.lost) == 1
    assert not found.doubled


def test_a_run_that_never_ended_is_lost() -> None:
    stuck = replace(_row(2), status="QUEUED", stage=None, money_state="RESERVED", charge_usd_micros=None)
    found = _found(
        replace(_KEPT, rows=[*_KEPT.rows[:2], stuck], spent_usd_micros={_TENANT.tenant_id: 2 * _CHARGE})
    )
    assert len(found.lost) == 1


def test_a_second_run_of_a_key_is_doubled() -> None:
    again = replace(_row(2), run_id="run-3", result_key="result-3")
    kept = replace(
        _KEPT,
        rows=[*_KEPT.rows, again],
        receipts={**_KEPT.receipts, "run-3": ("SETTLED", str(_CHARGE))},
        digests={**_KEPT.digests, "result-3": "digest-2"},
        spent_usd_micros={_TENANT.tenant_id: 4 * _CHARGE},
    )
    assert len(_found(kept).doubled) == 1


def test_a_charge_that_was_taken_twice_is_doubled() -> None:
    found = _found(replace(_KEPT, spent_usd_micros={_TENANT.tenant_id: 4 * _CHARGE}))
    assert len(found.doubled) == 1


def test_one_micro_too_little_is_lost() -> None:
    found = _found(replace(_KEPT, spent_usd_micros={_TENANT.tenant_id: 3 * _CHARGE - 1}))
    assert len(found.lost) == 1


@pytest.mark.parametrize("receipt", [None, ("SETTLED", "49999"), ("REFUNDED", "0")])
def test_a_receipt_that_says_otherwise_is_wrong(receipt: tuple[str, str] | None) -> None:
    assert len(_found(replace(_KEPT, receipts={**_KEPT.receipts, "run-1": receipt})).wrong) == 1


def test_a_result_that_is_missing_is_lost() -> None:
    digests = {key: digest for key, digest in _KEPT.digests.items() if key != "result-1"}
    assert len(_found(replace(_KEPT, digests=digests)).lost) == 1


def test_a_result_of_another_digest_is_wrong() -> None:
    assert len(_found(replace(_KEPT, digests={**_KEPT.digests, "result-1": "other"})).wrong) == 1


def test_a_refused_submit_that_is_a_run_is_wrong() -> None:
    refused = Shot(_TENANT, 0.0, "key-2", status=429, said="RATE_LIMITED")
    assert len(_found(_KEPT, [*_SHOTS[:2], refused]).wrong) == 1


def test_a_refused_submit_without_a_run_is_as_it_should_be() -> None:
    assert _found(_KEPT, [*_SHOTS, Shot(_TENANT, 0.0, "key-9", status=402, said="BUDGET_DRAINED")]).sound


def test_a_run_that_nobody_ordered_is_wrong() -> None:
    assert len(_found(_KEPT, _SHOTS[:2]).wrong) == 1


def test_a_submit_that_was_never_answered_in_the_end_is_lost() -> None:
    assert len(_found(_KEPT, [*_SHOTS, Shot(_TENANT, 0.0, "key-9", said="ReadTimeout")]).lost) == 1


def test_an_error_that_is_no_problem_document_is_wrong_though_the_repetition_went_well() -> None:
    odd = replace(_accepted(2), odd="502, no problem document: Bad gateway")
    assert len(_found(_KEPT, [*_SHOTS[:2], odd]).wrong) == 1


def test_a_run_that_never_reached_the_queue_leaves_its_key_to_the_next() -> None:
    released = replace(
        _row(7),
        key="key-2",
        status="FAILED",
        money_state="REFUNDED",
        charge_usd_micros=0,
        result_key=None,
        reason="QUEUE_ENQUEUE_FAILED",
        released=True,
    )
    kept = replace(
        _KEPT,
        rows=[*_KEPT.rows, released],
        receipts={**_KEPT.receipts, "run-7": ("REFUNDED", "0")},
    )
    assert _found(kept).sound
