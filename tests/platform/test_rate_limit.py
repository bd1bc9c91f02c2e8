"""The token bucket (RUN-14): integers, by Redis's clock; the tests pass time by changing the bucket's timestamp."""

import math
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpp.platform.db.rate_limit import RETRY_AFTER_SECONDS, RateState
from dpp.platform.db.redis import connect
from dpp_cli.local.servers import ValkeyServer

_PARTS_A_TOKEN = 60_000
_TAKE = (files("dpp.platform.db.lua") / "rate_limit.lua").read_text() + (
    "\nlocal allowed, remaining, reset = take_token(KEYS[1], ARGV[1])"
    "\nreturn {tostring(allowed), tostring(remaining), tostring(reset)}"
)


class _Taken(NamedTuple):
    allowed: bool
    remaining: int
    reset_seconds: int


class _Bucket:
    """One tenant's bucket."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.key = f"rate:{uuid4().hex}"

    def take(self, limit: int) -> _Taken:
        allowed, remaining, reset = self.client.eval(_TAKE, 1, self.key, limit)
        return _Taken(allowed == "1", int(remaining), int(reset))

    def take_at_once(self, limit: int) -> _Taken:
        """Take a token as if no time had passed: a timestamp in the future refills nothing."""
        if self.client.exists(self.key):
            self.pass_ms(-3_600_000)
        return self.take(limit)

    def now_ms(self) -> int:
        seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def pass_ms(self, elapsed_ms: int) -> None:
        """Move the last request `elapsed_ms` into the past."""
        self.client.hset(self.key, "at_ms", self.now_ms() - elapsed_ms)

    def stored(self) -> tuple[int, int]:
        parts, at_ms = self.client.hmget(self.key, "parts", "at_ms")
        return int(parts), int(at_ms)


@pytest.fixture
def bucket(valkey_server: ValkeyServer) -> Iterator[_Bucket]:
    client = connect(valkey_server.url)
    yield _Bucket(client)
    client.close()


@pytest.mark.parametrize("limit", [1, 2, 60])
def test_a_burst_of_the_whole_minute_is_allowed_and_not_one_more(bucket: _Bucket, limit: int) -> None:
    """RUN-14: 60 requests a minute by default, also at once; a refused one takes no token."""
    taken = [bucket.take_at_once(limit) for _ in range(limit + 3)]
    assert [one.allowed for one in taken] == [True] * limit + [False] * 3
    assert [one.remaining for one in taken] == [*range(limit - 1, -1, -1), 0, 0, 0]
    assert taken[-1].reset_seconds == 60


@pytest.mark.parametrize(("limit", "waits_ms"), [(60, 1_000), (1, 60_000), (1_000_000, 1), (7, 8_572)])
def test_a_token_is_refilled_after_its_time_and_not_before(bucket: _Bucket, limit: int, waits_ms: int) -> None:
    """RUN-14: `limit` tokens a minute; rounding neither loses nor adds one."""
    bucket.client.hset(bucket.key, mapping={"parts": 0, "at_ms": 0})
    bucket.pass_ms(0)
    if waits_ms > 1_000:  # far enough from the refill that the test's own milliseconds don't matter
        bucket.pass_ms(waits_ms // 2)
        assert not bucket.take(limit).allowed
        bucket.client.hset(bucket.key, "parts", 0)
    bucket.pass_ms(waits_ms)
    assert bucket.take(limit).allowed


def test_a_bucket_is_never_above_its_capacity(bucket: _Bucket) -> None:
    """RUN-14: a night without requests gives no more than one minute."""
    bucket.take(60)
    bucket.pass_ms(12 * 3_600_000)
    assert bucket.take(60) == _Taken(allowed=True, remaining=59, reset_seconds=1)


def test_a_clock_that_went_back_refills_nothing_and_blocks_nobody(bucket: _Bucket) -> None:
    """D1: after a failover to a node whose clock is behind, that clock counts."""
    for _ in range(3):
        bucket.take_at_once(3)
    bucket.pass_ms(-3_600_000)
    before = bucket.now_ms()
    assert not bucket.take(3).allowed
    assert before <= bucket.stored()[1] <= bucket.now_ms()
    bucket.pass_ms(20_000)
    assert bucket.take(3).allowed


def test_a_lowered_limit_applies_at_once(bucket: _Bucket) -> None:
    """RUN-14: tokens stored under the old limit are cut to the new one."""
    bucket.take(1_000)
    assert bucket.take_at_once(5) == _Taken(allowed=True, remaining=4, reset_seconds=12)


def test_a_full_bucket_is_no_longer_stored(bucket: _Bucket) -> None:
    """RUN-14: it expires after two minutes, when it has been full for one."""
    bucket.take(60)
    assert 110_000 < bucket.client.pttl(bucket.key) <= 120_000


@settings(max_examples=100, deadline=None)
@given(
    limit=st.one_of(st.integers(1, 120), st.integers(1, 1_000_000)),
    share=st.integers(0, 1_000),
    elapsed_ms=st.integers(-5_000, 200_000),
)
def test_the_bucket_is_exact_integer_arithmetic(
    valkey_server: ValkeyServer, limit: int, share: int, elapsed_ms: int
) -> None:
    """RUN-14, RUN-23: equal to the same calculation in Python, for every limit that the schema allows."""
    client = connect(valkey_server.url)
    bucket = _Bucket(client)
    capacity = limit * _PARTS_A_TOKEN
    before = capacity * share // 1_000
    client.hset(bucket.key, mapping={"parts": before, "at_ms": 0})
    bucket.pass_ms(elapsed_ms)
    was_at = bucket.stored()[1]
    taken = bucket.take(limit)
    parts, at_ms = bucket.stored()
    expected = min(capacity, before + max(0, at_ms - was_at) * limit)
    assert taken.allowed == (expected >= _PARTS_A_TOKEN)
    assert parts == expected - (_PARTS_A_TOKEN if taken.allowed else 0)
    assert taken.remaining == parts // _PARTS_A_TOKEN
    assert taken.reset_seconds == math.ceil((capacity - parts) / limit / 1000)
    client.close()


def test_the_headers_have_the_state_of_the_bucket() -> None:
    """RUN-14: the specified names, and those of the IETF draft."""
    assert RateState(60, 12, 48).headers() == {
        "X-RateLimit-Limit": "60",
        "X-RateLimit-Remaining": "12",
        "X-RateLimit-Reset": "48",
        "RateLimit-Policy": '"tenant";q=60;w=60',
        "RateLimit": '"tenant";r=12;t=48',
    }
    assert RETRY_AFTER_SECONDS == 30
