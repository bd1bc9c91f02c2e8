"""Structured logs (RUN-31): they have the locked fields, and nothing that a client sent."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from pydantic import ValidationError

import run_reaper.handler
import run_worker.handler
import runs_submit.handler
from dpp.packs.contract import PackFailure, PackReason
from dpp.runs import submit_store
from dpp.runs.api.contract import RunCreateRequest
from tests.http.faulty import Faulty
from tests.http.state import raw_messages
from tests.support.api import ApiClient, a_body, lambda_context
from tests.support.proxy import Fault
from tests.support.world import ScriptedPacks, Tenant, World

MARKER = "s3cr3t-m4rker"
KEY = f"key-{MARKER}"


@dataclass(slots=True)
class Logs:
    """All log output of the platform."""

    stream: io.StringIO

    @property
    def text(self) -> str:
        """All of it."""
        return self.stream.getvalue()

    def records(self, message: str | None = None) -> list[dict[str, Any]]:
        """The JSON records, all or those with this message."""
        found = [json.loads(line) for line in self.text.splitlines()]
        return [record for record in found if message in (None, record["message"])]


@pytest.fixture
def logs() -> Iterator[Logs]:
    """Capture the logger `dpp` with Lambda's formatter at level DEBUG, and the warnings of the libraries."""
    captured = Logs(io.StringIO())
    handler = logging.StreamHandler(captured.stream)
    handler.setFormatter(runs_submit.handler.logger.registered_formatter)
    loggers = {logging.getLogger("dpp"): logging.DEBUG, logging.getLogger("py.warnings"): logging.DEBUG}
    loggers |= {logging.getLogger(name): logging.WARNING for name in ("botocore", "psycopg", "redis")}
    before = {logger: logger.level for logger in loggers}
    for logger, level in loggers.items():
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield captured
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(before[logger])


def run_the_worker(world: World, monkeypatch: pytest.MonkeyPatch, packs: ScriptedPacks) -> None:
    """Call the worker's function for every message."""
    effects = world.work_effects(packs)
    monkeypatch.setattr(run_worker.handler, "wiring", lambda: effects)
    records = [
        {"messageId": str(number), "receiptHandle": "handle", "body": body, "eventSource": "aws:sqs"}
        for number, body in enumerate(raw_messages(world))
    ]
    assert run_worker.handler.handler({"Records": records}, lambda_context()) == {"batchItemFailures": []}


def test_a_submit_logs_the_locked_fields(api: ApiClient, world: World, logs: Logs) -> None:
    """RUN-31, 001 §15.1: run, tenant, trace, versions, stage, money state, amounts."""
    tenant = world.tenant()
    body = a_body(meta={"trace_id": "t_mine"})
    run_id = api.submit(tenant, body, key=KEY).body["run_id"]
    [record] = logs.records("run accepted")
    expected = {
        "service": "api",
        "level": "INFO",
        "run_id": run_id,
        "tenant_id": tenant.tenant_id,
        "trace_id": "t_mine",
        "status": "QUEUED",
        "version_after": 0,
        "money_state": "RESERVED",
        "reserved_usd_micros": 250_000,
        "replayed": False,
    }
    assert expected.items() <= record.items()
    assert "timestamp" in record
    assert not {"version_before", "finalize_stage"} & set(record)  # a new run has neither
    api.submit(tenant, body, key=KEY)
    assert logs.records("run accepted")[1]["replayed"] is True


def test_a_refusal_logs_tenant_and_reason(api: ApiClient, world: World, logs: Logs) -> None:
    """RUN-31: error.reason_code with tenant and trace id, for each error that a client gets."""
    tenant = world.tenant(credit_usd_micros=0)
    api.submit(tenant, a_body(meta={"trace_id": "t_mine"}))
    api.submit(tenant, a_body(surprise=1), headers={"X-Trace-Id": "t_header"})
    api.read(tenant, MARKER, headers={"X-Trace-Id": "t_read"})
    api.submit(None, a_body(), headers={"X-Trace-Id": "t_nobody"})
    seen = [
        (r["error"]["reason_code"], r["trace_id"], r.get("tenant_id"), r["status_code"])
        for r in logs.records("refused")
    ]
    assert seen == [
        ("BUDGET_DRAINED", "t_mine", tenant.tenant_id, 402),
        ("VALIDATION_FAILED", "t_header", tenant.tenant_id, 422),
        ("NOT_FOUND", "t_read", tenant.tenant_id, 404),
        ("AUTH_INVALID", "t_nobody", None, 401),
    ]


@pytest.mark.parametrize("ending", ["completed", "failed", "reaped"])
def test_the_end_of_a_run_logs_the_locked_fields(
    world: World, logs: Logs, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """RUN-31: versions before and after, COMMITTED, and the reserved, charged and refunded amounts."""
    tenant = world.tenant()
    if ending == "reaped":
        run = world.leased(tenant)
        _expire_leases(world)
        parts = world.finalize_effects(), world.new_database()
        monkeypatch.setattr(run_reaper.handler, "wiring", lambda: parts)
        run_reaper.handler.handler({}, lambda_context())
    else:
        run = world.submit(tenant).run
        failure = PackFailure(reason_code=PackReason.PACK_FAILED, detail="It broke.")
        run_the_worker(world, monkeypatch, ScriptedPacks() if ending == "completed" else ScriptedPacks(failure))
    [record] = logs.records("run ended")
    charge = 50_000 if ending == "completed" else 5_000
    expected = {
        "run_id": run.id,
        "tenant_id": tenant.tenant_id,
        "trace_id": "t_test",
        "version_before": 2,
        "version_after": 3,
        "finalize_stage": "COMMITTED",
        "money_state": "SETTLED",
        "reserved_usd_micros": 250_000,
        "charge_usd_micros": charge,
        "refund_usd_micros": 250_000 - charge,
    }
    assert expected.items() <= record.items()
    reason = {"completed": None, "failed": "PACK_FAILED", "reaped": "WORKER_TIMEOUT"}[ending]
    assert record.get("error", {}).get("reason_code") == reason


@pytest.mark.parametrize(
    ("function", "service"), [("runs_submit", "api"), ("run_worker", "worker"), ("run_reaper", "reaper")]
)
def test_each_function_logs_under_its_service(function: str, service: str) -> None:
    """RUN-31: service is api, worker or reaper, also in lines of the modules that the handler calls."""
    program = f"import logging, {function}.handler; logging.getLogger('dpp.runs.x').warning('hello')"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(ran.stdout)["service"] == service


def test_nothing_that_a_client_sent_is_logged(
    api: ApiClient, world: World, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-31, D8: no inputs, keys and secrets, on any path through API and worker."""
    tenant = world.tenant()
    good = a_body(inputs={"question": f"{MARKER}?", "context": MARKER})
    accepted = api.submit(tenant, good, key=KEY)
    api.submit(tenant, good, key=KEY)
    api.submit(tenant, a_body(inputs={"question": f"{MARKER} other"}), key=KEY)
    for body in (
        a_body(inputs={"question": MARKER, MARKER: MARKER}),
        a_body(inputs={"mode": MARKER}),
        a_body(reservation={"max_cost_usd": MARKER}),
        a_body(meta={"trace_id": f"{MARKER} unfit"}),
        a_body(pack_type=MARKER),
        {MARKER: MARKER},
    ):
        assert api.submit(tenant, body, key=KEY).status == 422
    for raw in (f'{{"{MARKER}', f'{{"{MARKER}":1,"{MARKER}":2}}', f'"{MARKER}\\u0000"'):
        assert api.submit(tenant, None, raw=raw, key=KEY).status == 400
    api.submit(tenant, good, key=f"{MARKER} bad")
    api.submit(tenant, good, headers={"Content-Type": MARKER, "X-Trace-Id": f"{MARKER} unfit"})
    api.submit(None, good, headers={"Authorization": f"Bearer {MARKER}"})
    api.read(tenant, MARKER)
    api.call("GET", f"/{MARKER}")
    run_the_worker(world, monkeypatch, ScriptedPacks())
    api.read(tenant, accepted.body["run_id"])
    assert logs.records()
    _assert_clean(logs, tenant)


def test_a_500_logs_its_place_and_no_message(
    api: ApiClient, world: World, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-31: the message of a library may quote what a client sent; class and frames are logged."""
    tenant = world.tenant()

    def overflow(*_args: Any) -> Any:
        raise psycopg.errors.DataError(f"invalid input: {MARKER}")

    def invalid(*_args: Any) -> Any:
        RunCreateRequest.model_validate({"pack_type": MARKER})

    def chained(*_args: Any) -> Any:
        raise RuntimeError(MARKER) from KeyError(MARKER)

    body = a_body(inputs={"question": MARKER})
    for explode in (overflow, invalid, chained):
        monkeypatch.setattr(submit_store, "insert", explode)
        assert api.submit(tenant, body).status == 500
    classes = [record["error"]["class"] for record in logs.records("unexpected error")]
    assert classes == [
        "psycopg.DataError",
        f"{ValidationError.__module__}.{ValidationError.__qualname__}",
        "builtins.RuntimeError",
    ]
    assert all(record["error"]["frames"] for record in logs.records("unexpected error"))
    _assert_clean(logs, tenant)


def test_an_unavailable_dependency_is_logged_by_name_only(api: ApiClient, logs: Logs, broken: Faulty) -> None:
    """RUN-31: with the trace id; without address, statement and parameters."""
    world = broken.world
    tenant = world.tenant()
    body = a_body(inputs={"question": MARKER})
    for fault in (Fault.CUT, Fault.HANG):
        broken.postgres.arm(fault, b"INSERT INTO runs")
        assert api.submit(tenant, body, headers={"X-Trace-Id": "t_mine"}).status == 503
        broken.heal()
    broken.redis.refuse()
    assert api.submit(tenant, body).status == 503
    broken.heal()
    broken.lose_sqs()
    assert api.submit(tenant, body, key=KEY).status == 503
    lost = [record for record in logs.records() if "is unavailable" in record["message"]]
    assert [record["message"].split()[0] for record in lost] == ["postgres", "postgres", "redis"]
    assert lost[0]["trace_id"] == "t_mine"
    assert "127.0.0.1" not in logs.text
    _assert_clean(logs, tenant)


def _expire_leases(world: World) -> None:
    world.sql("UPDATE runs SET lease_expires_at = now() - interval '1 second'")


def _assert_clean(logs: Logs, tenant: Tenant) -> None:
    assert MARKER not in logs.text
    assert tenant.token not in logs.text
    assert tenant.token.rpartition("_")[2] not in logs.text
