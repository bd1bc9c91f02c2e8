"""The sides of bench/budget over Redis: ours, the floor, and LiteLLM's algorithm.

Each object belongs to one caller: one connection, one call after another. A pair is a reservation and its settlement.
"""

import time
from abc import ABC, abstractmethod
from uuid import uuid4

import redis

from dpp.money import ledger as ledger_module
from dpp.money.ledger import RECEIPT_TTL_SECONDS, RESERVATION_TTL_SECONDS, InsufficientBudget, Ledger
from dpp.platform.db.redis import Script

RESERVED_USD_MICROS = 300
CHARGED_USD_MICROS = 100
PIPELINED = 100
_BARE = "redis.call('DECRBY', KEYS[1], 1) redis.call('HSET', KEYS[2], ARGV[1], '1') return {'OK', '1'}"
_COUNTER_TTL_SECONDS = 3_600  # longer than the bench; LiteLLM reloads an expired counter from its database
_SCRIPTS = vars(ledger_module)


class Side(ABC):
    """A caller of one side."""

    @abstractmethod
    def fund(self, tenant: str, micros: int) -> None:
        """Give a new tenant a budget."""

    def pair(self, tenant: str) -> int:
        """Reserve and settle. Returns how many pairs that were."""
        run = self.reserve(tenant)
        assert run is not None
        self.settle(tenant, run, CHARGED_USD_MICROS)
        return 1

    @abstractmethod
    def reserve(self, tenant: str) -> str | None:
        """Reserve 300 micros. Returns the reservation's name, or None if the budget is spent."""

    @abstractmethod
    def settle(self, tenant: str, run: str, micros: int) -> None:
        """Charge so much of it."""

    @abstractmethod
    def left(self, tenant: str) -> int:
        """Micros that the tenant may still spend."""


class Ours(Side):
    """The ledger as submit and finalize call it."""

    def __init__(self, url: str) -> None:
        self._ledger = Ledger.connect(url)

    def fund(self, tenant: str, micros: int) -> None:
        self._ledger.credit(tenant, "bench", micros)

    def reserve(self, tenant: str) -> str | None:
        run = str(uuid4())
        try:
            self._ledger.reserve(tenant, run, RESERVED_USD_MICROS, int(time.time() * 1_000))
        except InsufficientBudget:
            return None
        return run

    def settle(self, tenant: str, run: str, micros: int) -> None:
        assert self._ledger.settle(tenant, run, micros).charge_usd_micros == micros

    def left(self, tenant: str) -> int:
        assert not self._ledger.open_reservations(tenant)
        return self._ledger.balance(tenant) or 0


class Pipelined(Ours):
    """Our scripts, a hundred pairs sent at once: what the server can do when no caller waits for it."""

    _scripts: tuple[Script, Script] = (_SCRIPTS["_RESERVE"], _SCRIPTS["_SETTLE"])

    def pair(self, tenant: str) -> int:
        reserve, settle = self._scripts
        ledger = self._ledger
        pipeline = ledger.client.pipeline(transaction=False)
        for _ in range(PIPELINED):
            run = str(uuid4())
            keys = ledger.move_keys(tenant, run)
            to_reserve = (run, tenant, RESERVED_USD_MICROS, 0, RESERVATION_TTL_SECONDS * 1_000)
            pipeline.evalsha(reserve.sha1, len(keys), *keys, *to_reserve)
            to_settle = (run, CHARGED_USD_MICROS, RECEIPT_TTL_SECONDS * 1_000)
            pipeline.evalsha(settle.sha1, len(keys), *keys, *to_settle)
        assert all(reply[0] == "OK" for reply in pipeline.execute())
        return PIPELINED

    def fund(self, tenant: str, micros: int) -> None:
        """The first pair loads the scripts into the server."""
        super().fund(tenant, micros + CHARGED_USD_MICROS)
        super().pair(tenant)


class _OnRedis(Side):
    """A connection, and spent amounts under plain keys."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, decode_responses=True)
        self._budgets: dict[str, float] = {}

    def fund(self, tenant: str, micros: int) -> None:
        self._client.set(f"budget:{tenant}", micros)
        self._client.set(f"spend:{tenant}", 0)

    def left(self, tenant: str) -> int:
        return round(self._budget(tenant) - float(self._client.get(f"spend:{tenant}") or 0))

    def _budget(self, tenant: str) -> float:
        """Cached in the caller, as LiteLLM caches it with the key."""
        if tenant not in self._budgets:
            self._budgets[tenant] = float(self._client.get(f"budget:{tenant}") or 0)
        return self._budgets[tenant]

    def _add(self, tenant: str, micros: float) -> float:
        pipeline = self._client.pipeline(transaction=False)
        pipeline.incrbyfloat(f"spend:{tenant}", micros)
        pipeline.expire(f"spend:{tenant}", _COUNTER_TTL_SECONDS)
        return float(pipeline.execute()[0])


class Floor(_OnRedis):
    """Two bare scripts over two keys, one round trip each. It refuses nothing and keeps no account."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._sha = str(self._client.script_load(_BARE))

    def reserve(self, tenant: str) -> str:
        run = str(uuid4())
        self._client.evalsha(self._sha, 2, f"spend:{tenant}", f"reserved:{tenant}:{run}", run)
        return run

    def settle(self, tenant: str, run: str, _micros: int) -> None:
        self._client.evalsha(self._sha, 2, f"spend:{tenant}", f"settled:{tenant}:{run}", run)


class LiteLlmReserving(_OnRedis):
    """LiteLLM's proxy 1.110 where it knows the model's price: its bare calls to Redis.

    `litellm/proxy/spend_tracking/budget_reservation.py` reads the counter, adds the estimate (INCRBYFLOAT and EXPIRE in
    one pipeline) and takes it back if that exceeds the budget. After the call it reads the counter again and adds the
    difference. Only the process knows its reservations: if it dies, they stay spent until the counter expires or is
    reset, and a repeated settlement is counted twice.
    """

    def reserve(self, tenant: str) -> str | None:
        self._client.get(f"spend:{tenant}")
        if self._add(tenant, RESERVED_USD_MICROS) > self._budget(tenant):
            self._add(tenant, -RESERVED_USD_MICROS)
            return None
        return "reserved"

    def settle(self, tenant: str, run: str, micros: int) -> None:
        assert run
        self._client.get(f"spend:{tenant}")
        self._add(tenant, micros - RESERVED_USD_MICROS)


class LiteLlmAfterwards(_OnRedis):
    """LiteLLM's proxy where it does not know the price beforehand: its bare calls to Redis.

    `estimate_request_max_cost` returns None, and the budget is compared with what was spent so far. The cost is added
    after the call, so requests that are under way at the same time are not considered.
    """

    def reserve(self, tenant: str) -> str | None:
        spent = float(self._client.get(f"spend:{tenant}") or 0)
        return "seen" if spent < self._budget(tenant) else None

    def settle(self, tenant: str, run: str, micros: int) -> None:
        assert run
        self._add(tenant, micros)
