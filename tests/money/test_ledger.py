"""The ledger's Lua scripts on a real server (RUN-6, RUN-7, D2)."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from dpp.money.ledger import (
    LEDGER_FUNCTIONS,
    RECEIPT_TTL_SECONDS,
    RESERVATION_TTL_SECONDS,
    AlreadyReserved,
    AmountRefused,
    Closed,
    CloseKind,
    InsufficientBudget,
    Ledger,
    NoReservation,
)
from dpp.money.micros import MAX_AMOUNT_USD_MICROS
from dpp.platform.db.redis import Reply, Script
from dpp.platform.errors import RedisUnavailable
from dpp_cli.local.servers import HOST, ValkeyServer, free_port

_BAD_AMOUNTS = [
    "",
    "-1",
    "+1",
    "1.5",
    "1e14",
    "1E3",
    " 1",
    "1\n",
    "0x10",
    "nan",
    "inf",
    "١",
    "9007199254740992",
    "9" * 40,
]
_RESERVE = Script(LEDGER_FUNCTIONS, ("dpp.money.lua", "reserve.lua"))
_SETTLE = Script(LEDGER_FUNCTIONS, ("dpp.money.lua", "settle.lua"))
_REFUND_FULL = Script(LEDGER_FUNCTIONS, ("dpp.money.lua", "refund_full.lua"))
_CREDIT = Script(LEDGER_FUNCTIONS, ("dpp.money.lua", "credit.lua"))


class _Account:
    """One tenant's ledger, with the scripts' raw replies beside the typed results."""

    def __init__(self, ledger: Ledger, tenant_id: str) -> None:
        self.ledger = ledger
        self.client: Any = ledger.client
        self.tenant_id = tenant_id

    def credit(self, amount: int) -> None:
        self.ledger.credit(self.tenant_id, str(uuid4()), amount)

    def reserved(self, amount: int, of: int = 0) -> str:
        """Reserve an amount, after a credit of `of`; the id of the run."""
        if of:
            self.credit(of)
        run_id = str(uuid4())
        self.ledger.reserve(self.tenant_id, run_id, amount, 1)
        return run_id

    def balance(self) -> int | None:
        return self.ledger.balance(self.tenant_id)

    def keys(self, run_id: str) -> list[str]:
        return self.ledger.move_keys(self.tenant_id, run_id)

    def reserve_raw(self, run_id: str, amount: str) -> Reply:
        return _RESERVE.run(self.client, self.keys(run_id), (run_id, self.tenant_id, amount, "1", "3600000"))

    def settle_raw(self, run_id: str, charge: str) -> Reply:
        return _SETTLE.run(self.client, self.keys(run_id), (run_id, charge, "1000"))

    def refund_raw(self, run_id: str) -> Reply:
        return _REFUND_FULL.run(self.client, self.keys(run_id), (run_id, "1000"))

    def snapshot(self, run_id: str) -> dict[str, Any]:
        """All keys of the tenant and the run, with their content."""
        names = [*self.keys(run_id), self.ledger.keys.credits_applied(self.tenant_id)]
        return {name: self._content(name) for name in names}

    def _content(self, name: str) -> Any:
        match self.client.type(name):
            case "string":
                return self.client.get(name)
            case "hash":
                return self.client.hgetall(name)
            case "zset":
                return self.client.zrange(name, 0, -1, withscores=True)
            case "set":
                return self.client.smembers(name)
            case "list":
                return self.client.lrange(name, 0, -1)
            case _:
                return None


@pytest.fixture
def account(ledger: Ledger, tenant_id: str) -> _Account:
    """A tenant without a balance."""
    return _Account(ledger, tenant_id)


@pytest.fixture(params=["one node", "cluster"])
def anywhere(request: pytest.FixtureRequest, valkey_server: ValkeyServer, tenant_id: str) -> Iterator[_Account]:
    """The same on one node and on a cluster (D11)."""
    cluster = request.param == "cluster"
    url = request.getfixturevalue("cluster_url") if cluster else valkey_server.url
    opened = Ledger.connect(url, cluster=cluster)
    yield _Account(opened, tenant_id)
    opened.client.close()


def test_every_move_works_on_one_node_and_on_a_cluster(anywhere: _Account) -> None:
    """RUN-1, D11: on a cluster, the keys of a script must share a slot."""
    anywhere.credit(1_000)
    settled, refunded = anywhere.reserved(400), anywhere.reserved(300)
    assert anywhere.balance() == 300
    # With the same millisecond, they are ordered by id.
    assert set(anywhere.ledger.reservations_older_than(anywhere.tenant_id, -1)) == {settled, refunded}
    assert anywhere.ledger.settle(anywhere.tenant_id, settled, 150) == Closed(
        CloseKind.SETTLED, 150, 250, 550, repeated=False
    )
    assert anywhere.ledger.refund_full(anywhere.tenant_id, refunded).balance_usd_micros == 850
    assert anywhere.ledger.reservations_older_than(anywhere.tenant_id, -1) == []


def test_reserve_returns_the_locked_codes(account: _Account) -> None:
    """RUN-6 (001 §6.2): OK <new_balance>, ERR_INSUFFICIENT <balance>, ERR_ALREADY_RESERVED."""
    account.credit(100)
    assert account.reserve_raw("r1" + account.tenant_id, "60") == ["OK", "40"]
    assert account.reserve_raw("r1" + account.tenant_id, "60") == ["ERR_ALREADY_RESERVED"]
    assert account.reserve_raw("r2" + account.tenant_id, "60") == ["ERR_INSUFFICIENT", "40"]
    assert account.reserve_raw("r3" + account.tenant_id, "40") == ["OK", "0"]


def test_reserve_without_a_balance_is_insufficient(account: _Account) -> None:
    """RUN-6: a missing key is a balance of 0."""
    assert account.reserve_raw(str(uuid4()), "1") == ["ERR_INSUFFICIENT", "0"]


def test_settle_returns_the_locked_codes(account: _Account) -> None:
    """RUN-6 (001 §6.3): OK <charge> <refund> <new_balance>, ERR_NO_RESERVE; then the receipt's fields."""
    run_id = account.reserved(60, of=100)
    assert account.settle_raw(run_id, "25")[:4] == ["OK", "25", "35", "75"]
    assert account.settle_raw(str(uuid4()), "25") == ["ERR_NO_RESERVE"]


def test_refund_full_returns_the_locked_codes(account: _Account) -> None:
    """RUN-6 (001 §6.4): OK or ERR_NO_RESERVE; the fields in the order of settle."""
    run_id = account.reserved(60, of=100)
    assert account.refund_raw(run_id)[:4] == ["OK", "0", "60", "100"]
    assert account.refund_raw(str(uuid4())) == ["ERR_NO_RESERVE"]


def test_the_reservation_has_the_locked_fields(account: _Account) -> None:
    """RUN-7: a hash of reserved_usd_micros, tenant_id, created_at_ms at the locked name."""
    account.credit(100)
    run_id = str(uuid4())
    account.ledger.reserve(account.tenant_id, run_id, 60, 1_770_000_000_123)
    assert account.client.hgetall(f"reserve:{run_id}") == {
        "tenant_id": account.tenant_id,
        "reserved_usd_micros": "60",
        "created_at_ms": "1770000000123",
    }
    assert account.client.get(f"budget:{account.tenant_id}:balance_usd_micros") == "40"


def test_reservation_and_receipt_expire_balance_and_index_do_not(account: _Account) -> None:
    """RUN-7, D2: after 1 h and 7 days, set by the script."""
    run_id = account.reserved(60, of=100)
    balance, reservation, receipt, ages, amounts = account.keys(run_id)
    assert RESERVATION_TTL_SECONDS - 30 < account.client.ttl(reservation) <= RESERVATION_TTL_SECONDS == 3_600
    assert [account.client.ttl(name) for name in (balance, ages, amounts)] == [-1, -1, -1]
    account.ledger.settle(account.tenant_id, run_id, 10)
    assert RECEIPT_TTL_SECONDS - 30 < account.client.ttl(receipt) <= RECEIPT_TTL_SECONDS == 7 * 86_400
    assert account.client.exists(reservation, ages, amounts) == 0


@pytest.mark.parametrize("balance", [10**14, 10**14 + 3, 2**53 - 1])
def test_ten_to_the_14_survives_reserve_and_settle_to_the_micro(account: _Account, balance: int) -> None:
    """D2: the document's scripts write 10^14 back as 1e+14, and lose the last digits of larger amounts."""
    run_id = account.reserved(3, of=balance)
    assert account.client.get(account.keys(run_id)[0]) == str(balance - 3)
    account.ledger.settle(account.tenant_id, run_id, 1)
    assert account.client.get(account.keys(run_id)[0]) == str(balance - 1)


@pytest.mark.parametrize("amount", [10**14, 2**53 - 1])
def test_the_largest_amounts_are_exact(account: _Account, amount: int) -> None:
    """D2: up to 2^53 - 1, in the balance, the index and the receipt."""
    run_id = account.reserved(amount, of=amount)
    assert account.balance() == 0
    closed = account.ledger.settle(account.tenant_id, run_id, amount - 1)
    assert (closed.charge_usd_micros, closed.refund_usd_micros, account.balance()) == (amount - 1, 1, 1)
    assert account.ledger.settle(account.tenant_id, run_id, 5).charge_usd_micros == amount - 1


def test_a_credit_above_2_to_the_53_in_total_is_refused(account: _Account) -> None:
    """D2: the sum would not be exact."""
    account.credit(MAX_AMOUNT_USD_MICROS)
    with pytest.raises(AmountRefused):
        account.credit(1)
    assert account.balance() == MAX_AMOUNT_USD_MICROS


@pytest.mark.parametrize("closing", ["settle", "refund"])
def test_a_reservation_older_than_an_hour_is_closed_from_the_index(account: _Account, closing: str) -> None:
    """D2: the document's scripts lose the money here."""
    run_id = account.reserved(60, of=100)
    assert account.client.delete(f"reserve:{run_id}") == 1
    if closing == "settle":
        account.ledger.settle(account.tenant_id, run_id, 25)
        assert account.balance() == 75
    else:
        account.ledger.refund_full(account.tenant_id, run_id)
        assert account.balance() == 100


def test_an_expired_reservation_is_not_reserved_again(account: _Account) -> None:
    """D2: the index decides that a run has a reservation, not the key that expires."""
    run_id = account.reserved(40, of=100)
    account.client.delete(f"reserve:{run_id}")
    with pytest.raises(AlreadyReserved):
        account.ledger.reserve(account.tenant_id, run_id, 40, 1)
    assert account.balance() == 60


@pytest.mark.parametrize("first", ["settle", "refund"])
@pytest.mark.parametrize("second", ["settle", "refund"])
def test_closing_twice_moves_money_once_and_returns_the_first_receipt(
    account: _Account, first: str, second: str
) -> None:
    """D2: settle or refund after settle or refund, also with another charge."""
    run_id = account.reserved(60, of=100)

    def close(how: str, charge: int) -> Closed:
        if how == "settle":
            return account.ledger.settle(account.tenant_id, run_id, charge)
        return account.ledger.refund_full(account.tenant_id, run_id)

    done = close(first, 25)
    before = account.snapshot(run_id)
    again = close(second, 50)
    assert account.snapshot(run_id) == before
    assert again.repeated
    assert not done.repeated
    assert (again.kind, again.charge_usd_micros, again.refund_usd_micros) == (
        done.kind,
        done.charge_usd_micros,
        done.refund_usd_micros,
    )


def test_a_repeated_close_returns_the_current_balance(account: _Account) -> None:
    """RUN-13: for the headers."""
    run_id = account.reserved(60, of=100)
    account.ledger.settle(account.tenant_id, run_id, 60)
    account.credit(1_000)
    assert account.ledger.settle(account.tenant_id, run_id, 60).balance_usd_micros == 1_040


def test_a_closed_run_is_not_reserved_again(account: _Account) -> None:
    """D2: a late repetition of the reserve of an ended run reserves nothing."""
    run_id = account.reserved(60, of=100)
    account.ledger.refund_full(account.tenant_id, run_id)
    with pytest.raises(AlreadyReserved):
        account.ledger.reserve(account.tenant_id, run_id, 60, 1)
    assert account.balance() == 100


def test_closing_without_a_reservation_is_refused_and_moves_nothing(account: _Account) -> None:
    """D3: without reservation and receipt, nothing is guessed."""
    account.credit(100)
    run_id = str(uuid4())
    before = account.snapshot(run_id)
    with pytest.raises(NoReservation):
        account.ledger.settle(account.tenant_id, run_id, 1)
    with pytest.raises(NoReservation):
        account.ledger.refund_full(account.tenant_id, run_id)
    assert account.snapshot(run_id) == before


def test_another_tenants_reservation_is_not_closed(account: _Account) -> None:
    """RUN-11: a run id alone gives no access to the money."""
    run_id = account.reserved(60, of=100)
    other = f"{account.tenant_id}x"
    account.ledger.credit(other, "a credit of its own", 100)
    with pytest.raises(NoReservation):
        account.ledger.refund_full(other, run_id)
    assert account.balance() == 40


@pytest.mark.parametrize("charge", [61, 10**14, MAX_AMOUNT_USD_MICROS])
def test_a_charge_is_limited_to_the_reservation(account: _Account, charge: int) -> None:
    """RUN-24: actual ≤ reserved."""
    run_id = account.reserved(60, of=100)
    assert account.ledger.settle(account.tenant_id, run_id, charge) == Closed(
        CloseKind.SETTLED, 60, 0, 40, repeated=False
    )


def test_a_charge_of_zero_refunds_all_and_is_still_a_settle(account: _Account) -> None:
    """RUN-6: the receipt has the requested kind."""
    run_id = account.reserved(60, of=100)
    assert account.ledger.settle(account.tenant_id, run_id, 0) == Closed(CloseKind.SETTLED, 0, 60, 100, repeated=False)


@pytest.mark.parametrize("amount", _BAD_AMOUNTS)
def test_no_script_accepts_an_invalid_amount(account: _Account, amount: str) -> None:
    """RUN-23, D2: anything but an integer from 0 to 2^53 - 1 in ASCII digits moves nothing."""
    account.credit(100)
    open_run, new_run = account.reserved(60), str(uuid4())
    before = account.snapshot(open_run), account.snapshot(new_run)
    credit_keys = [account.keys(new_run)[0], account.ledger.keys.credits_applied(account.tenant_id)]
    assert account.reserve_raw(new_run, amount) == ["ERR_BAD_AMOUNT"]
    assert account.settle_raw(open_run, amount) == ["ERR_BAD_AMOUNT"]
    assert _CREDIT.run(account.client, credit_keys, (str(uuid4()), amount)) == ["ERR_BAD_AMOUNT"]
    assert (account.snapshot(open_run), account.snapshot(new_run)) == before


@pytest.mark.parametrize("amount", [0, -1, 2**53])
def test_the_ledger_refuses_an_amount_out_of_range(account: _Account, amount: int) -> None:
    """RUN-23: with a typed error."""
    account.credit(100)
    with pytest.raises(AmountRefused):
        account.ledger.reserve(account.tenant_id, str(uuid4()), amount, 1)
    with pytest.raises(AmountRefused):
        account.ledger.credit(account.tenant_id, str(uuid4()), amount)
    assert account.balance() == 100


def test_leading_zeros_are_the_same_amount_and_no_move_is_partial(account: _Account) -> None:
    """D2: INCRBY would refuse "007" after the first write; the scripts write the parsed amount."""
    account.credit(100)
    run_id = str(uuid4())
    assert account.reserve_raw(run_id, "007") == ["OK", "93"]
    assert account.settle_raw(run_id, "002")[:4] == ["OK", "2", "5", "98"]
    credit_keys = [account.keys(run_id)[0], account.ledger.keys.credits_applied(account.tenant_id)]
    assert _CREDIT.run(account.client, credit_keys, (run_id, "0002")) == ["OK", "100", "NEW"]


def test_a_repeated_credit_counts_once(account: _Account) -> None:
    """D2: as after a lost reply."""
    credit_id = str(uuid4())
    assert [account.ledger.credit(account.tenant_id, credit_id, 70) for _ in range(3)] == [70, 70, 70]


def test_an_insufficient_balance_is_in_the_error(account: _Account) -> None:
    """RUN-9: the 402 response shows the budget."""
    account.credit(99)
    with pytest.raises(InsufficientBudget) as refused:
        account.reserved(100)
    assert refused.value.balance_usd_micros == 99
    assert account.client.exists(account.ledger.keys.reservation_amounts(account.tenant_id)) == 0


def test_of_100_parallel_reserves_of_60_percent_exactly_one_succeeds(account: _Account) -> None:
    """RUN-6: check and decrement are atomic."""
    account.credit(1_000)
    start = threading.Barrier(100)

    def attempt(_: int) -> bool:
        start.wait()
        try:
            account.reserved(600)
        except InsufficientBudget:
            return False
        return True

    with ThreadPoolExecutor(100) as threads:
        assert sum(threads.map(attempt, range(100))) == 1
    assert account.balance() == 400


def test_of_parallel_closes_exactly_one_moves_money(account: _Account) -> None:
    """RUN-34, D2: settles and refunds at once; one is new, and all return the same receipt."""
    run_id = account.reserved(600, of=1_000)
    start = threading.Barrier(20)

    def close(number: int) -> Closed:
        start.wait()
        if number % 2:
            return account.ledger.settle(account.tenant_id, run_id, 100 + number)
        return account.ledger.refund_full(account.tenant_id, run_id)

    with ThreadPoolExecutor(20) as threads:
        closed = list(threads.map(close, range(20)))
    assert sum(not one.repeated for one in closed) == 1
    assert len({(one.kind, one.charge_usd_micros, one.refund_usd_micros) for one in closed}) == 1
    assert account.balance() == 1_000 - closed[0].charge_usd_micros


def test_scripts_that_redis_lost_are_sent_again(anywhere: _Account) -> None:
    """RUN-6: NOSCRIPT after a restart or a failover costs one more call."""
    anywhere.credit(100)
    for _ in range(2):
        anywhere.client.script_flush()
        run_id = anywhere.reserved(10)
        anywhere.client.script_flush()
        anywhere.ledger.settle(anywhere.tenant_id, run_id, 10)
    anywhere.client.script_flush()
    anywhere.credit(5)
    assert anywhere.balance() == 85


@pytest.mark.parametrize("spoiled", range(6))
def test_a_key_of_another_type_stops_every_move_before_its_first_write(account: _Account, spoiled: int) -> None:
    """D2: Redis does not roll back a script that fails."""
    account.credit(100)
    open_run, new_run = account.reserved(60), str(uuid4())
    names = [*account.keys(open_run), account.ledger.keys.credits_applied(account.tenant_id)]
    account.client.delete(names[spoiled])
    account.client.rpush(names[spoiled], "not ours")
    moves: list[Callable[[], object]] = [
        lambda: account.ledger.reserve(account.tenant_id, new_run, 1, 1),
        lambda: account.ledger.settle(account.tenant_id, open_run, 25),
        lambda: account.ledger.credit(account.tenant_id, str(uuid4()), 5),
    ]
    stopped = 0
    for move in moves:
        before = account.snapshot(open_run), account.snapshot(new_run)
        try:
            move()
        except RedisUnavailable:
            stopped += 1
            assert (account.snapshot(open_run), account.snapshot(new_run)) == before
    # reserve:{run} belongs to this run only, and a settle only deletes it, whatever its type.
    assert stopped == {0: 3, 1: 0, 2: 1, 3: 2, 4: 2, 5: 1}[spoiled]


@pytest.mark.parametrize("balance", ["", "abc", "1.5", "1e14", "0x10", " 7", "1_000", "nan"])
def test_a_balance_that_is_not_an_integer_stops_every_move_before_its_first_write(
    account: _Account, balance: str
) -> None:
    """D2: "1.5" is a number in Lua and fails in INCRBY; a credit must not be marked as applied before."""
    account.credit(100)
    run_id, credit_id = account.reserved(60), str(uuid4())
    key = account.keys(run_id)[0]
    account.client.set(key, balance)
    before = account.snapshot(run_id)
    moves: list[Callable[[], object]] = [
        lambda: account.ledger.reserve(account.tenant_id, str(uuid4()), 1, 1),
        lambda: account.ledger.settle(account.tenant_id, run_id, 25),
        lambda: account.ledger.refund_full(account.tenant_id, run_id),
        lambda: account.ledger.credit(account.tenant_id, credit_id, 5),
        lambda: account.ledger.balance(account.tenant_id),
    ]
    for move in moves:
        with pytest.raises(RedisUnavailable):
            move()
    assert account.snapshot(run_id) == before
    account.client.set(key, "40")
    assert account.ledger.credit(account.tenant_id, credit_id, 5) == 45
    assert account.ledger.settle(account.tenant_id, run_id, 25).balance_usd_micros == 80


def test_a_tenant_unknown_to_redis_has_no_balance(account: _Account) -> None:
    """D2: None, not 0, so that an audit can distinguish a lost cache from a spent budget."""
    assert account.balance() is None


def test_a_missing_server_is_a_typed_error(tenant_id: str) -> None:
    """RUN-9: 503, on one node and on a cluster, at the first call or when the client is created."""
    nowhere = f"redis://{HOST}:{free_port()}/0"
    ledger = Ledger.connect(nowhere)
    with pytest.raises(RedisUnavailable):
        ledger.balance(tenant_id)
    with pytest.raises(RedisUnavailable):
        ledger.reserve(tenant_id, str(uuid4()), 1, 1)
    ledger.client.close()
    with pytest.raises(RedisUnavailable):
        Ledger.connect(nowhere, cluster=True)


def test_open_reservations_are_found_by_age_oldest_first(account: _Account) -> None:
    """D2: by the clock of Redis."""
    account.credit(100)
    runs = [account.reserved(10) for _ in range(3)]
    seconds, _ = account.client.time()
    ages = account.ledger.keys.reservation_ages(account.tenant_id)
    account.client.zadd(ages, {runs[1]: (seconds - 900) * 1000, runs[2]: (seconds - 400) * 1000})
    assert account.ledger.reservations_older_than(account.tenant_id, 300) == [runs[1], runs[2]]
    assert account.ledger.reservations_older_than(account.tenant_id, 600) == [runs[1]]
    account.ledger.refund_full(account.tenant_id, runs[1])
    assert account.ledger.reservations_older_than(account.tenant_id, 300) == [runs[2]]


def test_no_number_of_open_reservations_hides_later_ones(account: _Account) -> None:
    """12 000 reservations of the same age, then one more: pages that stay must not starve the next."""
    ages = account.ledger.keys.reservation_ages(account.tenant_id)
    waiting = {f"run-{number:05}": 1_000 for number in range(12_000)}
    account.client.zadd(ages, waiting)
    account.client.zadd(ages, {"orphan": 2_000})
    found = account.ledger.reservations_older_than(account.tenant_id, 300)
    assert found == [*sorted(waiting), "orphan"]
