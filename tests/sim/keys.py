"""One Redis server in memory: its keys, their expiry, and the commands that the platform uses.

test_conformance_keys.py compares every command with a real Valkey.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

type Reply = str | int | list[str | None] | list[str] | None
type Saved = list[tuple[str, Any, int | None]]
"""Keys with their values and expiry times."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_MAX_INTEGER = 2**63 - 1


class Status(str):
    """A status reply, such as OK."""

    __slots__ = ()


class Scores(dict[str, int]):
    """A sorted set: member -> score."""


class Members(dict[str, None]):
    """A set, in the order of insertion, so that schedules are repeatable."""


@dataclass(slots=True)
class Keys:
    """The data of one server. A value is a str, a dict (a hash), Scores or Members."""

    now_ms: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    expires_at_ms: dict[str, int] = field(default_factory=dict)

    def at(self, now_ms: int) -> None:
        """Move the server's clock and drop the keys that have expired."""
        self.now_ms = now_ms
        if self.expires_at_ms:
            for key in [key for key, at in self.expires_at_ms.items() if at <= now_ms]:
                self.drop(key)

    def run(self, command: str, *args: str | int) -> Reply:
        """Run one command. Raises ResponseError as Redis does, AssertionError for a command not modelled here."""
        call = _COMMANDS.get(command.upper())
        if call is None:
            raise AssertionError(f"tests/sim/keys.py does not model the command {command}")
        return call(self, *map(str, args))

    def drop(self, key: str) -> int:
        """Delete one key; 1 if it existed."""
        self.expires_at_ms.pop(key, None)
        return int(self.values.pop(key, None) is not None)

    def clear(self) -> None:
        """FLUSHALL."""
        self.values.clear()
        self.expires_at_ms.clear()

    def hash(self, key: str) -> dict[str, str]:
        """The hash at a key, to read; empty if there is none."""
        return self._read(key, dict)

    def scores(self, key: str) -> Scores:
        """The sorted set at a key, to read; empty if there is none."""
        return self._read(key, Scores)

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and type(value) is not str:
            raise _wrong_type()
        return value

    def saved(self, names: Iterable[str]) -> Saved:
        """Copies of the values and expiry times of some keys, for `restore`."""
        return [(name, _copied(self.values.get(name)), self.expires_at_ms.get(name)) for name in names]

    def restore(self, saved: Saved) -> None:
        """Undo every change to these keys since they were saved."""
        for name, value, expires_at_ms in saved:
            self.drop(name)
            if value is not None:
                self.values[name] = value
            if expires_at_ms is not None:
                self.expires_at_ms[name] = expires_at_ms

    def _read[Value: dict[Any, Any]](self, key: str, kind: type[Value]) -> Value:
        value = self.values.get(key)
        if value is None:
            return kind()
        if type(value) is not kind:
            raise _wrong_type()
        return value

    def _write[Value: dict[Any, Any]](self, key: str, kind: type[Value]) -> Value:
        value = self._read(key, kind)
        self.values[key] = value
        return value

    def _remove(self, key: str, kind: type[dict[str, Any]], members: tuple[str, ...]) -> int:
        """Remove members; the last one removes the key."""
        value = self._read(key, kind)
        removed = sum(value.pop(member, value) is not value for member in members)
        if removed and not value:
            self.drop(key)
        return removed

    def _increase(self, key: str, amount: int) -> int:
        text = self.text(key)
        total = _integer("0" if text is None else text) + amount
        if abs(total) > _MAX_INTEGER:
            raise ResponseError("increment or decrement would overflow")
        self.values[key] = str(total)
        return total

    def _set(self, key: str, value: str, *options: str) -> str | None:
        words = [option.upper() for option in options]
        if "NX" in words and key in self.values:
            return None
        self.drop(key)
        self.values[key] = value
        for unit, milliseconds in (("PX", 1), ("EX", 1000)):
            if unit in words:
                self.expires_at_ms[key] = self.now_ms + int(options[words.index(unit) + 1]) * milliseconds
        return Status("OK")

    def _expire(self, key: str, ttl_ms: str) -> int:
        expires_at_ms = self.now_ms + _integer(ttl_ms)
        if key in self.values:
            self.expires_at_ms[key] = expires_at_ms
        return int(key in self.values)

    def _hset(self, key: str, *pairs: str) -> int:
        value = self._write(key, dict)
        before = len(value)
        value.update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(value) - before

    def _zadd(self, key: str, *args: str) -> int:
        only_new = args[0].upper() == "NX"
        score, member = args[1:] if only_new else args
        value = self._write(key, Scores)
        is_new = member not in value
        if is_new or not only_new:
            value[member] = int(score)
        return int(is_new)

    def _zrangebyscore(self, key: str, _low: str, high: str, _limit: str, start: str, count: str) -> list[str]:
        ordered = sorted(self.scores(key).items(), key=lambda item: (item[1], item[0]))
        found = [member for member, score in ordered if score <= int(high)]
        return found[int(start) : int(start) + int(count)]

    def _sadd(self, key: str, member: str) -> int:
        value = self._write(key, Members)
        is_new = member not in value
        value[member] = None
        return int(is_new)


_COMMANDS: dict[str, Callable[..., Reply]] = {
    "TIME": lambda keys: [str(keys.now_ms // 1000), str(keys.now_ms % 1000 * 1000)],
    "EXISTS": lambda keys, *names: sum(name in keys.values for name in names),
    "DEL": lambda keys, *names: sum(keys.drop(name) for name in names),
    "PEXPIRE": Keys._expire,
    "GET": Keys.text,
    "SET": Keys._set,
    "INCRBY": lambda keys, key, amount: keys._increase(key, _integer(amount)),
    "DECRBY": lambda keys, key, amount: keys._increase(key, -_integer(amount)),
    "HGET": lambda keys, key, name: keys.hash(key).get(name),
    "HMGET": lambda keys, key, *names: [keys.hash(key).get(name) for name in names],
    "HGETALL": lambda keys, key: [part for pair in keys.hash(key).items() for part in pair],
    "HKEYS": lambda keys, key: list(keys.hash(key)),
    "HEXISTS": lambda keys, key, name: int(name in keys.hash(key)),
    "HSET": Keys._hset,
    "HDEL": lambda keys, key, *names: keys._remove(key, dict, names),
    "ZADD": Keys._zadd,
    "ZREM": lambda keys, key, *members: keys._remove(key, Scores, members),
    "ZCARD": lambda keys, key: len(keys.scores(key)),
    "ZRANGEBYSCORE": Keys._zrangebyscore,
    "SADD": Keys._sadd,
    "SISMEMBER": lambda keys, key, member: int(member in keys._read(key, Members)),
    "SCARD": lambda keys, key: len(keys._read(key, Members)),
}


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text) or text == "-0" or abs(int(text)) > _MAX_INTEGER:
        raise ResponseError("value is not an integer or out of range")
    return int(text)


def _wrong_type() -> ResponseError:
    return ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")


def _copied(value: Any) -> Any:
    return type(value)(value) if isinstance(value, dict) else value
