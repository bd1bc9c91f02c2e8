"""The client when the way to the platform is bad: what it does again, for how long, and what it never does (RUN-4)."""

import json
import logging
import ssl
import traceback
from collections.abc import Callable

import httpx
import pytest

import dpp_client
from tests.client.gateway import URL, Fault, Gateway, PassingClock, lost_reply, not_reached, page, problem
from tests.support.world import Tenant, World

QUESTION = {"question": "What is the answer?"}


def _submit(client: dpp_client.Client) -> str:
    return client.submit("decision", QUESTION, "0.25").run_id


def _open_reservations(world: World, tenant: Tenant) -> int:
    return world.position(tenant).open_reservations_usd_micros


def test_a_lost_reply_is_one_run(client: dpp_client.Client, gateway: Gateway, world: World, tenant: Tenant) -> None:
    """RUN-4: the request took effect and its answer was lost; sent again with the same key, it is the same run."""
    gateway.faults.extend([lost_reply, lost_reply, None])
    receipt = client.submit("decision", QUESTION, "0.25")
    keys = {request.headers["Idempotency-Key"] for request in gateway.requests}
    assert (len(gateway.requests), keys) == (3, {receipt.idempotency_key})
    assert len({request.content for request in gateway.requests}) == 1
    assert receipt.replayed
    assert _open_reservations(world, tenant) == 250_000


@pytest.mark.parametrize(
    "fault",
    [
        not_reached,
        page(502),
        page(503),
        page(504),
        problem(500, "INTERNAL_ERROR"),
        problem(503, "DEPENDENCY_UNAVAILABLE"),
        problem(503, "QUEUE_ENQUEUE_FAILED", headers={"Retry-After": "1"}),
        problem(409, "IDEMPOTENCY_IN_PROGRESS", headers={"Retry-After": "1"}),
        problem(429, "RATE_LIMITED", headers={"Retry-After": "30"}),
    ],
)
def test_what_passes_is_tried_again_with_the_same_key(
    client: dpp_client.Client, gateway: Gateway, world: World, tenant: Tenant, fault: Fault
) -> None:
    """RUN-9, docs/problems.md: all that says "repeat with the same key"."""
    gateway.faults.append(fault)
    _submit(client)
    first, second = gateway.requests
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]
    assert _open_reservations(world, tenant) == 250_000


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (400, "MALFORMED_REQUEST"),
        (401, "AUTH_INVALID"),
        (402, "BUDGET_DRAINED"),
        (403, "REQUEST_REFUSED"),
        (404, "NOT_FOUND"),
        (405, "METHOD_NOT_ALLOWED"),
        (409, "IDEMPOTENCY_CONFLICT"),
        (413, "PAYLOAD_TOO_LARGE"),
        (422, "VALIDATION_FAILED"),
        (418, "SOMETHING_NEW"),
    ],
)
def test_a_refusal_is_not_tried_again(client: dpp_client.Client, gateway: Gateway, status: int, reason: str) -> None:
    """RUN-9; not with a Retry-After either."""
    gateway.faults.append(problem(status, reason, headers={"Retry-After": "1"}, trace_id="t_1", run_id="r_1"))
    with pytest.raises(dpp_client.DppError) as refused:
        _submit(client)
    error = refused.value
    assert (error.status, error.reason_code, error.title, error.detail) == (status, reason, "T", "D")
    assert (error.trace_id, error.run_id, error.retry_after) == ("t_1", "r_1", 1.0)
    assert len(gateway.requests) == 1


def test_retry_after_is_waited_for_with_a_little_more(
    client: dpp_client.Client, gateway: Gateway, clock: PassingClock
) -> None:
    """RUN-14: 30 s as the API says, and jitter, so that clients don't come back as one."""
    gateway.faults.append(problem(429, "RATE_LIMITED", headers={"Retry-After": "30"}))
    _submit(client)
    assert clock.slept == [30.125]


def test_a_real_rate_limit_is_waited_for(world: World, gateway: Gateway, clock: PassingClock) -> None:
    """RUN-14: the handlers' own 429; where the clock doesn't run for them, too, it is the error in the end."""
    slow = world.tenant(rate_limit_per_minute=1)
    with dpp_client.Client(URL, slow.token, transport=gateway.transport, clock=clock) as client:
        _submit(client)
        with pytest.raises(dpp_client.RateLimited) as limited:
            _submit(client)
    assert (limited.value.status, limited.value.retry_after) == (429, 30.0)
    assert clock.slept == [30.125]


def test_backoff_doubles_up_to_its_longest_and_ends_with_its_time(gateway: Gateway, tenant: Tenant) -> None:
    """No try begins after `retry_seconds`; the error then has the key to go on with."""
    clock = PassingClock(jitter=1.0)
    answered: list[tuple[str, float]] = []
    gateway.faults.extend([not_reached] * 20)
    with dpp_client.Client(
        URL,
        tenant.token,
        transport=gateway.transport,
        clock=clock,
        on_retry=lambda error, pause: answered.append((type(error).__name__, pause)),
    ) as client:
        with pytest.raises(dpp_client.NotReached, match=r"No answer from api.test: .*refused") as away:
            _submit(client)
        assert clock.slept == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0]
        assert answered == [("NotReached", pause) for pause in clock.slept]
        assert away.value.status is None
        key = away.value.idempotency_key
        assert key is not None
        gateway.faults.clear()
        assert client.submit("decision", QUESTION, "0.25", idempotency_key=key).idempotency_key == key


def test_no_retry_seconds_are_one_try(gateway: Gateway, tenant: Tenant) -> None:
    gateway.faults.append(page(502))
    client = dpp_client.Client(URL, tenant.token, transport=gateway.transport, retry_seconds=0)
    with client, pytest.raises(dpp_client.Unavailable, match=r"^502: The platform"):
        _submit(client)
    assert len(gateway.requests) == 1


def test_a_pause_that_is_longer_than_the_time_left_is_not_begun(
    client: dpp_client.Client, gateway: Gateway, clock: PassingClock
) -> None:
    """TIX-1: execution is disabled for a minute at least; who calls decides whether to wait for it."""
    gateway.faults.append(problem(503, "EXECUTION_DISABLED", headers={"Retry-After": "60"}))
    with pytest.raises(dpp_client.ExecutionDisabled) as disabled:
        _submit(client)
    assert (disabled.value.retry_after, disabled.value.temporary, clock.slept) == (60.0, True, [])


def test_a_certificate_that_is_none_is_not_tried_again(client: dpp_client.Client, gateway: Gateway) -> None:
    def untrusted(request: httpx.Request, answers: object) -> httpx.Response:
        try:
            raise ssl.SSLCertVerificationError("certificate verify failed")
        except ssl.SSLError as error:
            raise httpx.ConnectError("certificate verify failed") from error

    gateway.faults.append(untrusted)
    with pytest.raises(dpp_client.NotReached, match="certificate"):
        _submit(client)
    assert len(gateway.requests) == 1


def test_a_wait_asks_at_the_interval_that_the_receipt_recommends(
    client: dpp_client.Client, gateway: Gateway, clock: PassingClock
) -> None:
    """RUN-10: 1.5 s as the API says today, another if it says another; the looks are answered."""
    gateway.works = False
    receipt = client.submit("decision", QUESTION, "0.25")
    looks: list[str] = []

    def look(run: object) -> None:
        looks.append(type(run).__name__)
        gateway.works = len(looks) == 3

    assert client.wait(receipt, on_look=look).status == "COMPLETED"
    assert clock.slept == [1.5] * 3
    assert looks == ["Run"] * 4
    slower = receipt.poll.model_copy(update={"recommended_interval_ms": 4_000})
    second = client.submit("decision", QUESTION, "0.25").model_copy(update={"poll": slower})
    gateway.works, looks[:], clock.slept[:] = False, [], []
    client.wait(second, on_look=look)
    assert clock.slept == [4.0] * 3


@pytest.mark.parametrize("timeout", [0.0, 4.0])
def test_a_wait_ends_with_its_time_and_the_run_goes_on(
    client: dpp_client.Client, gateway: Gateway, clock: PassingClock, timeout: float
) -> None:
    """The last look is at the end, and the error has it."""
    gateway.works = False
    receipt = client.submit("decision", QUESTION, "0.25")
    with pytest.raises(dpp_client.WaitTimedOut, match="is QUEUED") as late:
        client.wait(receipt, timeout=timeout)
    assert clock.at == timeout
    assert late.value.run is not None
    assert (late.value.run.status, late.value.run_id) == ("QUEUED", receipt.run_id)
    gateway.works = True
    assert client.wait(receipt.run_id).is_over


def test_a_wait_bears_what_passes_and_honours_retry_after(
    client: dpp_client.Client, gateway: Gateway, clock: PassingClock
) -> None:
    """RUN-14: an outage longer than a call is tried for, and a 429, are no end of a wait."""
    receipt = client.submit("decision", QUESTION, "0.25")
    limited = problem(429, "RATE_LIMITED", headers={"Retry-After": "90"})
    gateway.faults.extend([*[not_reached] * 40, limited])
    assert client.wait(receipt).status == "COMPLETED"
    assert clock.slept[-1] == pytest.approx(94.0)
    assert clock.at > 150


def test_a_wait_through_an_outage_ends_with_its_time(
    client: dpp_client.Client, gateway: Gateway, clock: PassingClock
) -> None:
    receipt = client.submit("decision", QUESTION, "0.25")
    gateway.faults.extend([not_reached] * 40)
    with pytest.raises(dpp_client.WaitTimedOut, match="was not reached") as late:
        client.wait(receipt, timeout=20)
    assert late.value.run is None
    assert isinstance(late.value.__cause__, dpp_client.NotReached)
    assert clock.at <= 20


def test_a_call_of_a_wait_takes_no_longer_than_the_wait(client: dpp_client.Client, gateway: Gateway) -> None:
    """A server that holds the line is left when the time is up, give or take a second."""
    gateway.works = False
    with pytest.raises(dpp_client.WaitTimedOut):
        client.wait(client.submit("decision", QUESTION, "0.25"), timeout=4)
    patience = [request.extensions["timeout"]["read"] for request in gateway.requests]
    assert patience == [30.0, 4.0, 2.5, 1.0, 1.0]


def test_a_proxy_of_the_environment_is_no_way_to_this_machine(
    gateway: Gateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local stack is reached where a company's proxy is set, too."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with gateway.served() as url, dpp_client.Client(url, tenant.token, retry_seconds=0) as client:
        run = client.wait(client.submit("decision", QUESTION, "0.25"))
        assert client.result(run).data["answer_text"] == "42"


def test_a_wait_ends_at_once_where_a_refusal_lasts(client: dpp_client.Client, gateway: Gateway) -> None:
    receipt = client.submit("decision", QUESTION, "0.25")
    gateway.faults.append(problem(410, "RUN_EXPIRED"))
    with pytest.raises(dpp_client.RunExpired):
        client.wait(receipt)


def test_a_result_that_was_tampered_with_is_not_given_out(client: dpp_client.Client, gateway: Gateway) -> None:
    """RUN-10, RUN-18: one byte differs from the content with the announced SHA-256."""
    run = client.wait(client.submit("decision", QUESTION, "0.25"))

    def tampered(request: httpx.Request, answers: Callable[[httpx.Request], httpx.Response]) -> httpx.Response:
        return httpx.Response(200, content=answers(request).content.replace(b'"42"', b'"43"'))

    gateway.faults.append(tampered)
    with pytest.raises(dpp_client.ResultMismatch, match="do not use it") as mismatch:
        client.result(run)
    assert mismatch.value.run_id == run.run_id
    assert client.result(run).data["answer_text"] == "42"


@pytest.mark.parametrize("status", [400, 403])
def test_a_url_that_has_expired_is_asked_for_anew_once(
    client: dpp_client.Client, gateway: Gateway, status: int
) -> None:
    """RUN-10: ten minutes are over (403), or the session that signed it is (400): one GET more, then the result."""
    run = client.wait(client.submit("decision", QUESTION, "0.25"))
    looks = len(gateway.sent("GET"))
    gateway.faults.append(page(status))
    assert client.result(run).data["answer_text"] == "42"
    assert len(gateway.sent("GET")) == looks + 1
    gateway.faults.extend([page(status), None, page(status)])
    with pytest.raises(dpp_client.ResultUnavailable, match=f"HTTP {status}"):
        client.result(run)
    assert len(gateway.sent("GET")) == looks + 2


def test_a_storage_that_is_away_for_a_moment_is_tried_again(client: dpp_client.Client, gateway: Gateway) -> None:
    run = client.wait(client.submit("decision", QUESTION, "0.25"))
    gateway.faults.extend([page(503), not_reached])
    assert client.result(run).data["answer_text"] == "42"
    assert len(gateway.storage_requests) == 3


def test_the_storage_learns_nothing_of_the_key_and_no_redirect_is_followed(
    client: dpp_client.Client, gateway: Gateway, tenant: Tenant
) -> None:
    """RUN-10: a presigned URL needs no key; its host gets neither that nor a way to send us elsewhere."""
    run = client.wait(client.submit("decision", QUESTION, "0.25"))
    redirect = page(307, Location="https://elsewhere.test/")
    gateway.faults.extend([redirect, None, redirect])
    with pytest.raises(dpp_client.ResultUnavailable):
        client.result(run)
    assert {request.url.host for request in gateway.storage_requests}.isdisjoint({"api.test", "elsewhere.test"})
    for request in gateway.storage_requests:
        assert "authorization" not in request.headers
        assert tenant.token not in str(request.headers.raw) + request.url.query.decode()
        assert request.headers["Accept-Encoding"] == "identity"
    for request in gateway.sent("POST"):
        assert request.headers["Authorization"] == f"Bearer {tenant.token}"


def test_the_key_and_the_signature_stand_in_no_text(
    client: dpp_client.Client, gateway: Gateway, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """RUN-31: logs at DEBUG, reprs and tracebacks, also where a proxy's page repeats the request."""

    def echo(request: httpx.Request, answers: object) -> httpx.Response:
        return httpx.Response(400, json={"reason_code": "ECHO", "detail": str(dict(request.headers))})

    caplog.set_level(logging.DEBUG, "httpx")
    run = client.wait(client.submit("decision", QUESTION, "0.25"))
    client.result(run)
    texts = [repr(client), str(vars(client)), repr(run), repr(client.result(run))]
    for fault in (echo, problem(401, "AUTH_INVALID"), *[not_reached] * 200):
        gateway.faults.append(fault)
    for _ in range(3):
        with pytest.raises(dpp_client.DppError) as caught:
            _submit(client)
        texts += [*traceback.format_exception(caught.value), repr(caught.value), str(vars(caught.value))]
    with pytest.raises(dpp_client.NotReached) as lost:
        client.result(run)
    cause = lost.value.__cause__
    assert isinstance(cause, httpx.TransportError)
    texts += [*traceback.format_exception(lost.value), repr(cause.request), repr(cause.request.url)]
    ours = [one.getMessage() for one in caplog.records if one.name.startswith(("httpx", "httpcore", "dpp_client"))]
    assert ours
    everything = "\n".join([*texts, *ours])
    assert "Bearer [api key]" in everything
    assert tenant.token not in everything
    assert tenant.token.rpartition("_")[2] not in everything
    assert "X-Amz-Signature" not in everything


@pytest.mark.parametrize("key", ["", "dpp key", "dpp_key\n", "dpp_key\r\nX: y", "dpp_kéy", "dpp_key\x00"])
def test_a_key_that_no_header_holds_is_refused_without_a_word_of_it(key: str) -> None:
    with pytest.raises(ValueError, match="visible ASCII") as refused:
        dpp_client.Client(URL, key)
    assert "dpp" not in str(refused.value)


def test_a_problem_that_lies_about_its_types_is_still_an_error(client: dpp_client.Client, gateway: Gateway) -> None:
    """A broken proxy is no reason for a TypeError."""
    nonsense = {"reason_code": ["RATE_LIMITED"], "detail": 7, "title": {}, "trace_id": None, "errors": "x"}
    gateway.faults.extend(
        [
            lambda request, answers: httpx.Response(422, json=nonsense),
            lambda request, answers: httpx.Response(409, json=nonsense | {"reason_code": "VALIDATION_FAILED"}),
            lambda request, answers: httpx.Response(422, text="[" * 100_000),
            lambda request, answers: httpx.Response(409, text=json.dumps([1])),
        ]
    )
    for _ in range(4):
        with pytest.raises(dpp_client.DppError) as error:
            _submit(client)
        assert error.value.trace_id is None
        assert not isinstance(error.value, dpp_client.Conflict)
