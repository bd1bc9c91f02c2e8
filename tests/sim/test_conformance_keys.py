"""The models of the scripts are Redis: the same calls on both, compared call by call and key by key."""

import time
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from dpp.money import ledger as scripts
from dpp.money.books import Books
from dpp.money.ledger import Ledger
from dpp.platform.db.redis import Script
from dpp.platform.keys.api_keys import Caller
from dpp.runs import admission, lease
from dpp.runs.admission import Ticket
from dpp_cli.local.servers import ValkeyServer
from tests.sim.conformance import EXAMPLES, HASH, OTHER_HASH, outcome, two_ledgers
from tests.sim.model_redis import Keys
from tests.sim.ports import SimRedis

_RUN = st.integers(0, 2)
_TEXT_AMOUNTS = (
    "0",
    "1",
    "007",
    "300",
    "-1",
    "1e3",
    "",
    "9007199254740991",
    "9007199254740992",
    "1.5",
    "99999999999999999999",
)
_MOVES = st.one_of(
    st.tuples(st.just("credit"), st.integers(0, 2), st.sampled_from([500, 10**14, 2**53 - 1]), st.booleans()),
    st.tuples(st.just("reserve"), _RUN, st.sampled_from([1, 200, 400, 10**14])),
    st.tuples(st.just("settle"), _RUN, st.sampled_from([0, 150, 10**15])),
    st.tuples(st.just("refund"), _RUN),
    st.tuples(st.just("raw"), _RUN, st.sampled_from(_TEXT_AMOUNTS)),
    st.tuples(st.just("hour"), _RUN),
    st.tuples(
        st.just("admit"),
        _RUN,
        st.integers(0, 1),
        st.sampled_from([HASH, OTHER_HASH]),
        st.sampled_from([100, 400]),
    ),
    st.tuples(st.just("remember"), _RUN, st.integers(0, 1), st.sampled_from([HASH, OTHER_HASH])),
    st.tuples(st.just("forget"), _RUN, st.integers(0, 1), st.sampled_from([HASH, OTHER_HASH])),
    st.tuples(st.just("observe")),
    st.tuples(st.just("lease"), _RUN, st.sampled_from(["mine", "yours"])),
    st.tuples(st.just("extend"), _RUN, st.sampled_from(["mine", "yours"])),
    st.tuples(st.just("release"), _RUN, st.sampled_from(["mine", "yours"])),
    st.tuples(st.just("open")),
    st.tuples(
        st.just("rebuild"),
        st.lists(_RUN, unique=True),
        st.lists(_RUN, unique=True),
        st.sampled_from([500, -3, 10**14]),
    ),
    st.tuples(st.just("lose the balance")),
)


@dataclass
class _Moves:
    """One side's ledger, and the names that both sides use."""

    ledger: Ledger
    tenant: str
    runs: list[UUID]
    limit: int

    def do(self, move: tuple[Any, ...]) -> object:
        """One move; what depends on the very second is left out."""
        return outcome(lambda: self._do(move))

    def _do(  # noqa: PLR0911 - a case a move
        self, move: tuple[Any, ...]
    ) -> object:
        ledger, tenant = self.ledger, self.tenant
        name, *rest = move
        run_id = str(self.runs[rest[0]]) if rest and name not in ("credit", "rebuild") else ""
        match name:
            case "credit":
                return ledger.credit(tenant, f"credit-{rest[0]}", rest[1], opens=rest[2])
            case "reserve":
                return ledger.reserve(tenant, run_id, rest[1], 1)
            case "settle":
                return ledger.settle(tenant, run_id, rest[1])
            case "refund":
                return ledger.refund_full(tenant, run_id)
            case "raw":
                return self._raw(run_id, rest[1])
            case "hour":
                ledger.client.delete(ledger.keys.reservation(tenant, run_id))
                return None
            case "rebuild":
                return self._rebuild(*rest)
            case "lose the balance":
                ledger.client.delete(ledger.keys.balance(tenant))
                return None
            case "open":
                return sorted(ledger.reservations_older_than(tenant, -1)), ledger.balance(tenant)
            case _:
                return self._request(name, run_id, rest)

    def _rebuild(self, open_: list[int], closed: list[int], credits_minus_charges: int) -> object:
        books = Books(
            credits_minus_charges,
            [(str(self.runs[index]), "200") for index in open_],
            [str(self.runs[index]) for index in closed],
            [("credit-0", "500"), ("credit-9", "70")],
        )
        ledger, tenant = self.ledger, self.tenant
        receipts = ledger.receipts(tenant, [str(run_id) for run_id in self.runs])
        before = ledger.balance_text(tenant) or ""
        looks = [ledger.measure(tenant, books, text) for text in ("12345", before)]
        stale = ledger.rewrite(tenant, books, "12345")
        done = ledger.rewrite(tenant, books, before)
        return sorted(ledger.open_reservations(tenant)), receipts, looks, stale, done

    def _request(self, name: str, run_id: str, rest: list[Any]) -> object:
        caller = Caller(self.tenant, uuid4(), self.limit)
        match name:
            case "admit":
                _, key, digest, amount = rest
                ticket = Ticket(self.tenant, UUID(run_id), f"key-{key}", digest, amount, 1)
                admitted = admission.admit(self.ledger, caller, ticket)
                return replace(admitted, rate=replace(admitted.rate, reset_seconds=0))
            case "remember":
                ticket = Ticket(self.tenant, UUID(run_id), f"key-{rest[1]}", rest[2], 1, 1)
                admission.remember(self.ledger, ticket)
                return None
            case "forget":
                admission.forget(self.ledger, self.tenant, f"key-{rest[1]}", UUID(run_id), rest[2])
                return None
            case "observe":
                seen = admission.observe(self.ledger, caller)
                return replace(seen, rate=replace(seen.rate, reset_seconds=0))
            case _:
                return self._lease(name, run_id, rest[1])

    def _lease(self, name: str, run_id: str, token: str) -> object:
        key, client = self.ledger.keys.lease(self.tenant, run_id), self.ledger.client
        match name:
            case "lease":
                client.set(key, token, nx=True, ex=120)
                return None
            case "extend":
                return lease._EXTEND.run(client, [key], (token, 120_000))
            case _:
                return lease._RELEASE.run(client, [key], (token,))

    def _raw(self, run_id: str, amount: str) -> list[object]:
        """Amounts that the Python side never sends."""
        keys = self.ledger.move_keys(self.tenant, run_id)
        credit_keys = [keys[0], self.ledger.keys.credits_applied(self.tenant)]
        calls: list[tuple[Script, list[str], tuple[str | int, ...]]] = [
            (scripts._CREDIT, credit_keys, (f"raw-{amount}", amount, 0)),
            (scripts._RESERVE, keys, (run_id, self.tenant, amount, 1, 3_600_000)),
            (scripts._SETTLE, keys, (run_id, amount, 604_800_000)),
        ]
        return [script.run(self.ledger.client, names, args) for script, names, args in calls]

    def left(self) -> dict[str, object]:
        """Every key: its value without its moments, and whether it ends by itself."""
        keys, tenant = self.ledger.keys, self.tenant
        names = [
            keys.balance(tenant),
            keys.credits_applied(tenant),
            keys.reservation_amounts(tenant),
            keys.reservation_ages(tenant),
            keys.rate_limit(tenant),
            *(keys.idempotency(tenant, f"key-{key}") for key in range(2)),
            *(keys.idempotency_lock(tenant, f"key-{key}") for key in range(2)),
        ]
        for run_id in map(str, self.runs):
            names += [
                keys.reservation(tenant, run_id),
                keys.receipt(tenant, run_id),
                keys.lease(tenant, run_id),
            ]
        return {name: self._value(name) for name in names}

    def _value(self, name: str) -> object:
        client: Any = self.ledger.client
        if isinstance(client, SimRedis):
            return _model_value(client._keys, name)
        ttl = client.pttl(name)
        ends = None if ttl < 0 else round(ttl / 1000, -1)
        match client.type(name):
            case "string":
                return client.get(name), ends
            case "hash":
                value = client.hgetall(name)
                return sorted(value) if name.startswith("rate:") else value, ends
            case "zset":
                return set(client.zrange(name, 0, -1)), ends
            case "set":
                return set(client.smembers(name)), ends
            case _:
                return None, None


def _model_value(keys: Keys, name: str) -> object:
    keys.at(int(time.time() * 1000))
    at_ms = keys.expires_at_ms.get(name)
    ends = None if at_ms is None else round((at_ms - time.time() * 1000) / 1000, -1)
    if name in keys.strings:
        return keys.strings[name], ends
    if name in keys.hashes:
        value = keys.hashes[name]
        return sorted(value) if name.startswith("rate:") else value, ends
    if name in keys.scores:
        return set(keys.scores[name]), ends
    if name in keys.sets:
        return set(keys.sets[name]), ends
    return None, None


@EXAMPLES
@given(moves=st.lists(_MOVES, min_size=3, max_size=30), limit=st.sampled_from([4, 100]))
def test_any_sequence_of_script_calls_does_the_same_to_the_model_and_to_redis(
    valkey_server: ValkeyServer, moves: list[tuple[Any, ...]], limit: int
) -> None:
    """Every script's replies, and every key that they leave, its expiry included."""
    with two_ledgers(valkey_server) as (model, real):
        tenant, runs = f"t_{uuid4().hex[:12]}", [uuid4() for _ in range(3)]
        ours, theirs = _Moves(model, tenant, runs, limit), _Moves(real, tenant, runs, limit)
        for move in moves:
            assert ours.do(move) == theirs.do(move), move
        assert ours.left() == theirs.left()
