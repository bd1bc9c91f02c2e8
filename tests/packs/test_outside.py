"""Packs run by another function, over the Lambda API as it is on the wire (PLAT-2, RUN-26, D6)."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from dpp.packs.contract import PACK_RESULT, PackFailure, PackReason, PackRequest, PackSuccess, PackType
from dpp.packs.outside import OutsidePacks, RoutedPacks
from dpp.packs.process import PackProcess
from dpp.platform.aws import secrets
from dpp.platform.aws.clients import lambda_client

type Reply = tuple[int, dict[str, str], bytes]

_CONTEXT: Any = SimpleNamespace(
    function_name="packs", memory_limit_in_mb=1024, invoked_function_arn="arn", aws_request_id="id"
)
_SUCCESS = PackSuccess(data={"answer": 42}, reliability_score=1.0, cost_usd_micros=100)


def request(pack_type: PackType = PackType.URL, **inputs: Any) -> PackRequest:
    return PackRequest(run_id="run-1", pack_type=pack_type, inputs=inputs, timebox_sec=5, max_cost_usd_micros=1_000_000)


@dataclass
class LambdaEndpoint:
    """Lambda's Invoke API on loopback; `reply` is the function behind it."""

    reply: Callable[[bytes], Reply] = lambda _: (200, {}, PACK_RESULT.dump_json(_SUCCESS))
    invoked: list[tuple[str, Any]] = field(default_factory=list)


@pytest.fixture
def endpoint(aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[LambdaEndpoint]:
    """A running one, which boto3's Lambda clients talk to."""
    made = LambdaEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.invoked.append((self.path, json.loads(body)))
            status, headers, answer = made.reply(body)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(answer))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(BrokenPipeError):  # the test's client has gone
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # moto answers for every AWS host, and lets through what goes elsewhere by name.
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", f"http://127.0.0.1:{server.server_port}")
    yield made
    server.shutdown()
    server.server_close()


def run(packs: OutsidePacks, job: PackRequest) -> Any:
    return packs.run(job, cancelled=threading.Event())


def test_a_job_goes_out_whole_and_its_result_comes_back(endpoint: LambdaEndpoint) -> None:
    """RUN-26."""
    job = request(urls=["https://example.com"])
    assert run(OutsidePacks("dpp-packs"), job) == _SUCCESS
    ((path, sent),) = endpoint.invoked
    assert path == "/2015-03-31/functions/dpp-packs/invocations"
    assert PackRequest.model_validate(sent) == job


@pytest.mark.parametrize(
    ("reply", "detail"),
    [
        ((200, {"X-Amz-Function-Error": "Unhandled"}, b'{"errorMessage": "hunter2"}'), "the function failed"),
        ((200, {}, b"hunter2"), "answered no pack result"),
        ((200, {}, b""), "answered no pack result"),
        ((429, {"X-Amzn-ErrorType": "TooManyRequestsException"}, b"{}"), "did not start"),
        ((404, {"X-Amzn-ErrorType": "ResourceNotFoundException"}, b"{}"), "did not start"),
    ],
)
def test_whatever_happens_there_is_a_crash_by_name_and_is_asked_for_once(
    endpoint: LambdaEndpoint, reply: Reply, detail: str
) -> None:
    """D6: a second call would be a second job; RUN-31: nothing of the answer gets."""
    endpoint.reply = lambda _: reply
    result = run(OutsidePacks("dpp-packs"), request())
    assert isinstance(result, PackFailure)
    assert result.reason_code is PackReason.PACK_CRASHED
    assert result.detail.startswith(detail)
    assert "hunter2" not in result.detail
    assert len(endpoint.invoked) == 1


def test_a_function_that_never_answers_is_given_up_after_the_timebox(
    endpoint: LambdaEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6: timebox, start and a reply's way; shortened here."""
    held = threading.Event()
    endpoint.reply = lambda _: (held.wait(30) and (200, {}, b"")) or (200, {}, b"")
    waited: list[int] = []

    def impatient(seconds: int) -> Any:
        waited.append(seconds)
        return lambda_client(1)

    result = run(OutsidePacks("dpp-packs", impatient), request())
    held.set()
    assert isinstance(result, PackFailure)
    assert result.reason_code is PackReason.PACK_TIMEBOX_EXCEEDED
    assert waited == [5 + 15 + 2]
    assert len(endpoint.invoked) == 1


def test_a_lost_lease_ends_the_wait_at_once(endpoint: LambdaEndpoint) -> None:
    """RUN-19: the loser writes nothing; what the other function makes of the job is dropped."""
    cancelled, asked, held = threading.Event(), threading.Event(), threading.Event()

    def reply(_: bytes) -> Reply:
        asked.set()
        held.wait(30)
        return 200, {}, PACK_RESULT.dump_json(_SUCCESS)

    endpoint.reply = reply
    results: list[Any] = []
    waiting = threading.Thread(
        target=lambda: results.append(OutsidePacks("dpp-packs").run(request(), cancelled=cancelled))
    )
    waiting.start()
    assert asked.wait(20)
    cancelled.set()
    waiting.join(20)
    held.set()
    assert results == [PackFailure(reason_code=PackReason.PACK_CANCELLED)]


def test_only_the_packs_that_meet_the_internet_go_outside(endpoint: LambdaEndpoint) -> None:
    """PLAT-2: a text that needs nobody stays beside its database."""
    with PackProcess({"PATH": "/usr/bin:/bin"}) as inside:
        packs = RoutedPacks(inside, OutsidePacks("dpp-packs"), model_uses_internet=False)
        packs.prestart()
        assert packs.run(request(), cancelled=threading.Event()) == _SUCCESS
        answered = packs.run(
            request(PackType.DECISION, question="What is it?", context="It is a test."), cancelled=threading.Event()
        )
    assert isinstance(answered, PackSuccess)
    assert answered.data["answer_text"]
    assert len(endpoint.invoked) == 1


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], Reply]]:
    """The function outside, as Lambda calls it."""
    from pack_outside import handler as module
    from pack_outside.handler import wiring

    yield lambda body: (200, {}, json.dumps(module.handler(json.loads(body), _CONTEXT)).encode())
    if wiring.cache_info().currsize:
        wiring().close()
    wiring.cache_clear()


def test_the_function_outside_runs_the_pack_under_the_same_limits(
    endpoint: LambdaEndpoint, handler: Callable[[bytes], Reply], caplog: pytest.LogCaptureFixture
) -> None:
    """RUN-26: refused there as it would be here; RUN-31: of the job, only ids are logged."""
    endpoint.reply = handler
    result = run(OutsidePacks("dpp-packs"), request(urls=["https://169.254.169.254/hunter2"]))
    assert isinstance(result, PackSuccess)
    assert len(result.blocked_log) == 1
    assert "hunter2" not in caplog.text


def test_an_engines_key_is_fetched_by_reference(
    endpoint: LambdaEndpoint, handler: Callable[[bytes], Reply], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-31: the environment of the function holds an ARN; the pack process alone gets the key."""
    made = boto3.client("secretsmanager").create_secret(
        Name="test/engine", SecretString=json.dumps({"api_key": "hunter2"})
    )
    monkeypatch.setenv("DPP_DECISION_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("DPP_DECISION_OPENAI_MODEL", "any")
    monkeypatch.setenv("DPP_DECISION_OPENAI_API_KEY_SECRET_ARN", made["ARN"])
    seen: list[dict[str, str]] = []
    genuine = PackProcess.__init__

    def watched(self: PackProcess, environ: dict[str, str], **options: Any) -> None:
        seen.append(dict(environ))
        genuine(self, environ, **options)

    monkeypatch.setattr(PackProcess, "__init__", watched)
    endpoint.reply = handler
    run(OutsidePacks("dpp-packs"), request(PackType.DECISION, question="What is it?"))
    secrets.shared.cache_clear()
    assert [environ["DPP_DECISION_OPENAI_API_KEY"] for environ in seen] == ["hunter2"]
