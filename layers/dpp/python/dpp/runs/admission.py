"""A request's Redis calls (RUN-4, RUN-14, D4): one round trip before the insert, one after it."""

from dataclasses import dataclass
from uuid import UUID

from dpp.money.ledger import LEDGER_FUNCTIONS, RESERVATION_TTL_SECONDS, AmountRefused, Ledger, read_balance
from dpp.platform.db.rate_limit import RATE_LIMIT_FUNCTIONS, RateState
from dpp.platform.db.redis import Script
from dpp.platform.keys.api_keys import Caller
from dpp.runs.errors import RunsError
from dpp.runs.model import Costs, Run, SubmitRequest

LOCK_TTL_SECONDS = 5
MAPPING_TTL_SECONDS = 30 * 86_400

_LUA = "dpp.runs.lua"
_ADMIT = Script(LEDGER_FUNCTIONS, RATE_LIMIT_FUNCTIONS, (_LUA, "admit.lua"))
_REMEMBER = Script((_LUA, "remember.lua"))
_FORGET = Script((_LUA, "forget.lua"))
_OBSERVE = Script(RATE_LIMIT_FUNCTIONS, (_LUA, "observe.lua"))


@dataclass(frozen=True, slots=True)
class Admitted:
    """The money is reserved, and this request holds the key's lock."""


@dataclass(frozen=True, slots=True)
class RateLimited:
    """The rate limit is exhausted; the key was not looked up, and nothing was reserved."""


@dataclass(frozen=True, slots=True)
class InsufficientBudget:
    """The balance is below the amount; the lock was released."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """The key is mapped to this run."""

    run_id: UUID
    payload_hash: str


@dataclass(frozen=True, slots=True)
class Locked:
    """Another request with this key is between its lock and its mapping."""

    payload_hash: str


type Outcome = Admitted | RateLimited | InsufficientBudget | Mapped | Locked


@dataclass(frozen=True, slots=True)
class Admission:
    """The outcome for the new run `run_id`, with the rate limit and the balance after it."""

    run_id: UUID
    outcome: Outcome
    rate: RateState
    balance_usd_micros: int

    def error(self, kind: type[RunsError], detail: str | None = None, run: Run | None = None) -> RunsError:
        """An error that carries the headers of this admission, about `run` if there is one."""
        costs = Costs(budget_remaining_usd_micros=self.balance_usd_micros)
        return kind(detail, run_id=run.id if run else None, rate=self.rate, costs=costs)


@dataclass(frozen=True, slots=True)
class Observation:
    """The rate limit and the balance at a read."""

    allowed: bool
    rate: RateState
    balance_usd_micros: int


def admit(ledger: Ledger, request: SubmitRequest, run_id: UUID, created_at_ms: int) -> Admission:
    """Count the request, look its key up, lock it and reserve the money, all or nothing; `run_id` must be new.

    Raises RedisUnavailable if there was no reply: a reservation made even so has no run, and reconcile refunds it (D2).
    The lock expires after 5 s.
    """
    keys = [
        *ledger.move_keys(request.tenant_id, str(run_id)),
        ledger.keys.rate_limit(request.tenant_id),
        *_idempotency_keys(ledger, request),
    ]
    args = (
        str(run_id),
        request.tenant_id,
        request.reserved_usd_micros,
        created_at_ms,
        RESERVATION_TTL_SECONDS * 1000,
        request.payload_hash,
        LOCK_TTL_SECONDS * 1000,
        request.rate_limit_per_minute,
    )
    remaining, reset, *reply = _ADMIT.run(ledger.client, keys, args)
    rate = RateState(request.rate_limit_per_minute, int(remaining), int(reset))
    return Admission(run_id, _outcome(reply), rate, read_balance(reply[-1]))


def remember(ledger: Ledger, request: SubmitRequest, run: Run) -> None:
    """Map the key to the inserted run for 30 days and release the lock."""
    created_at_ms = int(run.created_at.timestamp() * 1000)
    args = (run.id, run.payload_hash, created_at_ms, MAPPING_TTL_SECONDS * 1000)
    _REMEMBER.run(ledger.client, _idempotency_keys(ledger, request), args)


def forget(ledger: Ledger, request: SubmitRequest, run_id: UUID, payload_hash: str) -> None:
    """Free the key, if its mapping or its lock is still this run's."""
    _FORGET.run(ledger.client, _idempotency_keys(ledger, request), (str(run_id), payload_hash))


def observe(ledger: Ledger, caller: Caller) -> Observation:
    """Count a read, and read the balance."""
    keys = [ledger.keys.rate_limit(caller.tenant_id), ledger.keys.balance(caller.tenant_id)]
    remaining, reset, allowed, balance = _OBSERVE.run(ledger.client, keys, (caller.rate_limit_per_minute,))
    rate = RateState(caller.rate_limit_per_minute, int(remaining), int(reset))
    return Observation(allowed == "1", rate, read_balance(balance))


def _outcome(reply: list[str]) -> Outcome:
    match reply:
        case ["OK", _]:
            return Admitted()
        case ["RATE_LIMITED", _]:
            return RateLimited()
        case ["ERR_INSUFFICIENT", _]:
            return InsufficientBudget()
        case ["MAPPED", run_id, payload_hash, _]:
            return Mapped(UUID(run_id), payload_hash)
        case ["LOCKED", payload_hash, _]:
            return Locked(payload_hash)
        case other:
            raise AmountRefused(f"admission refused the amount: {other[0]}")


def _idempotency_keys(ledger: Ledger, request: SubmitRequest) -> list[str]:
    keys, names = ledger.keys, (request.tenant_id, request.idempotency_key)
    return [keys.idempotency(*names), keys.idempotency_lock(*names)]
