"""What must hold once a crash's aftermath is over, read from the real servers; each broken promise as a sentence.

Runs, receipts, books and objects are checked by the simulation's invariants (tests/sim/invariants.py), on the
servers' data in the form of its in-memory servers. What only real servers show is added here.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.ledger import RECEIPT_TTL_SECONDS
from dpp.packs.contract import PackResult
from tests.crash.environment import Client, Environment
from tests.crash.recovery import is_at_rest
from tests.sim import invariants
from tests.sim.database import Database
from tests.sim.keys import Keys, Members, Scores
from tests.sim.simulation import Accepted
from tests.support.charges import miscounted
from tests.support.world import A_COST


@dataclass(slots=True)
class Snapshot:
    """The servers' data in the form of the simulation's in-memory servers."""

    env: Environment
    database: Database
    keys: Keys
    objects: dict[str, bytes]
    accepted: list[Accepted]
    started: Counter[str]
    answers: dict[str, list[PackResult]]
    writes_lost: int = 0
    flushes: int = field(default=0, init=False)

    def drift_of(self, tenant_id: str) -> int:
        """What the platform's own audit finds, in micros."""
        return _position(self.env, tenant_id).drift_usd_micros


def snapshot(env: Environment) -> Snapshot:
    """Read everything but the objects."""
    tables = ("runs", "tenants", "budget_credits", "ledger_rebuilds")
    return Snapshot(
        env=env,
        database=Database.of({name: _rows(env, f"SELECT * FROM {name}") for name in tables}),
        keys=_keys(env),
        objects={},
        accepted=[
            told
            for number, client in enumerate(env.clients)
            for told in _accepted(f"client {number}", client)
        ],
        started=env.packs.started,
        answers=env.packs.answers,
        writes_lost=int(env.redis_lost_writes),
    )


def violations_after_recovery(env: Environment) -> list[str]:
    """Every promise that is broken once nothing is left to do; receipts are asked for while they last (7 days)."""
    if env.clock.elapsed_seconds > RECEIPT_TTL_SECONDS:
        return []
    found = snapshot(env)
    found.objects = env.objects()
    return [
        *invariants.broken(found),
        *_moves(env, found),
        *_clients(env, found),
        *_miscounted(env),
    ]


def violations_after_retention(env: Environment) -> list[str]:
    """Every promise that is broken once a month has passed; the objects are the bucket's own to expire (RUN-30)."""
    alive = _rows(env, "SELECT run_id, status FROM runs WHERE status <> 'EXPIRED'")
    inputs = _rows(env, "SELECT run_id FROM run_inputs")
    audits = {tenant.tenant_id: _position(env, tenant.tenant_id) for tenant in env.tenants}
    return [
        *(f"run {row['run_id']} is {row['status']} after its retention" for row in alive),
        *(f"the inputs of {row['run_id']} are left after retention" for row in inputs),
        *(f"{tenant}: {found} after retention" for tenant, found in audits.items() if not found.balanced),
        *([] if is_at_rest(env) else ["something came back to life after retention"]),
        *(["a message died: it comes again when it is redriven"] if env.messages(dead_ones=True) else []),
    ]


def _miscounted(env: Environment) -> list[str]:
    with env.world.database.connection() as connection:
        return miscounted(connection)


def _position(env: Environment, tenant_id: str) -> LedgerPosition:
    with env.world.database.connection() as connection:
        return audit_tenant(connection, env.world.ledger, tenant_id)


def _clients(env: Environment, found: Snapshot) -> Iterator[str]:
    for client in env.clients:
        rows = [
            row
            for row in found.database.runs.values()
            if row["idempotency_key"] == client.request.idempotency_key
        ]
        paid = sum(row["actual_cost_usd_micros"] or 0 for row in rows)
        if client.persistent and paid != A_COST:
            yield f"a client who asked until accepted paid {paid} for {len(rows)} runs"
        if not client.accepted:
            continue
        told = client.accepted[-1].run
        again = client.ask(env.world.submit_effects())
        if again is None or not again.replayed or again.run.run_id != told.run_id:
            yield f"a client was accepted as {told.run_id}, and then as {again and again.run.run_id}"


def _moves(env: Environment, found: Snapshot) -> Iterator[str]:
    """A reservation is one move of the balance and its closing another, each leaving one receipt."""
    if env.redis_lost_writes:
        return
    receipts = [key for key in found.keys.values if key.startswith("receipt:")]
    moves = env.moves()
    if moves != 2 * len(receipts):
        yield f"{moves} moves of balances, {len(receipts)} receipts"


def _accepted(name: str, client: Client) -> Iterator[Accepted]:
    for told in client.accepted:
        request = client.request
        yield Accepted(
            name, request.tenant_id, request.idempotency_key, told.run.payload_hash, told.run.run_id
        )


def _rows(env: Environment, statement: str) -> list[dict[str, Any]]:
    with env.world.database.connection() as connection:
        cursor = connection.execute(statement.encode())
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]


def _keys(env: Environment) -> Keys:
    client: Any = env.world.ledger.client
    keys = Keys()
    names = list(client.scan_iter(count=1_000))
    with client.pipeline(transaction=False) as asked:
        for name in names:
            asked.type(name)
        kinds = asked.execute()
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
