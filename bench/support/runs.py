"""Runs as the benches submit and execute them: the same inputs, result and amounts for every side."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from bench.support.servers import REQUESTS_PER_MINUTE, TENANT
from dpp.packs.contract import PackRequest, PackResult, PackSuccess, PackType
from dpp.runs.model import SubmitRequest

CHARGE_USD_MICROS = 50_000
RESERVED_USD_MICROS = 250_000
RESULT: dict[str, Any] = {
    "answer_text": "Two monthly rents, and a third where the lease ends early. " * 8,
    "confidence": 0.9,
    "sources": [{"title": f"Lease, clause {number}", "quote": "due with notice"} for number in range(5)],
}
"""Some 750 bytes."""


def inputs_of(name: str) -> dict[str, Any]:
    """The inputs of the run with this name; some 460 bytes."""
    return {"question": f"What does moving cost, {name}?", "context": "Two monthly rents. " * 20}


def no_op(inputs: dict[str, Any]) -> dict[str, Any]:
    """The work of a run."""
    assert inputs["question"]
    return RESULT


def submit_request(name: str) -> SubmitRequest:
    """A submit with this idempotency key."""
    return SubmitRequest(
        tenant_id=TENANT,
        rate_limit_per_minute=REQUESTS_PER_MINUTE,
        idempotency_key=name,
        pack_type=PackType.DECISION,
        inputs=inputs_of(name),
        reserved_usd_micros=RESERVED_USD_MICROS,
        timebox_sec=90,
        min_reliability_score=0.8,
        inline_result=False,
        profile_version="PROFILE_DPP_0_4_2_2",
        trace_id="t_bench",
    )


class Requests:
    """Requests of one API key, as API Gateway passes them to the handlers of runs_submit and runs_read.

    Its constructor imports the handlers, so the environment must be set before. It submits one run.
    """

    def __init__(self, token: str) -> None:
        from runs_read.handler import handler as read  # noqa: PLC0415
        from runs_submit.handler import handler as submit  # noqa: PLC0415
        from tests.support.api import a_body, gateway_event, lambda_context  # noqa: PLC0415

        self._submit, self._read, self._event, self._context = submit, read, gateway_event, lambda_context()
        self._authorization = {"Authorization": [f"Bearer {token}"]}
        self._body = json.dumps(a_body(inputs=inputs_of("x")))
        self._first_key = f"key-{uuid4()}"
        self._first_path = path_of(self.repeat())

    def submit(self) -> str:
        """Submit a new run; the answer's body."""
        return self._post(f"key-{uuid4()}")

    def repeat(self) -> str:
        """Repeat the first submit with its key; the answer's body."""
        return self._post(self._first_key)

    def read(self, path: str | None = None) -> str:
        """Poll a run, or the first one; the answer's body."""
        event = self._event("GET", path or self._first_path, self._authorization, None)
        return _body(self._read(event, self._context), 200)

    def _post(self, key: str) -> str:
        headers = self._authorization | {"Content-Type": ["application/json"], "Idempotency-Key": [key]}
        return _body(self._submit(self._event("POST", "/v1/runs", headers, self._body), self._context), 202)


def path_of(receipt: str) -> str:
    return f"/v1/runs/{json.loads(receipt)['run_id']}"


def _body(answer: dict[str, Any], status: int) -> str:
    assert answer["statusCode"] == status, answer
    return str(answer["body"])


class NoOpPacks:
    """Replaces the pack process and answers at once."""

    def __init__(self, _environ: Mapping[str, str]) -> None: ...

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        assert not cancelled.is_set()
        data = no_op(request.inputs)
        return PackSuccess(data=data, reliability_score=0.9, cost_usd_micros=CHARGE_USD_MICROS)

    def prestart(self) -> None: ...


def worker_handler() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The handler of run_worker with the no-op for its packs: takes an event, returns the message's outcome."""
    from run_worker import handler as worker  # noqa: PLC0415 - its wiring reads the environment

    vars(worker)["PackProcess"] = NoOpPacks

    context: Any = SimpleNamespace(
        function_name="run_worker",
        memory_limit_in_mb=1769,
        invoked_function_arn="arn:aws:lambda:us-east-1:000000000000:function:run_worker",
        aws_request_id="00000000-0000-0000-0000-000000000000",
        get_remaining_time_in_millis=lambda: 120_000,
    )

    def handle(event: dict[str, Any]) -> dict[str, Any]:
        failed = bool(worker.handler(event, context)["batchItemFailures"])
        return {"message_id": event["Records"][0]["messageId"], "failed": failed}

    return handle


@contextmanager
def logs_to(path: str = os.devnull) -> Iterator[None]:
    """Redirect standard output, where functions log, so that no terminal slows them."""
    sys.stdout.flush()
    stdout, target = os.dup(1), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(target, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(target)
