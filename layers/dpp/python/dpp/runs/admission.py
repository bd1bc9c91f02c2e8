"""A request's business with Redis (RUN-4, RUN-14, D4): one round trip before the insert, one after it."""

from dataclasses import dataclass
from uuid import UUID

from dpp.money.ledger import LEDGER_FUNCTIONS, RESERVATION_TTL_SECONDS, AmountRefused, Ledger, read_balance
from dpp.platform.db.rate_limit import RATE_LIMIT_FUNCTIONS, RateState
from dpp.platform.db.redis import Script
from dpp.platform.keys.api_keys import Caller

LOCK_TTL_SECONDS = 5
MAPPING_TTL_SECONDS = 30 * 86_400

_LUA = "dpp.runs.lua"
_ADMIT = Script(LEDGER_FUNCTIONS, RATE_LIMIT_FUNCTIONS, (_LUA, "admit.lua"))
_REMEMBER = Script((_LUA, "remember.lua"))
_FORGET = Script((_LUA, "forget.lua"))
_OBSERVE = Script(RATE_LIMIT_FUNCTIONS, (_LUA, "observe.lua"))


@dataclass(frozen=True, slots=True)
class Ticket:
    """One submit as Redis needs to know it. `run_id` is new with every request."""

    tenant_id: str
    run_id: UUID
    idempotency_key: str
    payload_hash: str
    reserved_usd_micros: int
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """The money is set aside and the lock is held."""


@dataclass(frozen=True, slots=True)
class TooMany:
    """The bucket is empty; nothing was looked up or set aside."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The balance is below the amount; the lock was given up."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The key belongs to a run already."""

    run_id: UUID
    payload_hash: str


@dataclass(frozen=True, slots=True)
class Locked:
    """Another request with the key is between its lock and its mapping."""

    payload_hash: str


type Outcome = Admitted | TooMany | Drained | Mapped | Locked


@dataclass(frozen=True, slots=True)
class Admission:
    """What Redis answered, with the bucket and the balance after it."""

    outcome: Outcome
    rate: RateState
    balance_usd_micros: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What a read learns from Redis."""

    allowed: bool
    rate: RateState
    balance_usd_micros: int


def admit(ledger: Ledger, caller: Caller, ticket: Ticket) -> Admission:
    """Count the request, look its key up, lock it and reserve, all or nothing.

    Raises RedisUnavailable when no answer came: a reservation that was made all the same has no run, and
    reconcile gives it back (D2). The lock ends by itself after 5 s.
    """
    keys = ledger.keys
    reply = _ADMIT.run(
        ledger.client,
        [
            *ledger.move_keys(ticket.tenant_id, str(ticket.run_id)),
            keys.rate_limit(ticket.tenant_id),
            keys.idempotency(ticket.tenant_id, ticket.idempotency_key),
            keys.idempotency_lock(ticket.tenant_id, ticket.idempotency_key),
        ],
        (
            str(ticket.run_id),
            ticket.tenant_id,
            ticket.reserved_usd_micros,
            ticket.created_at_ms,
            RESERVATION_TTL_SECONDS * 1000,
            ticket.payload_hash,
            LOCK_TTL_SECONDS * 1000,
            caller.rate_limit_per_minute,
        ),
    )
    rate = RateState(caller.rate_limit_per_minute, int(reply[0]), int(reply[1]))
    return Admission(_outcome(reply[2:]), rate, read_balance(reply[-1]))


def remember(ledger: Ledger, ticket: Ticket) -> None:
    """Map the key to the inserted run for 30 days and give up the lock."""
    args = (str(ticket.run_id), ticket.payload_hash, ticket.created_at_ms, MAPPING_TTL_SECONDS * 1000)
    _REMEMBER.run(ledger.client, _idempotency_keys(ledger, ticket.tenant_id, ticket.idempotency_key), args)


def forget(ledger: Ledger, tenant_id: str, idempotency_key: str, run_id: UUID, payload_hash: str) -> None:
    """Free the key again, where it is still this run's."""
    keys = _idempotency_keys(ledger, tenant_id, idempotency_key)
    _FORGET.run(ledger.client, keys, (str(run_id), payload_hash))


def observe(ledger: Ledger, caller: Caller) -> Observation:
    """Count a read and learn the balance."""
    keys = [ledger.keys.rate_limit(caller.tenant_id), ledger.keys.balance(caller.tenant_id)]
    remaining, reset, allowed, balance = _OBSERVE.run(ledger.client, keys, (caller.rate_limit_per_minute,))
    rate = RateState(caller.rate_limit_per_minute, int(remaining), int(reset))
    return Observation(allowed == "1", rate, read_balance(balance))


def _outcome(reply: list[str]) -> Outcome:
    match reply:
        case ["OK", _]:
            return Admitted()
        case ["RATE_LIMITED", _]:
            return TooMany()
        case ["ERR_INSUFFICIENT", _]:
            return Drained()
        case ["MAPPED", run_id, payload_hash, _]:
            return Mapped(UUID(run_id), payload_hash)
        case ["LOCKED", payload_hash, _]:
            return Locked(payload_hash)
        case other:
            raise AmountRefused(f"admission answered {other[0]}")


def _idempotency_keys(ledger: Ledger, tenant_id: str, idempotency_key: str) -> list[str]:
    keys = ledger.keys
    return [keys.idempotency(tenant_id, idempotency_key), keys.idempotency_lock(tenant_id, idempotency_key)]
