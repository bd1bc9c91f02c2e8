"""After the soak: everything has ended, once, and every micro is where it belongs."""

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
from tests.soak.clients import Ordered
from tests.support.charges import miscounted

_RUNS = """
SELECT run_id::text, tenant_id, idempotency_key, status, money_state, actual_cost_usd_micros,
       reservation_max_cost_usd_micros, result_key, last_error_reason_code
FROM runs
"""


def unfinished(connection: psycopg.Connection[Any]) -> int:
    """Runs that have not ended."""
    row = connection.execute(
        "SELECT count(*) FROM runs WHERE finalize_stage IS DISTINCT FROM 'COMMITTED'"
    ).fetchone()
    return int(row[0]) if row else 0


def outcomes(connection: psycopg.Connection[Any]) -> Mapping[str, int]:
    """Runs by how they ended."""
    rows = connection.execute(
        "SELECT concat_ws(' ', status, money_state, last_error_reason_code), count(*) FROM runs GROUP BY 1 ORDER BY 1"
    )
    return {str(name): int(count) for name, count in rows}


def broken(
    connection: psycopg.Connection[Any], ledger: Ledger, state: StackState, orders: Sequence[Ordered]
) -> Iterator[str]:
    """Every promise that does not hold, as a sentence."""
    runs = {row[0]: row for row in connection.execute(_RUNS)}
    yield from _runs(runs)
    yield from _orders(runs, orders)
    yield from _money(connection, ledger)
    yield from miscounted(connection)
    yield from _objects(state, runs)
    yield from _messages(state)


def _runs(runs: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    for run_id, _, _, status, money, charge, reserved, *_ in runs.values():
        if money not in ("SETTLED", "REFUNDED"):
            yield f"run {run_id} is {status} · {money}"
        elif charge > reserved:
            yield f"run {run_id} was charged {charge} of {reserved}"


def _orders(runs: Mapping[str, Sequence[Any]], orders: Sequence[Ordered]) -> Iterator[str]:
    known = {(row[1], row[2]): 0 for row in runs.values()}
    for row in runs.values():
        if row[8] != "QUEUE_ENQUEUE_FAILED":  # such a run frees its key (RUN-8)
            known[row[1], row[2]] += 1
    for key, count in known.items():
        if count > 1:
            yield f"{key} became {count} runs"
    for order in orders:
        if order.run_id is not None and order.run_id not in runs:
            yield f"run {order.run_id} was answered 202 and isn't there"
    strangers = set(known) - {(order.tenant_id, order.key) for order in orders}
    if strangers:
        yield f"nobody ordered {sorted(strangers)[:5]}"


def _money(connection: psycopg.Connection[Any], ledger: Ledger) -> Iterator[str]:
    for tenant_id in all_tenants(connection):
        position = audit_tenant(connection, ledger, tenant_id)
        if not position.balanced:
            yield f"{tenant_id} drifts by {position.drift_usd_micros} micros: {position}"
        measured = measure(connection, ledger, tenant_id)
        if measured is None or measured.drift_usd_micros or measured.in_flight_usd_micros:
            yield f"{tenant_id} at rest measures {measured}"
        for run_id in contradictions(connection, ledger, tenant_id):
            yield f"the receipt of run {run_id} says another charge than its row"
        if left := ledger.open_reservations(tenant_id):
            yield f"{tenant_id} still holds reservations of {left[:5]}"
    drifts = connection.execute(
        "SELECT tenant_id, reason FROM ledger_rebuilds WHERE reason <> 'CREDIT'"
    ).fetchall()
    if drifts:
        yield f"balances had to be written anew though Redis lost nothing: {drifts[:5]}"


def _objects(state: StackState, runs: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    client = boto3.client("s3", endpoint_url=state.aws_endpoint_url)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=state.outputs["ResultsBucket"])
    stored = {item["Key"] for page in pages for item in page.get("Contents", ())}
    pointed = {row[7] for row in runs.values() if row[7] is not None}
    if stored != pointed:
        yield f"objects without a run: {sorted(stored - pointed)[:5]}; lost: {sorted(pointed - stored)[:5]}"


def _messages(state: StackState) -> Iterator[str]:
    client = boto3.client("sqs", endpoint_url=state.aws_endpoint_url)
    for name in ("RunQueueUrl", "RunDeadLetterQueueUrl"):
        answer = client.get_queue_attributes(QueueUrl=state.outputs[name], AttributeNames=["All"])
        left = {key: value for key, value in answer["Attributes"].items() if key.startswith("Approximate")}
        if any(int(count) for count in left.values()):
            yield f"{name} still holds messages: {json.dumps(left)}"
