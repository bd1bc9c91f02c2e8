"""The client against the real handlers: what it sends, and what it makes of answers (RUN-1…4, RUN-9…12)."""

import hashlib
import json
import pickle
from decimal import Decimal
from typing import Any

import httpx
import pytest

import dpp_client
from dpp.packs.contract import PackFailure, PackReason, PackSuccess
from dpp.runs.jobs.retain import retain
from tests.client.gateway import URL, Gateway, PassingClock, page
from tests.http.state import work
from tests.support.world import A_COST, Tenant, World

QUESTION = {"question": "What is the answer?"}


def test_a_run_from_submit_to_its_verified_result(
    client: dpp_client.Client, gateway: Gateway, tenant: Tenant, world: World, clock: PassingClock
) -> None:
    """RUN-1, RUN-10: three calls and the result, whose SHA-256 matches the API's; charged once."""
    receipt = client.submit("decision", QUESTION, Decimal("0.25"), trace_id="t_mine")
    assert (receipt.status, receipt.replayed) == ("QUEUED", False)
    assert receipt.reservation.max_cost_usd == Decimal("0.2500")
    assert receipt.meta.trace_id == "t_mine"
    run = client.wait(receipt)
    assert (run.status, run.money_state, run.is_over) == ("COMPLETED", "SETTLED", True)
    assert (run.cost.used_usd, run.cost.budget_remaining_usd) == (Decimal("0.0500"), Decimal("9.9500"))
    assert run.tokens_consumed == 7
    result = client.result(run)
    assert result.data["answer_text"] == "42"
    assert hashlib.sha256(result.raw).hexdigest() == result.sha256
    assert clock.slept == []
    assert world.position(tenant).balanced


def test_what_is_left_out_is_not_sent_and_the_rest_is_sent_as_given(
    client: dpp_client.Client, gateway: Gateway
) -> None:
    """RUN-3: the API's defaults stay the API's."""
    client.submit("decision", QUESTION, "0.2500")
    client.submit(
        "decision",
        QUESTION | {"context": "환불은 30일 이내"},
        "1",
        timebox_sec=20,
        min_reliability_score=0.5,
        inline=True,
        idempotency_key="an-order-of-mine",
    )
    first, second = (json.loads(request.content) for request in gateway.sent("POST"))
    assert first == {"pack_type": "decision", "inputs": QUESTION, "reservation": {"max_cost_usd": "0.2500"}}
    assert second["reservation"] == {"max_cost_usd": "1", "timebox_sec": 20, "min_reliability_score": 0.5}
    assert second["options"] == {"inline": 1}
    assert gateway.sent("POST")[1].headers["Idempotency-Key"] == "an-order-of-mine"


def test_each_submit_is_another_run_and_the_same_key_the_same_run(client: dpp_client.Client) -> None:
    """RUN-4."""
    first, other = (client.submit("decision", QUESTION, "0.25") for _ in range(2))
    assert first.run_id != other.run_id
    again = client.submit("decision", QUESTION, "0.25", idempotency_key=first.idempotency_key)
    assert (again.run_id, again.replayed) == (first.run_id, True)
    with pytest.raises(dpp_client.Conflict) as conflict:
        client.submit("decision", QUESTION, "0.26", idempotency_key=first.idempotency_key)
    assert (conflict.value.status, conflict.value.reason_code) == (409, "IDEMPOTENCY_CONFLICT")
    assert conflict.value.idempotency_key == first.idempotency_key
    assert not conflict.value.temporary


def test_a_empty_budget_says_what_is_left(world: World, gateway: Gateway) -> None:
    """RUN-9, RUN-13."""
    poor = world.tenant(credit_usd_micros=100_000)
    client = dpp_client.Client(URL, poor.token, transport=gateway.transport)
    with client, pytest.raises(dpp_client.InsufficientBudget) as empty:
        client.submit("decision", QUESTION, "0.25")
    assert (empty.value.status, empty.value.budget_remaining_usd) == (402, Decimal("0.1000"))
    assert empty.value.title == "The budget doesn't cover the run"
    assert empty.value.trace_id
    assert str(empty.value).startswith("402 BUDGET_DRAINED: ")
    assert len(gateway.requests) == 1


def test_a_body_that_does_not_fit_names_each_place(client: dpp_client.Client) -> None:
    """RUN-9."""
    with pytest.raises(dpp_client.ValidationFailed) as failed:
        client.submit("decision", {"question": ""}, "0.25", timebox_sec=91)
    assert [fault.pointer for fault in failed.value.fields] == ["/reservation/timebox_sec"]
    with pytest.raises(dpp_client.ValidationFailed) as failed:
        client.submit("decision", {"question": "", "mode": "loud"}, "0.25")
    assert dpp_client.Fault("/inputs/mode", "Input should be 'brief' or 'full'") in failed.value.fields
    with pytest.raises(dpp_client.ValidationFailed):
        client.submit("no-such-pack", {}, "0.25")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"max_cost_usd": 0.25}, TypeError),
        ({"max_cost_usd": Decimal("0.00001")}, ValueError),
        ({"max_cost_usd": "-1"}, ValueError),
        ({"idempotency_key": "short"}, ValueError),
        ({"idempotency_key": "with\r\nHeader: of another"}, ValueError),
        ({"inputs": {"question": float("nan")}}, ValueError),
        ({"inputs": {"question": "\ud800"}}, ValueError),
        ({"inputs": {"question": object()}}, TypeError),
    ],
)
def test_what_can_not_be_meant_is_not_sent(
    client: dpp_client.Client, gateway: Gateway, wrong: dict[str, Any], error: type[Exception]
) -> None:
    """RUN-23: an amount that is no exact one first of all."""
    values: dict[str, Any] = {"pack": "decision", "inputs": QUESTION, "max_cost_usd": "0.25"} | wrong
    with pytest.raises(error):
        client.submit(**values)
    assert gateway.requests == []


@pytest.mark.parametrize("run_id", ["", "..", "../v1/other", "a/b", "a?b", "a#b", "a\nb", "가"])
def test_an_id_that_leads_elsewhere_is_not_asked_for(client: dpp_client.Client, gateway: Gateway, run_id: str) -> None:
    with pytest.raises(ValueError, match="no run's id"):
        client.get(run_id)
    assert gateway.requests == []


def test_a_foreign_run_is_no_run(client: dpp_client.Client, world: World, gateway: Gateway) -> None:
    """RUN-11."""
    receipt = client.submit("decision", QUESTION, "0.25")
    other = dpp_client.Client(URL, world.tenant().token, transport=gateway.transport)
    with other, pytest.raises(dpp_client.RunNotFound) as missing:
        other.get(receipt.run_id)
    assert missing.value.status == 404
    with pytest.raises(dpp_client.RunNotFound):
        client.wait("00000000-0000-4000-8000-000000000000")


def test_a_run_past_its_retention_is_expired(client: dpp_client.Client, world: World) -> None:
    """RUN-12."""
    receipt = client.submit("decision", QUESTION, "0.25")
    work(world)
    retain(world.database, world.new_database(), world.later(days=31))
    with pytest.raises(dpp_client.RunExpired) as expired:
        client.get(receipt.run_id)
    assert (expired.value.status, expired.value.run_id) == (410, receipt.run_id)


def test_a_key_that_is_none_is_refused_at_once(gateway: Gateway) -> None:
    """RUN-9: 401 is no reason to try again."""
    client = dpp_client.Client(URL, "dpp_nobody", transport=gateway.transport)
    with client, pytest.raises(dpp_client.Unauthorized) as refused:
        client.submit("decision", QUESTION, "0.25")
    assert (refused.value.status, refused.value.reason_code) == (401, "AUTH_INVALID")
    assert len(gateway.requests) == 1


def test_a_failed_run_is_an_answer_and_has_no_result(client: dpp_client.Client, gateway: Gateway, world: World) -> None:
    """RUN-17: the minimum fee; `wait` gives it back, `result` raises why it failed."""
    gateway.works = False
    receipt = client.submit("decision", QUESTION, "0.25")
    work(world, PackFailure(reason_code=PackReason.PACK_FAILED, detail="It broke."))
    run = client.wait(receipt)
    assert (run.status, run.cost.used_usd) == ("FAILED", Decimal("0.0050"))
    with pytest.raises(dpp_client.RunFailed, match=r"PACK_FAILED: It broke\.") as failed:
        client.result(run)
    assert (failed.value.reason_code, failed.value.run_id) == ("PACK_FAILED", receipt.run_id)


def test_a_run_that_is_not_over_has_no_result_yet(client: dpp_client.Client, gateway: Gateway) -> None:
    gateway.works = False
    run = client.get(client.submit("decision", QUESTION, "0.25").run_id)
    assert not run.is_over
    with pytest.raises(dpp_client.NoResult, match="QUEUED, RESERVED"):
        client.result(run)


@pytest.mark.parametrize(
    "data",
    [
        {"answer_text": "42", "nothing": None},
        {"answer_text": "환불 \u2028 \u0000 \U0001f600", "numbers": [1e16, 1e-7, -0.0, 2**60, 0.1 + 0.2, 1e22]},
    ],
)
def test_an_inline_result_is_verified_without_another_request(
    client: dpp_client.Client, gateway: Gateway, world: World, data: dict[str, Any]
) -> None:
    """RUN-3, RUN-10: what stands in the answer is written again as it is stored, and has its SHA-256."""
    gateway.works = False
    receipt = client.submit("decision", QUESTION, "0.25", inline=True)
    work(world, PackSuccess(data=data, reliability_score=0.85, cost_usd_micros=A_COST))
    run = client.wait(receipt)
    assert run.result is not None
    assert run.result.inline is not None
    result = client.result(run)
    assert result.data == data
    assert gateway.storage_requests == []
    elsewhere = run.model_copy(update={"result": run.result.model_copy(update={"inline": None})})
    assert client.result(elsewhere) == result
    assert len(gateway.storage_requests) == 1


@pytest.mark.parametrize("inline", [False, True])
def test_the_parts_of_a_large_result_are_fetched_verified_and_put_in_their_places(
    client: dpp_client.Client, gateway: Gateway, world: World, inline: bool
) -> None:
    """RUN-18: `raw` stays what is stored."""
    gateway.works = False
    receipt = client.submit("decision", QUESTION, "0.25", inline=inline)
    data = {"words": ["글"] * 300_000, "pages": 1}
    large = {"docx": "x" * 1_100_000}
    work(world, PackSuccess(data=data, artifacts=large, reliability_score=0.9, cost_usd_micros=A_COST))
    run = client.wait(receipt)
    result = client.result(run)
    assert (result.data, result.envelope["artifacts"]) == (data, large)
    assert hashlib.sha256(result.raw).hexdigest() == result.sha256
    assert run.result is not None
    [part, _] = run.result.parts
    spoilt = part.model_copy(update={"sha256": "0" * 64})
    changed = run.model_copy(update={"result": run.result.model_copy(update={"parts": [spoilt]})})
    with pytest.raises(dpp_client.ResultMismatch, match="do not use it"):
        client.result(changed)


def test_the_findings_of_a_failed_run_are_fetched_on_request(
    client: dpp_client.Client, gateway: Gateway, world: World
) -> None:
    """RUN-17, RUN-18: beside the problem."""
    gateway.works = False
    receipt = client.submit("decision", QUESTION, "0.25", min_reliability_score=1)
    work(world, PackSuccess(data={"answer_text": "42"}, reliability_score=0.9, cost_usd_micros=A_COST))
    run = client.wait(receipt)
    with pytest.raises(dpp_client.RunFailed):
        client.result(run)
    found = client.result(run, failed=True).data
    assert found["answer_text"] == "42"
    assert found["problem"]["reason_code"] == "PACK_RELIABILITY_BELOW_MINIMUM"


def test_an_inline_result_that_was_changed_is_not_believed(client: dpp_client.Client, gateway: Gateway) -> None:
    """RUN-10: the stored one is fetched in its place."""
    run = client.wait(client.submit("decision", QUESTION, "0.25", inline=True))
    assert run.result is not None
    lie = {**(run.result.inline or {}), "data": {"answer_text": "43"}}
    changed = run.model_copy(update={"result": run.result.model_copy(update={"inline": lie})})
    assert client.result(changed).data["answer_text"] == "42"
    assert len(gateway.storage_requests) == 1


def test_what_a_newer_platform_says_besides_is_passed_over(client: dpp_client.Client, gateway: Gateway) -> None:
    """Unknown members are ignored; a status and a reason that are not known stay as they are, and are no end."""
    receipt = client.submit("decision", QUESTION, "0.25")

    def newer(request: httpx.Request, answers: Any) -> httpx.Response:
        document = answers(request).json()
        document |= {"status": "PAUSED", "money_state": "ESCROWED", "weather": {"is": "fine"}}
        document["cost"]["tax_usd"] = "0.0000"
        return httpx.Response(200, json=document)

    gateway.faults.append(newer)
    run = client.get(receipt.run_id)
    assert (run.status, run.money_state, run.is_over) == ("PAUSED", "ESCROWED", False)
    assert client.wait(run.run_id).status == "COMPLETED"


def test_an_answer_of_something_else_is_answered_apart(client: dpp_client.Client, gateway: Gateway) -> None:
    """A wrong URL: no loop, no guess, and nothing of the page in the message."""
    gateway.faults.extend([page(200), page(404), page(302, Location="https://elsewhere.test/")])
    for _ in range(3):
        with pytest.raises(dpp_client.UnexpectedAnswer) as unexpected:
            client.submit("decision", QUESTION, "0.25")
        assert "html" not in str(unexpected.value)
    gateway.faults.append(lambda request, answers: httpx.Response(202, json={"run_id": 7}))
    with pytest.raises(dpp_client.UnexpectedAnswer, match="no Receipt: see run_id"):
        client.submit("decision", QUESTION, "0.25")
    assert len(gateway.requests) == 4


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.test",
        "ftp://api.test",
        "https://",
        "https://user:word@api.test",
        "https://api.test/?a=b",
        "https://a:b:c",
    ],
)
def test_a_url_that_can_be_no_api_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        dpp_client.Client(url, "dpp_key")


def test_errors_survive_a_process_boundary() -> None:
    """A pool's worker raises them, too."""
    error = dpp_client.InsufficientBudget("Nothing left.", status=402, reason_code="BUDGET_DRAINED", trace_id="t")
    error.budget_remaining_usd = Decimal("0.1")
    again: dpp_client.DppError = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    assert isinstance(again, dpp_client.InsufficientBudget)
    assert (str(again), again.status, again.budget_remaining_usd) == (str(error), 402, Decimal("0.1"))
