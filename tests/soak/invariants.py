"""The invariants after a soak or load test: every run has ended once, and every micro-dollar is accounted for."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import boto3
import psycopg

from dpp.money.audit import audit_tenant
from dpp.money.credits import all_tenants
from dpp.money.drift import contradictions, measure
from dpp.money.ledger import Ledger
from dpp_cli.local.state import StackState
from tests.soak.clients import Submission
from tests.support.charges import miscounted

_RUNS = """
SELECT run_id::text, tenant_id, idempotency_key, status, money_state, actual_cost_usd_micros,
       reservation_max_cost_usd_micros, result_key, last_error_reason_code
FROM runs
"""


def unfinished(connection: psycopg.Connection[Any]) -> int:
    """The number of runs that have not ended."""
    row = connection.execute("SELECT count(*) FROM runs WHERE finalize_stage IS DISTINCT FROM 'COMMITTED'").fetchone()
    return int(row[0]) if row else 0


def outcomes(connection: psycopg.Connection[Any]) -> Mapping[str, int]:
    """The number of runs by status, money state and reason."""
    rows = connection.execute(
        "SELECT concat_ws(' ', status, money_state, last_error_reason_code), count(*) FROM runs GROUP BY 1 ORDER BY 1"
    )
    return {str(name): int(count) for name, count in rows}


def broken(
    connection: psycopg.Connection[Any], ledger: Ledger, state: StackState, submissions: Sequence[Submission]
) -> Iterator[str]:
    """Each broken invariant as a sentence."""
    runs = {row[0]: row for row in connection.execute(_RUNS)}
    yield from _runs(runs)
    yield from _submissions(runs, submissions)
    yield from _money(connection, ledger)
    yield from miscounted(connection)
    yield from _objects(state, runs)
    yield from _messages(state)


def _runs(runs: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for run_id, _, _, status, money, charge, reserved, *_ in runs.values():
        if money not in ("SETTLED", "REFUNDED"):
            yield f"run {run_id} is {status} · {money}"
        elif charge > reserved:
            yield f"run {run_id} was charged {charge}, more than its reservation of {reserved}"


def _submissions(runs: Mapping[str, Sequence[Any]], submissions: Sequence[Submission]) -> Iterator[str]:
    runs_of_key = {(row[1], row[2]): 0 for row in runs.values()}
    for row in runs.values():
        if row[8] != "QUEUE_ENQUEUE_FAILED":  # such a run releases its key (RUN-8)
            runs_of_key[row[1], row[2]] += 1
    for key, count in runs_of_key.items():
        if count > 1:
            yield f"{key} has {count} runs"
    for submission in submissions:
        if submission.run_id is not None and submission.run_id not in runs:
            yield f"run {submission.run_id} was accepted with 202 and does not exist"
    unknown = set(runs_of_key) - {(submission.tenant_id, submission.key) for submission in submissions}
    if unknown:
        yield f"no client submitted {sorted(unknown)[:5]}"


def _money(connection: psycopg.Connection[Any], ledger: Ledger) -> Iterator[str]:
    for tenant_id in all_tenants(connection):
        position = audit_tenant(connection, ledger, tenant_id)
        if not position.balanced:
            yield f"{tenant_id} has a drift of {position.drift_usd_micros} micros: {position}"
        measured = measure(connection, ledger, tenant_id)
        if measured is None or measured.drift_usd_micros or measured.in_flight_usd_micros:
            yield f"{tenant_id} measures {measured} although all runs have ended"
        for run_id in contradictions(connection, ledger, tenant_id):
            yield f"the receipt of run {run_id} has another charge than its row"
        if left := ledger.open_reservations(tenant_id):
            yield f"{tenant_id} still has reservations of {left[:5]}"
    rebuilds = connection.execute("SELECT tenant_id, reason FROM ledger_rebuilds WHERE reason <> 'CREDIT'").fetchall()
    if rebuilds:
        yield f"ledgers were rebuilt although Redis had lost nothing: {rebuilds[:5]}"


def _objects(state: StackState, runs: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    client = boto3.client("s3", endpoint_url=state.aws_endpoint_url)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=state.outputs["ResultsBucket"])
    stored = {item["Key"] for page in pages for item in page.get("Contents", ())}
    referenced = {row[7] for row in runs.values() if row[7] is not None}
    if stored != referenced:
        yield (
            f"objects without a run: {sorted(stored - referenced)[:5]}; "
            f"missing objects: {sorted(referenced - stored)[:5]}"
        )


def _messages(state: StackState) -> Iterator[str]:
    client = boto3.client("sqs", endpoint_url=state.aws_endpoint_url)
    for name in ("RunQueueUrl", "RunDeadLetterQueueUrl"):
        reply = client.get_queue_attributes(QueueUrl=state.outputs[name], AttributeNames=["All"])
        left = {key: value for key, value in reply["Attributes"].items() if key.startswith("Approximate")}
        if any(int(count) for count in left.values()):
            yield f"{name} still has messages: {json.dumps(left)}"
