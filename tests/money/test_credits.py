"""Credits and the ledger position of a tenant (D2): first rows in Postgres, then the balance in Redis."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.money.audit import LedgerPosition, audit_tenant
from dpp.money.credits import CreditConflict, all_tenants, create_tenant, credit, tenants_in_turn
from dpp.money.ledger import AmountRefused, Ledger
from dpp.money.micros import MAX_AMOUNT_USD_MICROS
from dpp.platform.db.postgres import Connection
from dpp.platform.errors import RedisUnavailable
from dpp.runs import store
from dpp.runs.machine import MoneyState, Status
from dpp.runs.model import Intent
from dpp.runs.store import Guard
from tests.support.stored import existing
from tests.support.world import A_CREDIT, A_RESERVATION, World


@pytest.fixture
def tenant(connection: Connection, tenant_id: str) -> str:
    """A tenant without money."""
    create_tenant(connection, tenant_id, "A tenant")
    return tenant_id


def _give(connection: Connection, ledger: Ledger, tenant: str, amount: int, credit_id: UUID | None = None) -> int:
    return credit(
        connection,
        ledger,
        credit_id=credit_id or uuid4(),
        tenant_id=tenant,
        amount_usd_micros=amount,
        reason="for a test",
    )


def _rows(connection: Connection, tenant: str) -> list[int]:
    rows = connection.execute(
        "SELECT amount_usd_micros FROM budget_credits WHERE tenant_id = %s ORDER BY created_at", (tenant,)
    )
    return [row[0] for row in rows]


def test_a_credit_is_a_row_and_a_balance(connection: Connection, ledger: Ledger, tenant: str) -> None:
    assert _give(connection, ledger, tenant, 70) == 70
    assert _give(connection, ledger, tenant, 30) == 100
    assert _rows(connection, tenant) == [70, 30]
    assert audit_tenant(connection, ledger, tenant) == LedgerPosition(tenant, 100, 0, 0, 100)


def test_a_credit_counts_once_per_id(connection: Connection, ledger: Ledger, tenant: str) -> None:
    """D2: also if the outcome of the first call is unknown."""
    credit_id = uuid4()
    assert [_give(connection, ledger, tenant, 70, credit_id) for _ in range(3)] == [70, 70, 70]
    assert _rows(connection, tenant) == [70]


def test_concurrent_repetitions_of_a_credit_count_once(
    database_url: str, connection: Connection, ledger: Ledger, tenant: str
) -> None:
    """D2: eight at once."""
    credit_id, start = uuid4(), threading.Barrier(8)

    def attempt(_: int) -> int:
        with psycopg.connect(database_url, autocommit=True) as own:
            start.wait()
            return _give(own, ledger, tenant, 70, credit_id)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(attempt, range(8))) == {70}
    assert _rows(connection, tenant) == [70]


@pytest.mark.parametrize("change", ["amount", "tenant"])
def test_a_credit_id_belongs_to_one_tenant_and_amount(
    connection: Connection, ledger: Ledger, tenant: str, change: str
) -> None:
    """D2: another amount or tenant with the same id is a conflict and credits nothing."""
    credit_id, other = uuid4(), f"{tenant}x"
    create_tenant(connection, other, "Another")
    _give(connection, ledger, tenant, 70, credit_id)
    to, amount = (tenant, 71) if change == "amount" else (other, 70)
    with pytest.raises(CreditConflict):
        _give(connection, ledger, to, amount, credit_id)
    assert (ledger.balance(tenant), ledger.balance(other)) == (70, None)


def test_a_crash_between_row_and_balance_is_repaired_by_repeating_the_call(
    connection: Connection, ledger: Ledger, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: until then the position shows the missing balance."""
    credit_id = uuid4()

    def crash(*_: object, **__: object) -> int:
        raise RedisUnavailable("crashed here")

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "credit", crash)
        with pytest.raises(RedisUnavailable):
            _give(connection, ledger, tenant, 70, credit_id)
    position = audit_tenant(connection, ledger, tenant)
    assert (position.balance_usd_micros, position.drift_usd_micros, position.balanced) == (None, -70, False)
    assert _give(connection, ledger, tenant, 70, credit_id) == 70
    assert audit_tenant(connection, ledger, tenant).balanced


@pytest.mark.parametrize("amount", [0, -1, MAX_AMOUNT_USD_MICROS + 1])
def test_an_amount_out_of_range_leaves_no_row(connection: Connection, ledger: Ledger, tenant: str, amount: int) -> None:
    """D2: 1 … 2^53 - 1."""
    with pytest.raises(ValueError, match="2\\^53"):
        _give(connection, ledger, tenant, amount)
    assert _rows(connection, tenant) == []


def test_credits_never_exceed_in_total_what_the_ledger_can_hold(
    connection: Connection, ledger: Ledger, tenant: str
) -> None:
    """D2: refused before the insert, as the row is append-only and would stay without its balance."""
    _give(connection, ledger, tenant, MAX_AMOUNT_USD_MICROS - 10)
    ledger.reserve(tenant, str(uuid4()), 1_000, 1)
    with pytest.raises(AmountRefused):
        _give(connection, ledger, tenant, 11)
    assert _rows(connection, tenant) == [MAX_AMOUNT_USD_MICROS - 10]
    last = uuid4()
    full = MAX_AMOUNT_USD_MICROS - 1_000
    assert [_give(connection, ledger, tenant, 10, last) for _ in range(2)] == [full, full]


def test_a_credit_inside_an_open_transaction_is_refused(connection: Connection, ledger: Ledger, tenant: str) -> None:
    """D2: the balance would rise by a row that may still be rolled back."""
    with connection.transaction(), pytest.raises(RuntimeError, match="its own transaction"):
        _give(connection, ledger, tenant, 70)
    assert (_rows(connection, tenant), ledger.balance(tenant)) == ([], None)


def test_a_credit_is_committed_before_the_balance_rises_without_autocommit_too(
    database_url: str, connection: Connection, ledger: Ledger, tenant: str
) -> None:
    """D2: its transaction ends first, however the connection was opened."""
    with psycopg.connect(database_url) as own:
        _give(own, ledger, tenant, 70)
        assert _rows(connection, tenant) == [70]


def test_a_credit_for_an_unknown_tenant_is_refused(connection: Connection, ledger: Ledger, tenant_id: str) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        _give(connection, ledger, tenant_id, 70)
    assert ledger.balance(tenant_id) is None


_CHANGES: tuple[LiteralString, ...] = (
    "UPDATE budget_credits SET amount_usd_micros = 1",
    "UPDATE budget_credits SET reason = 'other' WHERE false",
    "DELETE FROM budget_credits",
    "DELETE FROM budget_credits WHERE false",
    "TRUNCATE budget_credits",
    "TRUNCATE tenants CASCADE",
    "INSERT INTO budget_credits SELECT * FROM budget_credits"
    " ON CONFLICT (credit_id) DO UPDATE SET amount_usd_micros = 1",
    "MERGE INTO budget_credits b USING tenants t ON b.tenant_id = t.tenant_id WHEN MATCHED THEN DELETE",
)


def test_credits_are_append_only(connection: Connection, ledger: Ledger, tenant: str) -> None:
    """D2: no statement can change or delete one."""
    _give(connection, ledger, tenant, 70)
    for statement in _CHANGES:
        with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"):
            connection.execute(statement)
    assert _rows(connection, tenant) == [70]


def test_a_tenant_is_created_once(connection: Connection, tenant: str) -> None:
    """RUN-29: a repetition changes nothing."""
    create_tenant(connection, tenant, "Another name", 7)
    row = connection.execute(
        "SELECT display_name, status, rate_limit_per_minute FROM tenants WHERE tenant_id = %s", (tenant,)
    ).fetchone()
    assert row == ("A tenant", "ACTIVE", 60)


def test_a_tenant_id_that_could_forge_a_key_is_refused(connection: Connection) -> None:
    """D11: key names are built from it."""
    for tenant_id in ("", "a" * 65, "a b", "a:b", "a{b}", "é", "a\n", "\na"):
        with pytest.raises(psycopg.errors.CheckViolation):
            create_tenant(connection, tenant_id, "A tenant")


def test_every_tenant_is_visited_once_in_order(connection: Connection) -> None:
    """D2: over three pages, the last one exactly full."""
    connection.execute(
        "INSERT INTO tenants (tenant_id, display_name) SELECT 't-' || n, 'x' FROM generate_series(1, 1500) n"
    )
    found = list(all_tenants(connection))
    assert found == sorted(f"t-{number}" for number in range(1, 1501))


@pytest.mark.parametrize("tenants", [1, 499, 500, 501, 1500])
def test_each_tenant_is_visited_once_per_tick(connection: Connection, tenants: int) -> None:
    """Wherever the job continues."""
    connection.execute(
        "INSERT INTO tenants (tenant_id, display_name) SELECT 't-' || n, 'x' FROM generate_series(1, %s) n", (tenants,)
    )
    for _ in range(5):
        assert sorted(tenants_in_turn(connection)) == sorted(f"t-{number}" for number in range(1, tenants + 1))


def test_a_job_that_runs_out_of_time_leaves_out_other_tenants_each_tick(connection: Connection) -> None:
    """In a fixed order, a job with time for 1,000 of 3,000 tenants would never visit the last ones."""
    connection.execute(
        "INSERT INTO tenants (tenant_id, display_name) SELECT 't-' || n, 'x' FROM generate_series(1, 3000) n"
    )
    seen: set[str] = set()
    for _ in range(150):
        seen.update(islice(tenants_in_turn(connection), 1_000))
    assert len(seen) == 3_000


def test_an_unknown_tenant_has_no_position(connection: Connection, ledger: Ledger) -> None:
    with pytest.raises(LookupError):
        audit_tenant(connection, ledger, "nobody")


def test_the_identity_holds_through_the_life_of_runs(world: World) -> None:
    """D2: balance = credits − charges − open reservations, with a settled, a refunded and an open run."""
    tenant = world.tenant()
    open_run, settled, refunded = (world.submit(tenant).run for _ in range(3))
    with world.database.connection() as connection:
        leased = existing(store.start_processing(connection, settled, "lease"))
        paid = Intent(Status.FAILED, MoneyState.SETTLED, 5_000, reason_code="WORKER_TIMEOUT")
        free = Intent(Status.FAILED, MoneyState.REFUNDED, 0, reason_code="RESERVATION_EXPIRED")
        claims = ((leased, Guard(Status.PROCESSING, "lease"), paid), (refunded, Guard(Status.QUEUED, None), free))
        for run, guard, intent in claims:
            claimed = existing(store.claim(connection, run, guard, intent, finalize_token="f"))
            if intent is paid:
                world.ledger.settle(tenant.tenant_id, run.id, intent.charge_usd_micros)
                assert world.position(tenant).drift_usd_micros == A_RESERVATION - 5_000  # work under way
            else:
                world.ledger.refund_full(tenant.tenant_id, run.id)
            assert store.commit(connection, claimed, release_idempotency_key=False) is not None
    position = world.position(tenant)
    assert position == LedgerPosition(
        tenant.tenant_id, A_CREDIT, 5_000, A_RESERVATION, A_CREDIT - 5_000 - A_RESERVATION
    )
    assert position.balanced
    assert world.run(open_run).money_state == MoneyState.RESERVED


def test_a_disputed_run_counts_as_an_open_reservation(world: World) -> None:
    """D3: its money is neither charged nor refunded until an operator decides."""
    tenant, run = world.new_run()
    free = Intent(Status.FAILED, MoneyState.REFUNDED, 0, reason_code="RESERVATION_EXPIRED")
    claimed = world.using(store.claim, run, Guard(Status.QUEUED, None), free, finalize_token="f")
    assert claimed is not None
    assert world.using(store.dispute, claimed, "for a test") is not None
    position = world.position(tenant)
    assert (position.open_reservations_usd_micros, position.balanced) == (A_RESERVATION, True)
