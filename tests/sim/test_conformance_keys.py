"""The commands and scripts do the same on the in-memory keys as on a real Valkey: the same calls on both, compared."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from redis import Redis
from redis.exceptions import ResponseError

from dpp.money import ledger
from dpp.platform.db.redis import Script
from dpp.runs import admission, lease
from dpp_cli.local.servers import ValkeyServer
from tests.sim.keys import _COMMANDS, Keys
from tests.sim.lua import run_script
from tests.sim.ports import _SCRIPTS

_EXAMPLES = settings(
    max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
_CALL = """
local reply = redis.call(unpack(ARGV))
if type(reply) ~= 'table' then return {type(reply), tostring(reply)} end
local answer = {'table'}
for i = 1, #reply do answer[i + 1] = tostring(reply[i]) end
return answer
"""
_KEY, _NAME = st.sampled_from(["k1", "k2", "k3"]), st.sampled_from(["a", "b"])
_TEXT = st.sampled_from(["7", "-2", "007", "1.5", "x", "9223372036854775807", "9223372036854775808", ""])
_SCORE = st.sampled_from(["1", "2", "3"])
_ARGUMENTS: dict[str, list[tuple[Any, ...]]] = {
    "TIME": [()],
    "EXISTS": [(_KEY,), (_KEY, _KEY)],
    "DEL": [(_KEY,), (_KEY, _KEY)],
    "PEXPIRE": [(_KEY, "60000"), (_KEY, st.sampled_from(["007", "1.5", "x"]))],
    "GET": [(_KEY,)],
    "SET": [(_KEY, _TEXT), (_KEY, _TEXT, "PX", "60000"), (_KEY, _TEXT, "EX", "60", "NX"), (_KEY, _TEXT, "NX")],
    "INCRBY": [(_KEY, _TEXT)],
    "DECRBY": [(_KEY, _TEXT)],
    "HGET": [(_KEY, _NAME)],
    "HMGET": [(_KEY, _NAME, _NAME)],
    "HGETALL": [(_KEY,)],
    "HKEYS": [(_KEY,)],
    "HEXISTS": [(_KEY, _NAME)],
    "HSET": [(_KEY, _NAME, _TEXT), (_KEY, "a", _TEXT, "b", _TEXT)],
    "HDEL": [(_KEY, _NAME), (_KEY, "a", "b")],
    "ZADD": [(_KEY, _SCORE, _NAME), (_KEY, "NX", _SCORE, _NAME)],
    "ZREM": [(_KEY, _NAME)],
    "ZCARD": [(_KEY,)],
    "ZRANGEBYSCORE": [(_KEY, "-inf", _SCORE, "LIMIT", "0", "2"), (_KEY, "-inf", _SCORE, "LIMIT", "1", "5")],
    "SADD": [(_KEY, _NAME)],
    "SISMEMBER": [(_KEY, _NAME)],
    "SCARD": [(_KEY,)],
}


def _call(name: str, parts: Sequence[Any]) -> st.SearchStrategy[tuple[str, ...]]:
    strategies = (part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts)
    return st.tuples(st.just(name), *strategies)


class _Servers:
    """The in-memory keys and a real server. Every key of the real one gets a prefix of this test's own."""

    def __init__(self, url: str) -> None:
        self.keys = Keys()
        self.real: Any = Redis.from_url(url, decode_responses=True)
        self.prefix = f"t_{uuid4().hex}:"

    def run(self, source: str, names: Sequence[str], args: Sequence[str]) -> list[object]:
        """The reply of a script from both, or "error"."""
        self.keys.at(int(time.time() * 1000))
        names = [self.prefix + name for name in names]
        return [
            _outcome(lambda: run_script(source, self.keys, names, args)),
            _outcome(lambda: self.real.eval(source, len(names), *names, *args)),
        ]

    def contents(self) -> list[dict[str, object]]:
        """Every key with its value and its remaining time in tens of seconds, from both."""
        now_ms = int(time.time() * 1000)
        self.keys.at(now_ms)
        expires_at_ms = self.keys.expires_at_ms
        ours = {
            name: (
                dict(value) if isinstance(value, dict) else value,
                round((expires_at_ms[name] - now_ms) / 1000, -1) if name in expires_at_ms else None,
            )
            for name, value in self.keys.values.items()
        }
        return [_without_times(ours), _without_times({name: self._real(name) for name in self._names()})]

    def _names(self) -> list[str]:
        return list(self.real.scan_iter(f"{self.prefix}*"))

    def _real(self, name: str) -> tuple[object, object]:
        ttl_ms = self.real.pttl(name)
        read: dict[str, Callable[[], object]] = {
            "string": lambda: self.real.get(name),
            "hash": lambda: self.real.hgetall(name),
            "zset": lambda: dict(self.real.zrange(name, 0, -1, withscores=True)),
            "set": lambda: dict.fromkeys(self.real.smembers(name)),
        }
        return read[self.real.type(name)](), None if ttl_ms < 0 else round(ttl_ms / 1000, -1)


def _outcome(call: Callable[[], object]) -> object:
    try:
        return call()
    except ResponseError:
        return "error"


def _without_times(contents: dict[str, Any]) -> dict[str, object]:
    """Scores and buckets that hold a time of the server's clock are compared by their members only."""
    return {
        name: (sorted(value) if name.endswith(("ages", "bucket")) else value, ttl)
        for name, (value, ttl) in contents.items()
    }


@_EXAMPLES
@example(calls=[("SET", "k1", ""), ("INCRBY", "k1", "7")])  # an empty text is no number
@given(
    calls=st.lists(
        st.one_of([_call(name, parts) for name, forms in _ARGUMENTS.items() for parts in forms]),
        min_size=3,
        max_size=30,
    )
)
def test_any_sequence_of_commands_does_the_same_in_memory_and_in_valkey(
    valkey_server: ValkeyServer, calls: list[tuple[str, ...]]
) -> None:
    """Compares every reply as a script sees it, errors, and the keys that are left with their expiry."""
    assert set(_ARGUMENTS) == set(_COMMANDS)
    servers = _Servers(valkey_server.url)
    for name, *args in calls:
        texts = [servers.prefix + part if part in ("k1", "k2", "k3") else part for part in args]
        ours, theirs = servers.run(_CALL, [], [name, *texts])
        if name == "TIME":
            assert isinstance(ours, list)
            assert isinstance(theirs, list)
            assert ours[0] == theirs[0]
            assert abs(int(ours[1]) - int(theirs[1])) <= 1
        elif name == "HGETALL":
            assert sorted(ours) == sorted(theirs)  # type: ignore[call-overload]
        else:
            assert ours == theirs, (name, *args)
    ours, theirs = servers.contents()
    assert ours == theirs


_RUN = st.sampled_from(["0", "1", "2"])
_HOUR, _WEEK = "3600000", "604800000"
_MAX_AMOUNT = 2**53 - 1
_AMOUNTS = ["0", "1", "007", "200", "400", "-1", "1e3", "", "1.5", f"{10**14}", f"{_MAX_AMOUNT}", f"{_MAX_AMOUNT + 1}"]
_FACTS = st.fixed_dictionaries(
    {
        "run": _RUN,
        "key": _RUN,
        "amount": st.sampled_from(_AMOUNTS),
        "reserved": st.sampled_from(["100", "400"]),
        "hash": st.sampled_from(["ab" * 32, "cd" * 32]),
        "limit": st.sampled_from(["4", "100"]),
        "opens": st.sampled_from(["0", "1"]),
        "kind": st.sampled_from(["SETTLED", "REFUNDED"]),
        "token": st.sampled_from(["mine", "other"]),
        "before": st.sampled_from(["", "200", "400", "12345"]),
        "credits_minus_charges": st.sampled_from(["500", "-3", f"{10**14}"]),
        "open": st.lists(_RUN, unique=True),
        "closed": st.lists(_RUN, unique=True),
    }
)

type _Facts = dict[str, Any]
type _Call = tuple[list[str], list[str]]
"""The keys and the arguments of a script."""


def _move(facts: _Facts) -> list[str]:
    return ["balance", f"reserve{facts['run']}", f"receipt{facts['run']}", "ages", "amounts"]


def _of_key(facts: _Facts) -> list[str]:
    return [f"mapping{facts['key']}", f"lock{facts['key']}"]


def _books(facts: _Facts) -> _Call:
    books = {
        "credits_minus_charges": facts["credits_minus_charges"],
        "open": [[run, "200"] for run in facts["open"]],
        "closed": facts["closed"],
        "credits": [["credit0", "500"], ["credit9", "70"]],
    }
    keys = ["balance", "ages", "amounts", "credits", *(f"receipt{run}" for run in facts["open"])]
    return keys, [json.dumps(books), facts["before"]]


_SCRIPT_CALLS: dict[Script, Callable[[_Facts], _Call]] = {
    ledger._CREDIT: lambda f: (["balance", "credits"], [f"credit{f['run']}", f["amount"], f["opens"]]),
    ledger._RESERVE: lambda f: (_move(f), [f["run"], "tenant", f["amount"], "1", _HOUR]),
    ledger._SETTLE: lambda f: (_move(f), [f["run"], f["amount"], _WEEK]),
    ledger._REFUND_FULL: lambda f: (_move(f), [f["run"], _WEEK]),
    ledger._REOPEN: lambda f: (_move(f), [f["run"], "400", "0", f["kind"]]),
    ledger._REBUILD: _books,
    ledger._MEASURE: _books,
    ledger._RECEIPTS: lambda _: ([f"receipt{run}" for run in "012"], []),
    admission._ADMIT: lambda f: (
        [*_move(f), "bucket", *_of_key(f)],
        [f["run"], "tenant", f["reserved"], "1", _HOUR, f["hash"], "50000", f["limit"]],
    ),
    admission._REMEMBER: lambda f: (_of_key(f), [f["run"], f["hash"], "1", _WEEK]),
    admission._FORGET: lambda f: (_of_key(f), [f["run"], f["hash"]]),
    admission._OBSERVE: lambda _: (["bucket", "balance"], ["4"]),
    lease._EXTEND: lambda f: ([f"lease{f['run']}"], [f["token"], "120000"]),
    lease._RELEASE: lambda f: ([f"lease{f['run']}"], [f["token"]]),
}
_RESET_SECONDS_AT = {admission._ADMIT: 1, admission._OBSERVE: 1}
"""The index of the part of a reply that depends on the time between two calls."""


@_EXAMPLES
@given(calls=st.lists(st.tuples(st.sampled_from(list(_SCRIPT_CALLS)), _FACTS), min_size=3, max_size=30))
def test_any_sequence_of_scripts_does_the_same_in_memory_and_in_valkey(
    valkey_server: ValkeyServer, calls: list[tuple[Script, _Facts]]
) -> None:
    """The platform's own scripts: every reply, and the keys that are left with their expiry."""
    assert {script.sha1 for script in _SCRIPT_CALLS} == set(_SCRIPTS)
    servers = _Servers(valkey_server.url)
    for script, facts in calls:
        replies: list[Any] = servers.run(script.source, *_SCRIPT_CALLS[script](facts))
        if script in _RESET_SECONDS_AT:
            for reply in replies:
                del reply[_RESET_SECONDS_AT[script]]
        assert replies[0] == replies[1], (script.source[:60], facts)
    ours, theirs = servers.contents()
    assert ours == theirs
