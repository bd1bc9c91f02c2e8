"""After the load: each run that was promised is there, once, ended, charged once, with its result.

`audit` judges what it is given; `gather` asks the stack for it. Beside it `tests.soak.invariants` holds every tenant's
ledger, the objects and the queues to what they must be at rest.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import psycopg

from bench.load.fire import Shot
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
    """A run as Postgres has it; amounts in USD micros."""

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
    released: bool = False
    """Its key is free: it never reached the queue, its client was told so, and the next one is another run (RUN-8)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What the stack has kept, at rest."""

    rows: Sequence[Row]
    receipts: Mapping[str, tuple[str, str] | None]
    """By run, how Redis closed its reservation and what it took, in USD micros."""
    digests: Mapping[str, str]
    """By key, the SHA-256 of each stored result."""
    spent_usd_micros: Mapping[str, int]
    """By tenant, what it was given less what it has left."""


@dataclass(slots=True)
class Findings:
    """What does not hold, a sentence each."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    """How the runs have ended."""

    @property
    def sound(self) -> bool:
        """Whether all holds."""
        return not (self.lost or self.doubled or self.wrong)


def audit(shots: Sequence[Shot], kept: Kept) -> Findings:
    """Hold what was answered against what is kept."""
    found = Findings()
    by_key = defaultdict[tuple[str, str], list[Row]](list)
    for row in kept.rows:
        found.outcomes[f"{row.status} {row.reason or ''}".strip()] += 1
        if not row.released:
            by_key[row.tenant_id, row.key].append(row)
    for shot in shots:
        rows = by_key.pop((shot.account.tenant_id, shot.key), [])
        _of_key(found, shot, rows)
        if shot.odd:
            found.wrong.append(f"{shot.key} was answered {shot.odd}")
    found.wrong += [f"nobody ordered {key}" for _, key in by_key]
    for row in kept.rows:
        _of_run(found, row, kept)
    _of_money(found, kept)
    return found


def _of_key(found: Findings, shot: Shot, rows: Sequence[Row]) -> None:
    """One key, one run; of a refusal none; of what was never answered one at most."""
    if len(rows) > 1:
        found.doubled.append(f"{shot.key} became {len(rows)} runs")
    if shot.accepted and shot.run_id not in {row.run_id for row in rows}:
        found.lost.append(f"{shot.key} was answered 202 for run {shot.run_id}, which isn't there")
    if shot.refused and rows:
        found.wrong.append(f"{shot.key} was refused by {shot.answer}, and is run {rows[0].run_id}")
    if shot.open:
        found.lost.append(f"{shot.key} has no final answer: {shot.answer}")


def _of_run(found: Findings, row: Row, kept: Kept) -> None:
    """Ended, at the charge of its receipt, with the result that its row points to."""
    if row.stage != "COMMITTED":
        found.lost.append(f"run {row.run_id} never ended: {row.status} {row.money_state}")
        return
    if kept.receipts.get(row.run_id) != (row.money_state, str(row.charge_usd_micros)):
        found.wrong.append(f"run {row.run_id} has the receipt {kept.receipts.get(row.run_id)}")
    if row.status != "COMPLETED" or row.result_key is None:  # the schema gives each COMPLETED a result
        return
    if row.result_key not in kept.digests:
        found.lost.append(f"the result of run {row.run_id} isn't there")
    elif kept.digests[row.result_key] != row.sha256:
        found.wrong.append(f"the result of run {row.run_id} has another digest")


def _of_money(found: Findings, kept: Kept) -> None:
    """What a tenant has less is what its runs cost, each once."""
    due = Counter[str]()
    for row in kept.rows:
        due[row.tenant_id] += row.charge_usd_micros or 0
    for tenant_id, spent in kept.spent_usd_micros.items():
        if spent > due[tenant_id]:
            found.doubled.append(f"{tenant_id} paid {spent - due[tenant_id]} micros beyond its runs' charges")
        if spent < due[tenant_id]:
            found.lost.append(f"{tenant_id} paid {due[tenant_id] - spent} micros less than its runs' charges")


def standing_of(shots: Collection[Shot], kept_rows: Collection[Row]) -> int:
    """How many of these requests are runs though their client was told otherwise, or nothing."""
    keys = {(row.tenant_id, row.key) for row in kept_rows if not row.released}
    return sum((shot.account.tenant_id, shot.key) in keys for shot in shots)


def gather(connection: psycopg.Connection[Any], ledger: Ledger, state: StackState) -> Kept:
    """Ask Postgres, Redis and S3. To be called at rest."""
    rows = rows_of(connection)
    receipts: dict[str, tuple[str, str] | None] = {}
    by_tenant = defaultdict[str, list[str]](list)
    for row in rows:
        by_tenant[row.tenant_id].append(row.run_id)
    for tenant_id, run_ids in by_tenant.items():
        receipts |= zip(run_ids, ledger.receipts(tenant_id, run_ids), strict=True)
    given = dict(connection.execute(_CREDITS).fetchall())
    spent = {one: int(given.get(one, 0)) - (ledger.balance(one) or 0) for one in all_tenants(connection)}
    return Kept(rows, receipts, dict(_digests(state, rows)), spent)


def rows_of(connection: psycopg.Connection[Any]) -> list[Row]:
    """Every run."""
    return [Row(*row) for row in connection.execute(_RUNS)]


def _digests(state: StackState, rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """Of every result that a row points to and that is there."""
    s3 = client_session(state.aws_endpoint_url).client("s3", endpoint_url=state.aws_endpoint_url)

    def digest(key: str) -> tuple[str, str] | None:
        try:
            body = s3.get_object(Bucket=state.outputs["ResultsBucket"], Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return None
        return key, hashlib.sha256(body).hexdigest()

    with ThreadPoolExecutor(_READERS) as readers:
        for found in readers.map(digest, [row.result_key for row in rows if row.result_key is not None]):
            if found is not None:
                yield found
