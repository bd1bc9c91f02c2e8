"""Redis: one client a container, and scripts called by their digest."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisClusterException, RedisError
from redis.retry import Retry

from dpp.platform.errors import RedisUnavailable

type RedisClient = Redis | RedisCluster
type Reply = list[str]

_TIMEOUT_SECONDS = 2.0
_PING_AFTER_IDLE_SECONDS = 10


def connect(url: str, *, cluster: bool = False, timeout_seconds: float = _TIMEOUT_SECONDS) -> RedisClient:
    """A client for `redis://` or `rediss://`. Connects at the first command; a cluster's asks for its nodes at once.

    A socket idle for 10 s is pinged first (a Lambda may have been frozen meanwhile), and one lost call is
    sent again: every script of the platform is repeatable, so twice is as good as once.
    Raises RedisUnavailable (cluster mode only).
    """
    retry = Retry(NoBackoff(), 1)
    if cluster:
        with unavailable_as_typed():
            return RedisCluster.from_url(
                url,
                decode_responses=True,
                socket_timeout=timeout_seconds,
                socket_connect_timeout=timeout_seconds,
                health_check_interval=_PING_AFTER_IDLE_SECONDS,
                retry=retry,
            )
    return Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=timeout_seconds,
        socket_connect_timeout=timeout_seconds,
        health_check_interval=_PING_AFTER_IDLE_SECONDS,
        retry=retry,
        retry_on_error=[RedisConnectionError],
    )


@contextmanager
def unavailable_as_typed() -> Iterator[None]:
    """Turn every failure of Redis to carry out a command into RedisUnavailable."""
    try:
        yield
    except (RedisError, RedisClusterException) as error:  # the latter is none of the former
        raise RedisUnavailable(type(error).__name__) from error


class Script:
    """A Lua script put together from files, called by digest and loaded again when Redis has lost it."""

    def __init__(self, *sources: tuple[str, str]) -> None:
        """`sources`: (package, file name) of each part; functions first, the body last."""
        parts = [files(package).joinpath(name).read_text(encoding="utf-8") for package, name in sources]
        self.source = "\n".join(parts)
        self.sha1 = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    def run(self, client: RedisClient, keys: Sequence[str], args: Sequence[str | int]) -> Reply:
        """The script's reply, a list of strings whose first is its return code.

        Raises RedisUnavailable when no reply came; the script may or may not have run.
        """
        with unavailable_as_typed():
            try:
                reply = client.evalsha(self.sha1, len(keys), *keys, *args)
            except NoScriptError:  # a restart or a failover: the cache of scripts is empty
                reply = client.eval(self.source, len(keys), *keys, *args)
        if not isinstance(reply, list):
            raise RedisUnavailable("a script answered no list")
        return [str(part) for part in reply]
