"""The ledger: balances and reservations in Redis, each move one Lua script (RUN-6, D2).

Every move may be repeated. A run is reserved once; a settle or a refund leaves a receipt, which a repetition returns.
So a crash between a move and the write after it costs nothing: reconcile repeats the step, both for a run (D3) and
for a reservation that never became a run (D2).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from dpp.money.books import Books
from dpp.money.keys import KeySpace
from dpp.platform.config import RedisAddress
from dpp.platform.db.redis import RedisClient, Reply, Script, connect, unavailable_as_typed
from dpp.platform.errors import RedisUnavailable

RESERVATION_TTL_SECONDS = 3_600
RECEIPT_TTL_SECONDS = 7 * 86_400

_PAGE = 500
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)

_LUA = "dpp.money.lua"
LEDGER_FUNCTIONS = (_LUA, "ledger.lua")
_BOOKS = (_LUA, "books.lua")
_RESERVE = Script(LEDGER_FUNCTIONS, (_LUA, "reserve.lua"))
_SETTLE = Script(LEDGER_FUNCTIONS, (_LUA, "settle.lua"))
_REFUND_FULL = Script(LEDGER_FUNCTIONS, (_LUA, "refund_full.lua"))
_REOPEN = Script(LEDGER_FUNCTIONS, (_LUA, "reopen.lua"))
_CREDIT = Script(LEDGER_FUNCTIONS, (_LUA, "credit.lua"))
_REBUILD = Script(LEDGER_FUNCTIONS, _BOOKS, (_LUA, "rebuild.lua"))
_MEASURE = Script(LEDGER_FUNCTIONS, _BOOKS, (_LUA, "measure.lua"))
_RECEIPTS = Script((_LUA, "receipts.lua"))


class LedgerError(Exception):
    """The ledger refused a move."""


class InsufficientBudget(LedgerError):
    """The balance is below the amount to be reserved (402 BUDGET_DRAINED)."""

    def __init__(self, balance_usd_micros: int) -> None:
        super().__init__("the balance is below the amount to be reserved")
        self.balance_usd_micros = balance_usd_micros


class AlreadyReserved(LedgerError):
    """This run has a reservation, or had one that was closed."""


class NoReservation(LedgerError):
    """Redis holds neither a reservation nor a receipt for this run: it lost them, or never had them."""


class AmountRefused(LedgerError):
    """The amount is not an integer from 1 to 2^53 - 1 micros, or would take the balance above that."""


class LedgerLost(RedisUnavailable):
    """Redis holds no balance for a tenant that must have one: the data are lost until they are rebuilt."""


class ReservationLost(LedgerLost):
    """Redis holds a balance, but neither the run's reservation nor its receipt.

    This is not a dispute: Postgres says that the reservation is open, and reconcile's audit enters it again
    (`dpp.money.drift`).
    """


class CloseKind(StrEnum):
    """The two ways to close a reservation."""

    SETTLED = "SETTLED"
    REFUNDED = "REFUNDED"


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed reservation; amounts in micros. `repeated`: an earlier call closed it, and this one moved nothing."""

    kind: CloseKind
    charge_usd_micros: int
    refund_usd_micros: int
    balance_usd_micros: int
    repeated: bool


@dataclass(frozen=True, slots=True)
class Calculated:
    """The balance that must be, in micros, by the books of Postgres and what only Redis knows (lua/books.lua)."""

    balance_usd_micros: int
    in_flight_usd_micros: int
    """Reserved for runs that Postgres does not know."""
    missing_reservations: int
    """Open runs for which Redis held neither a reservation nor a receipt."""


class Ledger:
    """The ledger of one deployment. Every method raises RedisUnavailable when Redis does not answer."""

    def __init__(self, client: RedisClient, keys: KeySpace) -> None:
        self.client = client
        self.keys = keys

    @classmethod
    def connect(cls, address: RedisAddress, *, cluster: bool = False) -> Self:
        """A ledger with its own client, which connects at the first move."""
        return cls(connect(address, cluster=cluster), KeySpace(cluster))

    def reserve(self, tenant_id: str, run_id: str, amount_usd_micros: int, created_at_ms: int) -> int:
        """Reserve `amount_usd_micros` for a run and return the new balance.

        Raises InsufficientBudget, AlreadyReserved, AmountRefused.
        """
        args = (run_id, tenant_id, amount_usd_micros, created_at_ms, RESERVATION_TTL_SECONDS * 1000)
        match _RESERVE.run(self.client, self.move_keys(tenant_id, run_id), args):
            case ["OK", balance]:
                return int(balance)
            case ["ERR_INSUFFICIENT", balance]:
                raise InsufficientBudget(int(balance))
            case ["ERR_ALREADY_RESERVED"]:
                raise AlreadyReserved
            case other:
                raise _refused(other)

    def settle(self, tenant_id: str, run_id: str, charge_usd_micros: int) -> Closed:
        """Close a run's reservation: keep the charge (at most the reserved amount) and refund the rest.

        Raises NoReservation, LedgerLost, AmountRefused.
        """
        return self._close(_SETTLE, tenant_id, run_id, charge_usd_micros)

    def refund_full(self, tenant_id: str, run_id: str) -> Closed:
        """Close a run's reservation and refund all of it. Raises NoReservation, LedgerLost."""
        return self._close(_REFUND_FULL, tenant_id, run_id)

    def reopen(self, tenant_id: str, run_id: str, reserved_usd_micros: int, charge: int, kind: CloseKind) -> None:
        """Reopen a reservation whose receipt differs from `charge` (micros) and `kind`, so that it can be closed so.

        Only for an operator's decision about a DISPUTED run (D3), which nothing else touches. Raises NoReservation,
        LedgerLost.
        """
        args = (run_id, reserved_usd_micros, charge, kind.value)
        reply = _REOPEN.run(self.client, self.move_keys(tenant_id, run_id), args)
        if reply[0] != "OK":
            raise self._not_closed(tenant_id, reply)

    def credit(self, tenant_id: str, credit_id: str, amount_usd_micros: int, *, opens: bool = True) -> int:
        """Add a credit to the balance, once per `credit_id`, and return the new balance. Raises AmountRefused.

        Where there is no balance, the credit creates one. With `opens=False` it raises LedgerLost instead, because a
        new balance would hide that the old one was lost.
        """
        keys = [self.keys.balance(tenant_id), self.keys.credits_applied(tenant_id)]
        match _CREDIT.run(self.client, keys, (credit_id, amount_usd_micros, int(opens))):
            case ["OK", balance, _]:
                return int(balance)
            case ["ERR_NO_BALANCE"]:
                raise LedgerLost("there is no balance to add to")
            case other:
                raise _refused(other)

    def balance(self, tenant_id: str) -> int | None:
        """Micros that the tenant may still reserve; None if Redis holds no balance for it."""
        text = self.balance_text(tenant_id)
        return None if text is None else read_balance(text)

    def balance_text(self, tenant_id: str) -> str | None:
        """The balance as stored, unparsed; None if there is none."""
        with unavailable_as_typed():
            text = self.client.get(self.keys.balance(tenant_id))
        return None if text is None else str(text)

    def reservations_older_than(self, tenant_id: str, age_seconds: int) -> list[str]:
        """Run ids of all open reservations at least `age_seconds` old by Redis's clock, oldest first.

        Reads all of them before the caller closes any: closing then moves no page boundary, and reservations that stay
        open hide none behind them. A reservation is open for an hour at most, which bounds the list.
        """
        ages = self.keys.reservation_ages(tenant_id)
        found: list[str] = []
        with unavailable_as_typed():
            seconds, _ = self.client.time()
            latest_ms = (int(seconds) - age_seconds) * 1000
            while True:
                page = self.client.zrangebyscore(ages, "-inf", latest_ms, start=len(found), num=_PAGE)
                found += [str(run_id) for run_id in page]
                if len(page) < _PAGE:
                    return found

    def open_reservations(self, tenant_id: str) -> list[str]:
        """Run ids of all open reservations, in no order."""
        with unavailable_as_typed():
            return [str(run_id) for run_id in self.client.hkeys(self.keys.reservation_amounts(tenant_id))]

    def receipts(self, tenant_id: str, run_ids: Sequence[str]) -> list[tuple[str, str] | None]:
        """For each run, how its reservation was closed and its charge; None where there is no receipt (any more)."""
        if not run_ids:
            return []
        keys = [self.keys.receipt(tenant_id, run) for run in run_ids]
        _, *fields = _RECEIPTS.run(self.client, keys, ())
        pairs = zip(fields[::2], fields[1::2], strict=True)
        return [(kind, charge) if kind else None for kind, charge in pairs]

    def rewrite(self, tenant_id: str, books: Books, before: str) -> Calculated | None:
        """Rewrite the balance and the index from `books` (`dpp.money.rebuild`).

        None, with nothing written, if the balance is no longer `before`: the books may be stale then.
        """
        return self._calculate(_REBUILD, tenant_id, books, before)

    def measure(self, tenant_id: str, books: Books, before: str) -> Calculated | None:
        """Calculate as `rewrite`, without writing; None as there."""
        return self._calculate(_MEASURE, tenant_id, books, before)

    def move_keys(self, tenant_id: str, run_id: str) -> list[str]:
        """The keys of every move, in the order that `ledger.lua` names."""
        keys = self.keys
        return [
            keys.balance(tenant_id),
            keys.reservation(tenant_id, run_id),
            keys.receipt(tenant_id, run_id),
            keys.reservation_ages(tenant_id),
            keys.reservation_amounts(tenant_id),
        ]

    def _close(self, script: Script, tenant_id: str, run_id: str, *charge_usd_micros: int) -> Closed:
        args: list[str | int] = [run_id, *charge_usd_micros, RECEIPT_TTL_SECONDS * 1000]
        match script.run(self.client, self.move_keys(tenant_id, run_id), args):
            case ["OK", charge, refund, balance, kind, how]:
                return Closed(CloseKind(kind), int(charge), int(refund), int(balance), how == "REPEATED")
            case other:
                raise self._not_closed(tenant_id, other)

    def _calculate(self, script: Script, tenant_id: str, books: Books, before: str) -> Calculated | None:
        keys = self.keys
        names = [
            keys.balance(tenant_id),
            keys.reservation_ages(tenant_id),
            keys.reservation_amounts(tenant_id),
            keys.credits_applied(tenant_id),
            *(keys.receipt(tenant_id, run_id) for run_id, _ in books.open_runs),
        ]
        match script.run(self.client, names, (books.to_json(), before)):
            case ["OK", balance, in_flight, missing]:
                return Calculated(read_balance(balance), int(in_flight), int(missing))
            case ["ERR_MOVED"]:
                return None
            case other:
                raise _refused(other)

    def _not_closed(self, tenant_id: str, reply: Reply) -> Exception:
        """LedgerLost where the balance is missing too: then all of the ledger's data are lost, not one run's."""
        error = _refused(reply)
        if isinstance(error, NoReservation) and self.balance(tenant_id) is None:
            return LedgerLost("the balance is gone")
        return error


def read_balance(text: str) -> int:
    """A balance as stored, in micros. Raises RedisUnavailable for a value that no move can have left."""
    found = whole_number(text)
    if found is None:
        raise RedisUnavailable("the balance is not an integer")
    return found


def whole_number(text: str | None) -> int | None:
    """`text` as an integer; None for no value and for a value that is not an integer."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def _refused(reply: Reply) -> LedgerError:
    match reply[0]:
        case "ERR_NO_RESERVE":
            return NoReservation()
        case "ERR_BAD_AMOUNT" | "ERR_TOO_LARGE" as code:
            return AmountRefused(f"the ledger refused the amount: {code}")
        case code:
            raise AssertionError(f"a ledger script returned {code}, which its head does not name")
