"""Our side of bench/runs: the submit use case, and the handler of run_worker as Lambda would call it.

Left out are API Gateway and authentication before the submit (bench/submit.py), the pack process (a no-op answers
immediately in the worker), and Lambda's runtime. Logs are formatted and discarded. Everything else is as deployed: one
message per event, boto3 over real HTTP, the heartbeat's thread, the envelope.
"""

import os
import sys
from contextlib import closing
from pathlib import Path

import psycopg

from bench.support.aws import EventSource
from bench.support.processes import Share
from bench.support.runs import CHARGE_USD_MICROS, submit_request, worker_handler
from bench.support.servers import TENANT, Place, use
from dpp.money.audit import audit_tenant
from dpp.money.ledger import Ledger
from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.runs.submit import SubmitEffects, submit

DONE = "SELECT count(*) FROM runs WHERE finalize_stage = 'COMMITTED'"


def submitter(place: Place, share: Share) -> None:
    use(place)
    with closing(Database(place.database_url)) as database:
        effects = SubmitEffects(database, Ledger.connect(place.redis_url), Queue(place.queue_url))
        share.do(lambda name, _due: submit(submit_request(name), effects))


def worker(place: Place) -> None:
    use(place)
    with Path(os.devnull).open("w", encoding="utf-8") as null:
        sys.stdout = null  # before powertools stores a reference to it
        handle = worker_handler()
        source, outcome = EventSource(place.endpoint), None
        while True:
            outcome = handle(source.next(outcome))


def proved(place: Place, count: int) -> str:
    """Check that each run was done and charged exactly once. Raises AssertionError."""
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
    counts = EventSource(place.endpoint).stats()
    # Messages may still be in flight: their workers were killed before they could report the outcome.
    assert counts["failed"] == 0, counts
    assert counts["queued"] == 0, counts
    assert counts["objects"] == counts["puts"] == count, counts
    return (
        f"{count:,} runs, each COMMITTED at version {rows[0][4]} with one object written once; the audit balances:"
        f" {position.charges_usd_micros:,} micros charged, drift {position.drift_usd_micros}, nothing reserved"
    )
