"""The ledger compared with a model, move by move, by hypothesis (RUN-6, D2)."""

from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from dpp.money.ledger import AlreadyReserved, CloseKind, InsufficientBudget, Ledger, LedgerLost, NoReservation

_RUNS = st.integers(0, 4)
_AMOUNTS = st.one_of(st.integers(1, 500), st.just(10**14 - 1))
_CHARGES = st.one_of(st.integers(0, 500), st.just(10**14))


@dataclass
class _Books:
    """The expected content of the ledger."""

    credits: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    closed: dict[int, tuple[CloseKind, int, int]] = field(default_factory=dict)

    @property
    def balance(self) -> int:
        """D2: credits − charges − open reservations."""
        charges = sum(charge for _, charge, _ in self.closed.values())
        return sum(self.credits.values()) - charges - sum(self.open.values())


class _LedgerMachine(RuleBasedStateMachine):
    ledger: Ledger

    def __init__(self) -> None:
        super().__init__()
        self.client: Any = self.ledger.client
        self.name = uuid4().hex
        self.tenant_id = f"t_{self.name[:12]}"
        self.books = _Books()

    def run_id(self, run: int) -> str:
        return f"{self.name}-{run}"

    @rule(credit=st.integers(0, 2), amount=st.sampled_from([300, 1_000, 10**14]))
    def credit(self, credit: int, amount: int) -> None:
        amount = self.books.credits.setdefault(credit, amount)
        assert self.ledger.credit(self.tenant_id, f"credit-{credit}", amount) == self.books.balance

    @rule(run=_RUNS, amount=_AMOUNTS)
    def reserve(self, run: int, amount: int) -> None:
        books = self.books
        try:
            balance = self.ledger.reserve(self.tenant_id, self.run_id(run), amount, 1)
        except AlreadyReserved:
            assert run in books.open or run in books.closed
        except InsufficientBudget as refused:
            self.has_insufficient_balance(refused.balance_usd_micros, amount)
        else:
            assert run not in books.open
            assert run not in books.closed
            books.open[run] = amount
            assert balance == books.balance >= 0

    def has_insufficient_balance(self, balance_usd_micros: int, amount: int) -> None:
        assert balance_usd_micros == self.books.balance < amount

    @rule(run=_RUNS)
    def let_the_hour_pass(self, run: int) -> None:
        self.client.delete(self.ledger.keys.reservation(self.tenant_id, self.run_id(run)))

    @rule()
    def lose_the_scripts(self) -> None:
        self.client.script_flush()

    @rule(run=_RUNS, charge=_CHARGES)
    def settle(self, run: int, charge: int) -> None:
        self._close(run, CloseKind.SETTLED, charge)

    @rule(run=_RUNS)
    def refund_full(self, run: int) -> None:
        self._close(run, CloseKind.REFUNDED, 0)

    def _close(self, run: int, kind: CloseKind, charge: int) -> None:
        books, repeated = self.books, run in self.books.closed
        if run in books.open:
            reserved = books.open.pop(run)
            kept = min(charge, reserved)
            books.closed[run] = (kind, kept, reserved - kept)
        try:
            if kind is CloseKind.SETTLED:
                closed = self.ledger.settle(self.tenant_id, self.run_id(run), charge)
            else:
                closed = self.ledger.refund_full(self.tenant_id, self.run_id(run))
        except NoReservation:
            assert books.credits
            assert run not in books.closed
            return
        except LedgerLost:
            assert not books.credits, "only a tenant without credits has no balance here"
            return
        answered = (closed.kind, closed.charge_usd_micros, closed.refund_usd_micros)
        assert answered == books.closed[run]
        assert (closed.balance_usd_micros, closed.repeated) == (books.balance, repeated)

    @invariant()
    def the_identity_holds(self) -> None:
        keys, books = self.ledger.keys, self.books
        assert (self.ledger.balance(self.tenant_id) or 0) == books.balance >= 0
        amounts = self.client.hgetall(keys.reservation_amounts(self.tenant_id))
        assert amounts == {self.run_id(run): str(amount) for run, amount in books.open.items()}
        assert set(self.ledger.reservations_older_than(self.tenant_id, -1)) == set(amounts)


def test_the_ledger_equals_its_model_after_any_sequence_of_moves(ledger: Ledger) -> None:
    """D2: the identity holds after every step of credits, reserves, expiries, settles, refunds and repetitions."""

    class Machine(_LedgerMachine):
        pass

    Machine.ledger = ledger
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=30, stateful_step_count=30, deadline=None, database=None)
    )
