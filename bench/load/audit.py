"""The audit after the load: each promised run exists once, has ended, was charged once, and has its result.

`audit` checks collected data; `collect` reads it from the stack. In addition, `tests.soak.invariants` checks every
tenant's ledger, the objects and the queues at rest.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.load.generator import Request
from dpp.money.credits import all_tenants
from dpp.money.ledger import Ledger
from dpp_cli.local.localstack import client_session
from dpp_cli.local.state import StackState

_READERS = 4
_RUNS = """
SELECT run_id::text, tenant_id, idempotency_key, status, finalize_stage, money_state, actual_cost_usd_micros,
       result_key, result_sha256, last_error_reason_code, idempotency_released_at IS NOT NULL
FROM runs
"""
_CREDITS = "SELECT tenant_id, sum(amount_usd_micros)::bigint FROM budget_credits GROUP BY tenant_id"


@dataclass(frozen=True, slots=True)
class Row:
    """A run, as stored in the `runs` table."""

    run_id: str
    tenant_id: str
    key: str
    status: str
    stage: str | None
    money_state: str
    charge_usd_micros: int | None
    result_key: str | None = None
    sha256: str | None = None
    reason: str | None = None
    is_released: bool = False
    """Its key is free: it never reached the queue, its client got an error, and a repetition is another run (RUN-8)."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The data of the stack at rest."""

    rows: Sequence[Row]
    receipts: Mapping[str, tuple[str, str] | None]
    """By run: how Redis closed its reservation, and the charge in USD micros."""
    digests: Mapping[str, str]
    """By key, the SHA-256 of each stored result."""
    spent_usd_micros: Mapping[str, int]
    """By tenant, its credits less its balance."""


@dataclass(slots=True)
class Findings:
    """Violations, one sentence each."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Runs by how they ended."""

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)


def audit(requests: Sequence[Request], stored: Stored) -> Findings:
    found = Findings()
    by_key = defaultdict[tuple[str, str], list[Row]](list)
    for row in stored.rows:
        found.outcomes[f"{row.status} {row.reason or ''}".strip()] += 1
        if not row.is_released:
            by_key[row.tenant_id, row.key].append(row)
    for request in requests:
        rows = by_key.pop((request.account.tenant_id, request.key), [])
        _check_key(found, request, rows)
        if request.unexpected:
            found.wrong.append(f"{request.key} was answered {request.unexpected}")
    found.wrong += [f"no request submitted {key}" for _, key in by_key]
    for row in stored.rows:
        _check_run(found, row, stored)
    _check_money(found, stored)
    return found


def _check_key(found: Findings, request: Request, rows: Sequence[Row]) -> None:
    """A key is one run; none if it was refused."""
    if len(rows) > 1:
        found.doubled.append(f"{request.key} became {len(rows)} runs")
    if request.is_accepted and request.run_id not in {row.run_id for row in rows}:
        found.lost.append(f"{request.key} was answered 202 for run {request.run_id}, which does not exist")
    if request.is_refused and rows:
        found.wrong.append(f"{request.key} was refused by {request.answer}, and is run {rows[0].run_id}")
    if request.is_unknown:
        found.lost.append(f"{request.key} has no final answer: {request.answer}")


def _check_run(found: Findings, row: Row, stored: Stored) -> None:
    """A run has ended, at the charge of its receipt, with the result that its row names."""
    if row.stage != "COMMITTED":
        found.lost.append(f"run {row.run_id} never ended: {row.status} {row.money_state}")
        return
    if stored.receipts.get(row.run_id) != (row.money_state, str(row.charge_usd_micros)):
        found.wrong.append(f"run {row.run_id} has the receipt {stored.receipts.get(row.run_id)}")
    if row.status != "COMPLETED" or row.result_key is None:  # the schema gives each COMPLETED a result
        return
    if row.result_key not in stored.digests:
        found.lost.append(f"the result of run {row.run_id} does not exist")
    elif stored.digests[row.result_key] != row.sha256:
        found.wrong.append(f"the result of run {row.run_id} has another digest")


def _check_money(found: Findings, stored: Stored) -> None:
    """A tenant has spent the sum of its runs' charges."""
    due = Counter[str]()
    for row in stored.rows:
        due[row.tenant_id] += row.charge_usd_micros or 0
    for tenant_id, spent in stored.spent_usd_micros.items():
        if spent > due[tenant_id]:
            found.doubled.append(f"{tenant_id} paid {spent - due[tenant_id]} micros more than its runs' charges")
        if spent < due[tenant_id]:
            found.lost.append(f"{tenant_id} paid {due[tenant_id] - spent} micros less than its runs' charges")


def existing(requests: Collection[Request], rows: Collection[Row]) -> int:
    """Count the requests that are runs although their client got an error or no answer."""
    keys = {(row.tenant_id, row.key) for row in rows if not row.is_released}
    return sum((request.account.tenant_id, request.key) in keys for request in requests)


def collect(connection: psycopg.Connection[Any], ledger: Ledger, state: StackState) -> Stored:
    """Read Postgres, Redis and S3, at rest."""
    rows = rows_of(connection)
    receipts: dict[str, tuple[str, str] | None] = {}
    by_tenant = defaultdict[str, list[str]](list)
    for row in rows:
        by_tenant[row.tenant_id].append(row.run_id)
    for tenant_id, run_ids in by_tenant.items():
        receipts |= zip(run_ids, ledger.receipts(tenant_id, run_ids), strict=True)
    credits = dict(connection.execute(_CREDITS).fetchall())
    spent = {one: int(credits.get(one, 0)) - (ledger.balance(one) or 0) for one in all_tenants(connection)}
    return Stored(rows, receipts, dict(_digests(state, rows)), spent)


def rows_of(connection: psycopg.Connection[Any]) -> list[Row]:
    return [Row(*row) for row in connection.execute(_RUNS)]


def _digests(state: StackState, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Of each existing result that a row names."""
    s3 = client_session(state.aws_endpoint_url).client("s3", endpoint_url=state.aws_endpoint_url)

    def digest(key: str) -> tuple[str, str] | None:
        try:
            body = s3.get_object(Bucket=state.outputs["ResultsBucket"], Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return None
        return key, hashlib.sha256(body).hexdigest()

    with ThreadPoolExecutor(_READERS) as readers:
        keys = [row.result_key for row in rows if row.result_key is not None]
        yield from (found for found in readers.map(digest, keys) if found is not None)
