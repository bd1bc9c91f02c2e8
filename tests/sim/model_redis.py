"""Keys and values of one Redis, with expiry, as far as the platform's scripts and commands use them."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Keys:
    """The data of one server, by its own clock."""

    now_ms: int = 0
    strings: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, dict[str, str]] = field(default_factory=dict)
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    sets: dict[str, dict[str, None]] = field(default_factory=dict)
    expires_at_ms: dict[str, int] = field(default_factory=dict)

    def at(self, now_ms: int) -> None:
        """Let the time pass: what has expired is gone."""
        self.now_ms = now_ms
        if self.expires_at_ms:
            for key in [key for key, at in self.expires_at_ms.items() if at <= now_ms]:
                self.delete(key)

    def exists(self, key: str) -> bool:
        """EXISTS."""
        return key in self.strings or key in self.hashes or key in self.scores or key in self.sets

    def delete(self, key: str) -> None:
        """DEL."""
        self.strings.pop(key, None)
        self.hashes.pop(key, None)
        self.scores.pop(key, None)
        self.sets.pop(key, None)
        self.expires_at_ms.pop(key, None)

    def clear(self) -> None:
        """FLUSHALL."""
        for kept in (self.strings, self.hashes, self.scores, self.sets, self.expires_at_ms):
            kept.clear()

    def expire(self, key: str, ttl_ms: int) -> None:
        """PEXPIRE."""
        if self.exists(key):
            self.expires_at_ms[key] = self.now_ms + ttl_ms

    def set(self, key: str, value: str, ttl_ms: int) -> None:
        """SET … PX."""
        self.strings[key] = value
        self.expires_at_ms[key] = self.now_ms + ttl_ms

    def increase(self, key: str, amount: int) -> str:
        """INCRBY, and DECRBY below zero; the new value."""
        self.strings[key] = str(int(self.strings.get(key, "0")) + amount)
        return self.strings[key]

    def hget(self, key: str, name: str) -> str | None:
        """HGET."""
        return self.hashes.get(key, {}).get(name)

    def hset(self, key: str, values: dict[str, str]) -> None:
        """HSET."""
        self.hashes.setdefault(key, {}).update(values)

    def hdel(self, key: str, name: str) -> None:
        """HDEL; the last member takes the key with it."""
        if key in self.hashes:
            self.hashes[key].pop(name, None)
            if not self.hashes[key]:
                self.delete(key)

    def zadd(self, key: str, member: str, score: int) -> None:
        """ZADD."""
        self.scores.setdefault(key, {})[member] = score

    def zrem(self, key: str, member: str) -> None:
        """ZREM; the last member takes the key with it."""
        if key in self.scores:
            self.scores[key].pop(member, None)
            if not self.scores[key]:
                self.delete(key)

    def zrangebyscore(self, key: str, latest: int, start: int, count: int) -> list[str]:
        """ZRANGEBYSCORE key -inf latest LIMIT start count."""
        ordered = sorted(self.scores.get(key, {}).items(), key=lambda item: (item[1], item[0]))
        return [member for member, score in ordered if score <= latest][start : start + count]


@dataclass(slots=True)
class Undo:
    """What stood at some keys before a write, so that a failover can lose the write (asynchronous replication)."""

    at_ms: int
    before: list[tuple[str, Keys]]


def before(keys: Keys, names: Sequence[str]) -> list[tuple[str, Keys]]:
    """The keys as they stand, each in a store of its own."""
    return [(name, _only(keys, name)) for name in names]


def restore(keys: Keys, kept: list[tuple[str, Keys]]) -> None:
    """Put the keys back as they stood."""
    for name, old in kept:
        keys.delete(name)
        keys.strings.update(old.strings)
        keys.hashes.update(old.hashes)
        keys.scores.update(old.scores)
        keys.sets.update(old.sets)
        keys.expires_at_ms.update(old.expires_at_ms)


def _only(keys: Keys, name: str) -> Keys:
    return Keys(
        0,
        {name: keys.strings[name]} if name in keys.strings else {},
        {name: dict(keys.hashes[name])} if name in keys.hashes else {},
        {name: dict(keys.scores[name])} if name in keys.scores else {},
        {name: dict(keys.sets[name])} if name in keys.sets else {},
        {name: keys.expires_at_ms[name]} if name in keys.expires_at_ms else {},
    )
