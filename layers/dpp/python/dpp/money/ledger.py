"""The ledger: balances and reservations in Redis, each move one Lua script (RUN-6, D2).

Every move may be asked for twice. A reservation is entered once; a settle or a refund leaves a receipt and
answers from it afterwards. A crash between a move and the write that follows it therefore costs nothing:
whoever repeats the step gets the first answer. Who repeats it: reconcile, for a run (D3) and for a
reservation that never became one (D2).
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
_RESERVE = Script(LEDGER_FUNCTIONS, (_LUA, "reserve.lua"))
_SETTLE = Script(LEDGER_FUNCTIONS, (_LUA, "settle.lua"))
_REFUND_FULL = Script(LEDGER_FUNCTIONS, (_LUA, "refund_full.lua"))
_REOPEN = Script(LEDGER_FUNCTIONS, (_LUA, "reopen.lua"))
_CREDIT = Script(LEDGER_FUNCTIONS, (_LUA, "credit.lua"))
_BOOKS = (_LUA, "books.lua")
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
    """Neither a reservation nor a receipt of this run: Redis has lost them, or never had them."""


@dataclass(frozen=True, slots=True)
class Reckoned:
    """What a balance must be, in micros, by what Postgres told and Redis knows better (lua/books.lua)."""

    balance_usd_micros: int
    in_flight_usd_micros: int
    """Reserved, and of no run that Postgres knows."""
    missing_reservations: int
    """Open runs of which Redis held neither a reservation nor a receipt."""


class LedgerLost(RedisUnavailable):
    """Redis holds no balance for a tenant that must have one: its data are gone until they are rebuilt."""


class ReservationLost(LedgerLost):
    """Redis lost a run's reservation: it holds a balance, and neither reservation nor receipt of the run.

    No dispute: by Postgres the reservation is open, and the audit of reconcile enters it anew (`dpp.money.drift`).
    """


class AmountRefused(LedgerError):
    """The amount is not an integer of micros from 1 to 2^53 - 1, or the balance would pass that."""


class CloseKind(StrEnum):
    """How a reservation was closed."""

    SETTLED = "SETTLED"
    REFUNDED = "REFUNDED"


@dataclass(frozen=True, slots=True)
class Closed:
    """What closing a reservation did; amounts in micros."""

    kind: CloseKind
    charge_usd_micros: int
    refund_usd_micros: int
    balance_usd_micros: int
    repeated: bool
    """True when an earlier call did it and this one moved nothing."""


class Ledger:
    """The moves of one deployment's ledger. Raises RedisUnavailable where Redis gave no answer."""

    def __init__(self, client: RedisClient, keys: KeySpace) -> None:
        self.client = client
        self.keys = keys

    @classmethod
    def connect(cls, address: RedisAddress, *, cluster: bool = False) -> Self:
        """A ledger on its own client; connects at the first move."""
        return cls(connect(address, cluster=cluster), KeySpace(cluster))

    def reserve(self, tenant_id: str, run_id: str, amount_usd_micros: int, created_at_ms: int) -> int:
        """Set `amount_usd_micros` aside for a run; the new balance.

        Raises InsufficientBudget, AlreadyReserved, AmountRefused.
        """
        args = (tenant_id, amount_usd_micros, created_at_ms, run_id, RESERVATION_TTL_SECONDS * 1000)
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
        """Close a run's reservation: keep the charge (at most what was reserved), give the rest back.

        Raises NoReservation, LedgerLost, AmountRefused.
        """
        args = (charge_usd_micros, run_id, RECEIPT_TTL_SECONDS * 1000)
        match _SETTLE.run(self.client, self.move_keys(tenant_id, run_id), args):
            case ["OK", charge, refund, balance, kind, how]:
                return _closed(charge, refund, balance, kind, how)
            case other:
                raise self._not_closed(tenant_id, other)

    def refund_full(self, tenant_id: str, run_id: str) -> Closed:
        """Close a run's reservation and give all of it back. Raises NoReservation, LedgerLost."""
        args = (run_id, RECEIPT_TTL_SECONDS * 1000)
        match _REFUND_FULL.run(self.client, self.move_keys(tenant_id, run_id), args):
            case ["OK", refund, balance, charge, kind, how]:
                return _closed(charge, refund, balance, kind, how)
            case other:
                raise self._not_closed(tenant_id, other)

    def reopen(
        self, tenant_id: str, run_id: str, reserved_usd_micros: int, charge: int, kind: CloseKind
    ) -> None:
        """Take a receipt back that says other than `charge` (micros) and `kind`, so that the run can be closed so.

        For an operator's decision only (D3), of a run that is DISPUTED and so left alone by all others. Raises
        NoReservation, LedgerLost.
        """
        args = (run_id, reserved_usd_micros, charge, kind.value)
        reply = _REOPEN.run(self.client, self.move_keys(tenant_id, run_id), args)
        if reply[0] != "OK":
            raise self._not_closed(tenant_id, reply)

    def credit(self, tenant_id: str, credit_id: str, amount_usd_micros: int, *, opens: bool = True) -> int:
        """Add a credit to the balance, once however often it is asked; the new balance. Raises AmountRefused.

        Where there is no balance this credit opens one, or raises LedgerLost for a caller who can't know that
        the tenant never had one: a balance begun anew would hide that the old one is gone.
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
        """Micros the tenant may still reserve; None where Redis holds no balance for it."""
        text = self.balance_text(tenant_id)
        return None if text is None else read_balance(text)

    def balance_text(self, tenant_id: str) -> str | None:
        """The balance as Redis holds it, whatever that is; None for nothing."""
        with unavailable_as_typed():
            text = self.client.get(self.keys.balance(tenant_id))
        return None if text is None else str(text)

    def reservations_older_than(self, tenant_id: str, age_seconds: int) -> list[str]:
        """Run ids of all open reservations at least `age_seconds` old by Redis's clock, oldest first.

        Read to the end before the caller closes any, so that closing moves no page boundary and those that stay
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

    def entered(self, tenant_id: str) -> list[str]:
        """Run ids of all open reservations."""
        with unavailable_as_typed():
            return [str(run_id) for run_id in self.client.hkeys(self.keys.reservation_amounts(tenant_id))]

    def receipts(self, tenant_id: str, run_ids: Sequence[str]) -> list[tuple[str, str] | None]:
        """For each run how its reservation was closed and what it was charged; None where no receipt is (left)."""
        if not run_ids:
            return []
        _, *said = _RECEIPTS.run(self.client, [self.keys.receipt(tenant_id, run) for run in run_ids], ())
        return [(kind, charge) if kind else None for kind, charge in zip(said[::2], said[1::2], strict=True)]

    def write_anew(self, tenant_id: str, books: Books, before: str) -> Reckoned | None:
        """Write the balance and the index anew; what was written (`dpp.money.rebuild`).

        None where the balance is no longer `before`, as Redis held it: what was read may be stale, so nothing is
        written.
        """
        return self._reckon(_REBUILD, tenant_id, books, before)

    def measure(self, tenant_id: str, books: Books, before: str) -> Reckoned | None:
        """What would be written; None as above, and nothing ever is."""
        return self._reckon(_MEASURE, tenant_id, books, before)

    def _reckon(self, script: Script, tenant_id: str, books: Books, before: str) -> Reckoned | None:
        keys = self.keys
        names = [
            keys.balance(tenant_id),
            keys.reservation_ages(tenant_id),
            keys.reservation_amounts(tenant_id),
            keys.credits_applied(tenant_id),
            *(keys.receipt(tenant_id, run_id) for run_id, _ in books.open_runs),
        ]
        match script.run(self.client, names, (books.told(), before)):
            case ["OK", balance, in_flight, missing]:
                return Reckoned(read_balance(balance), int(in_flight), int(missing))
            case ["ERR_MOVED"]:
                return None
            case other:
                raise _refused(other)

    def _not_closed(self, tenant_id: str, reply: Reply) -> Exception:
        """No reservation and no balance either is no dispute about one run: the ledger's data are gone."""
        error = _refused(reply)
        if isinstance(error, NoReservation) and self.balance(tenant_id) is None:
            return LedgerLost("the balance is gone")
        return error

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


def read_balance(text: str) -> int:
    """A balance as Redis holds it, in micros. Raises RedisUnavailable for what no move of ours can have left."""
    found = whole_number(text)
    if found is None:
        raise RedisUnavailable("the balance is not an integer")
    return found


def whole_number(text: str | None) -> int | None:
    """The number that stands there; None for nothing and for what is no number."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def _closed(charge: str, refund: str, balance: str, kind: str, how: str) -> Closed:
    return Closed(CloseKind(kind), int(charge), int(refund), int(balance), how == "REPEATED")


def _refused(reply: Reply) -> LedgerError:
    match reply[0]:
        case "ERR_NO_RESERVE":
            return NoReservation()
        case "ERR_BAD_AMOUNT" | "ERR_TOO_LARGE" as code:
            return AmountRefused(f"the ledger refused the amount: {code}")
        case code:
            raise AssertionError(f"a ledger script answered what its head doesn't name: {code}")
