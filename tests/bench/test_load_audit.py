"""The audit of `make bench-load` reports each planted violation."""

from dataclasses import replace

import pytest

from bench.load.audit import Findings, Row, Stored, audit
from bench.load.generator import Request
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


def _accepted(number: int) -> Request:
    return Request(_TENANT, 0.0, f"key-{number}", status=202, run_id=f"run-{number}")


def _spent(usd_micros: int) -> dict[str, int]:
    return {_TENANT.tenant_id: usd_micros}


_REQUESTS = [_accepted(number) for number in range(3)]
_STORED = Stored(
    rows=[_row(number) for number in range(3)],
    receipts={f"run-{number}": ("SETTLED", str(_CHARGE)) for number in range(3)},
    digests={f"result-{number}": f"digest-{number}" for number in range(3)},
    spent_usd_micros=_spent(3 * _CHARGE),
)


def _found(stored: Stored, requests: list[Request] | None = None) -> Findings:
    return audit(_REQUESTS if requests is None else requests, stored)


def test_correct_data_has_no_findings() -> None:
    found = _found(_STORED)
    assert found.is_sound
    assert found.outcomes == {"COMPLETED": 3}


def test_promised_run_that_is_missing_is_lost() -> None:
    found = _found(replace(_STORED, rows=_STORED.rows[:2], spent_usd_micros=_spent(2 * _CHARGE)))
    assert len(found.lost) == 1
    assert not found.doubled


def test_run_that_never_ended_is_lost() -> None:
    stuck = replace(_row(2), status="QUEUED", stage=None, money_state="RESERVED", charge_usd_micros=None)
    found = _found(replace(_STORED, rows=[*_STORED.rows[:2], stuck], spent_usd_micros=_spent(2 * _CHARGE)))
    assert len(found.lost) == 1


def test_second_run_of_a_key_is_doubled() -> None:
    again = replace(_row(2), run_id="run-3", result_key="result-3")
    stored = replace(
        _STORED,
        rows=[*_STORED.rows, again],
        receipts={**_STORED.receipts, "run-3": ("SETTLED", str(_CHARGE))},
        digests={**_STORED.digests, "result-3": "digest-2"},
        spent_usd_micros=_spent(4 * _CHARGE),
    )
    assert len(_found(stored).doubled) == 1


def test_double_charge_is_doubled() -> None:
    found = _found(replace(_STORED, spent_usd_micros=_spent(4 * _CHARGE)))
    assert len(found.doubled) == 1


def test_one_micro_too_little_is_lost() -> None:
    found = _found(replace(_STORED, spent_usd_micros=_spent(3 * _CHARGE - 1)))
    assert len(found.lost) == 1


@pytest.mark.parametrize("receipt", [None, ("SETTLED", "49999"), ("REFUNDED", "0")])
def test_receipt_that_differs_from_the_row_is_wrong(receipt: tuple[str, str] | None) -> None:
    assert len(_found(replace(_STORED, receipts={**_STORED.receipts, "run-1": receipt})).wrong) == 1


def test_missing_result_is_lost() -> None:
    digests = {key: digest for key, digest in _STORED.digests.items() if key != "result-1"}
    assert len(_found(replace(_STORED, digests=digests)).lost) == 1


def test_result_with_another_digest_is_wrong() -> None:
    assert len(_found(replace(_STORED, digests={**_STORED.digests, "result-1": "other"})).wrong) == 1


def test_refused_submit_that_is_a_run_is_wrong() -> None:
    refused = Request(_TENANT, 0.0, "key-2", status=429, reason="RATE_LIMITED")
    assert len(_found(_STORED, [*_REQUESTS[:2], refused]).wrong) == 1


def test_refused_submit_without_a_run_is_correct() -> None:
    refused = Request(_TENANT, 0.0, "key-9", status=402, reason="BUDGET_DRAINED")
    assert _found(_STORED, [*_REQUESTS, refused]).is_sound


def test_run_without_a_request_is_wrong() -> None:
    assert len(_found(_STORED, _REQUESTS[:2]).wrong) == 1


def test_submit_without_a_final_answer_is_lost() -> None:
    unanswered = Request(_TENANT, 0.0, "key-9", reason="ReadTimeout")
    assert len(_found(_STORED, [*_REQUESTS, unanswered]).lost) == 1


def test_error_without_problem_document_is_wrong_although_the_repetition_succeeded() -> None:
    unexpected = replace(_accepted(2), unexpected="502, no problem document: Bad gateway")
    assert len(_found(_STORED, [*_REQUESTS[:2], unexpected]).wrong) == 1


def test_run_that_never_reached_the_queue_frees_its_key() -> None:
    released = replace(
        _row(7),
        key="key-2",
        status="FAILED",
        money_state="REFUNDED",
        charge_usd_micros=0,
        result_key=None,
        reason="QUEUE_ENQUEUE_FAILED",
        is_released=True,
    )
    receipts = {**_STORED.receipts, "run-7": ("REFUNDED", "0")}
    assert _found(replace(_STORED, rows=[*_STORED.rows, released], receipts=receipts)).is_sound
