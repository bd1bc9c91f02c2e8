"""The invariants that hold after the recovery from a crash, read from the real servers; each violation as a sentence.

The simulation's invariants (tests/sim/invariants.py) check runs, receipts, ledger and objects, on the servers' data in
the form of its in-memory servers. This module adds what only real servers show.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.ledger import RECEIPT_TTL_SECONDS
from dpp.packs.contract import PackResult
from tests.crash.environment import Client, Environment
from tests.crash.recovery import is_idle
from tests.sim import invariants
from tests.sim.database import Row
from tests.sim.keys import Keys, Members, Scores
from tests.sim.simulation import Accepted
from tests.support.charges import miscounted
from tests.support.world import A_COST


@dataclass(slots=True)
class Snapshot:
    """The servers' data in the form of the simulation's in-memory servers."""

    env: Environment
    tables: dict[str, list[Row]]
    keys: Keys
    objects: dict[str, bytes]
    accepted: list[Accepted]
    started: Counter[str]
    answers: dict[str, list[PackResult]]
    writes_lost: int = 0
    flushes: int = field(default=0, init=False)

    def rows(self, table: str) -> list[Row]:
        """All rows of a table; none of a table that only the simulation has."""
        return self.tables.get(table, [])

    def drift_of(self, tenant_id: str) -> int:
        """The drift that the platform's own audit finds."""
        return _position(self.env, tenant_id).drift_usd_micros


def snapshot(env: Environment) -> Snapshot:
    """Read everything but the objects."""
    tables = ("runs", "tenants", "budget_credits", "ledger_rebuilds")
    return Snapshot(
        env=env,
        tables={name: _rows(env, f"SELECT * FROM {name}") for name in tables},
        keys=_keys(env),
        objects={},
        accepted=[
            accepted for number, client in enumerate(env.clients) for accepted in _accepted(f"client {number}", client)
        ],
        started=env.packs.started,
        answers=env.packs.answers,
        writes_lost=int(env.redis_lost_writes),
    )


def violations_after_recovery(env: Environment) -> list[str]:
    """Violations once nothing is left to do. Receipts last 7 days; after that nothing is checked here."""
    if env.clock.seconds > RECEIPT_TTL_SECONDS:
        return []
    found = snapshot(env)
    found.objects = env.world.s3.objects
    return [*invariants.broken(found), *_moves(env, found), *_clients(env, found), *_miscounted(env)]


def violations_after_retention(env: Environment) -> list[str]:
    """Violations once a month has passed. Objects expire by the bucket's lifecycle (RUN-30)."""
    alive = _rows(env, "SELECT run_id, status FROM runs WHERE status <> 'EXPIRED'")
    inputs = _rows(env, "SELECT run_id FROM run_inputs")
    audits = {tenant.tenant_id: _position(env, tenant.tenant_id) for tenant in env.tenants}
    return [
        *(f"run {row['run_id']} is {row['status']} after its retention" for row in alive),
        *(f"the inputs of {row['run_id']} are left after retention" for row in inputs),
        *(f"{tenant}: {found} after retention" for tenant, found in audits.items() if not found.balanced),
        *([] if is_idle(env) else ["something is under way after retention"]),
        *(["there is a dead letter, which a redrive would send again"] if env.messages(dead=True) else []),
    ]


def _miscounted(env: Environment) -> list[str]:
    return env.world.database.using(miscounted)


def _position(env: Environment, tenant_id: str) -> LedgerPosition:
    return env.world.database.using(audit_tenant, env.world.ledger, tenant_id)


def _clients(env: Environment, found: Snapshot) -> Iterator[str]:
    for client in env.clients:
        rows = [row for row in found.rows("runs") if row["idempotency_key"] == client.request.idempotency_key]
        paid = sum(row["actual_cost_usd_micros"] or 0 for row in rows)
        if client.persistent and paid != A_COST:
            yield f"a persistent client paid {paid} for {len(rows)} runs"
        if not client.accepted:
            continue
        accepted = client.accepted[-1].run
        again = client.submit(env.world.submit_effects())
        if again is None or not again.replayed or again.run.run_id != accepted.run_id:
            yield f"a client was accepted as {accepted.run_id}, and then as {again and again.run.run_id}"


def _moves(env: Environment, found: Snapshot) -> Iterator[str]:
    """A reservation moves the balance once, its closing moves it once more and leaves one receipt."""
    if env.redis_lost_writes:
        return
    receipts = [key for key in found.keys.values if key.startswith("receipt:")]
    moves = env.moves()
    if moves != 2 * len(receipts):
        yield f"{moves} moves of balances, {len(receipts)} receipts"


def _accepted(name: str, client: Client) -> Iterator[Accepted]:
    request = client.request
    for accepted in client.accepted:
        run = accepted.run
        yield Accepted(name, request.tenant_id, request.idempotency_key, run.payload_hash, run.run_id)


def _rows(env: Environment, statement: str) -> list[dict[str, Any]]:
    with env.world.database.connection() as connection:
        cursor = connection.execute(statement.encode())
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def _keys(env: Environment) -> Keys:
    client: Any = env.world.ledger.client
    keys = Keys()
    names = list(client.scan_iter(count=1_000))
    with client.pipeline(transaction=False) as reads:
        for name in names:
            reads.type(name)
        kinds = reads.execute()
    for name, kind in zip(names, kinds, strict=True):
        match kind:
            case "string":
                keys.values[name] = client.get(name)
            case "hash":
                keys.values[name] = client.hgetall(name)
            case "zset":
                scores = client.zrange(name, 0, -1, withscores=True)
                keys.values[name] = Scores({member: int(score) for member, score in scores})
            case _:
                keys.values[name] = Members(dict.fromkeys(client.smembers(name)))
    return keys
