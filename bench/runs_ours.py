"""Our side of bench/runs.py: the submit's use case, and the worker's handler as Lambda would call it.

Left out are API Gateway and the caller's key before the submit (bench/submit.py), the pack's process (a no-op answers
in its place, at once and in the worker), and Lambda's own runtime. Logs are formatted and thrown away. All else is as
deployed: one message an event, boto3 to real HTTP, the heartbeat's thread, the envelope.
"""

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg

from bench.crew import Share
from bench.runs_aws import EventSource
from bench.runs_work import CHARGE_USD_MICROS, RESERVED_USD_MICROS, TENANT, Place, answer, found, inputs_of
from dpp.money.audit import audit_tenant
from dpp.money.credits import create_tenant, credit
from dpp.money.ledger import Ledger
from dpp.packs.contract import PackRequest, PackResult, PackSuccess, PackType
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.runs.model import SubmitRequest
from dpp.runs.submit import SubmitEffects, submit
from dpp_cli import migrate

_PER_MINUTE = 1_000_000
_SILENCE = Path(os.devnull)


class NoOpPacks:
    """Stands in for the packs' process: answers at once."""

    def __init__(self, _environ: Mapping[str, str]) -> None:
        """Nothing is started."""

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """The answer that everyone's work gives."""
        assert not cancelled.is_set()
        data = answer(request.inputs)
        return PackSuccess(data=data, reliability_score=0.9, cost_usd_micros=CHARGE_USD_MICROS)

    def prestart(self) -> None:
        """Nothing to warm."""


def prepare(place: Place) -> None:
    """A migrated database and a tenant with money."""
    migrate.upgrade(place.database_url)
    ledger = Ledger.connect(place.redis_url)
    with psycopg.connect(place.database_url, autocommit=True) as connection, closing(ledger.client):
        create_tenant(connection, TENANT, "Bench", _PER_MINUTE)
        credit(
            connection,
            ledger,
            credit_id=uuid4(),
            tenant_id=TENANT,
            amount_usd_micros=10**12,
            reason="bench",
        )


def submitter(place: Place, share: Share) -> None:
    """A share of submits, each a new run."""
    begin(place)
    with closing(Database(place.database_url)) as database:
        effects = SubmitEffects(database, Ledger.connect(place.redis_url), Queue(_queue_url(place)))
        share.do(lambda name: submit(_request(name), effects))


def worker(place: Place) -> None:
    """Work on what comes until the process is ended."""
    begin(place)
    with _SILENCE.open("w", encoding="utf-8") as silence:
        sys.stdout = silence  # before powertools takes hold of it
        handle = handling()
        source, done = EventSource(place.endpoint), None
        while True:
            done = handle(source.next(done))


def handling() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The worker's handler with the no-op for its packs: an event in, and out what became of its one message."""
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
        told = worker.handler(event, context)
        return {
            "message_id": event["Records"][0]["messageId"],
            "failed": bool(told["batchItemFailures"]),
        }

    return handle


def done(place: Place) -> int:
    """How many runs are committed."""
    return int(found(place.database_url, "SELECT count(*) FROM runs WHERE finalize_stage = 'COMMITTED'")[0])


def proved(place: Place, count: int) -> str:
    """That each was done and charged exactly once. Raises AssertionError."""
    ledger = Ledger.connect(place.redis_url)
    with psycopg.connect(place.database_url, autocommit=True) as connection, closing(ledger.client):
        rows = connection.execute(
            "SELECT status, money_state, finalize_stage, actual_cost_usd_micros, version, count(*) FROM runs"
            " GROUP BY 1, 2, 3, 4, 5"
        ).fetchall()
        position = audit_tenant(connection, ledger, TENANT)
        assert not ledger.open_reservations(TENANT)
    assert [row[:4] for row in rows] == [("COMPLETED", "SETTLED", "COMMITTED", CHARGE_USD_MICROS)], rows
    assert rows[0][5] == count, rows
    assert position.balanced, position
    assert position.charges_usd_micros == count * CHARGE_USD_MICROS, position
    told = EventSource(place.endpoint).stats()
    # Whoever worked on the last messages was ended before he could tell.
    assert told["failed"] == 0, told
    assert told["queued"] == 0, told
    assert told["objects"] == told["puts"] == count, told
    return (
        f"{count:,} runs, each COMMITTED at version {rows[0][4]} with one object put once; the audit balances: "
        f"{position.charges_usd_micros:,} micros charged, drift {position.drift_usd_micros}, nothing reserved"
    )


def begin(place: Place) -> None:
    """The environment that the functions' own wirings read."""
    os.environ.update(
        {
            "DATABASE_URL": place.database_url,
            "REDIS_URL": place.redis_url,
            "DPP_RUN_QUEUE_URL": _queue_url(place),
            "DPP_RESULTS_BUCKET": "results",
            "AWS_ENDPOINT_URL": place.endpoint,
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_DEFAULT_REGION": "us-east-1",
            "POWERTOOLS_METRICS_NAMESPACE": "bench",
        }
    )


def _queue_url(place: Place) -> str:
    return f"{place.endpoint}/000000000000/runs"


def _request(name: str) -> SubmitRequest:
    return SubmitRequest(
        tenant_id=TENANT,
        rate_limit_per_minute=_PER_MINUTE,
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
