"""Redis: one client per container, and scripts called by their digest."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisClusterException, RedisError
from redis.retry import Retry

from dpp.platform.config import ConfigurationError, RedisAddress, RedisBySecret
from dpp.platform.errors import RedisUnavailable, SecretUnavailable

type RedisClient = Redis | RedisCluster
type Reply = list[str]

_TIMEOUT_SECONDS = 2.0
_PING_AFTER_IDLE_SECONDS = 10
_SCHEME = "rediss"  # a token is never sent unencrypted


class _Token(CredentialProvider):
    """Fetches the token from Secrets Manager at each new connection, so that a rotated token is used at once."""

    def __init__(self, secret_arn: str) -> None:
        self._secret_arn = secret_arn

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """The token, with a user if the secret names one. Called by redis-py at each new connection."""
        from dpp.platform.aws import secrets  # noqa: PLC0415 - boto3, not needed with a URL

        try:
            fields = secrets.shared(self._secret_arn).renewed()
        except SecretUnavailable as error:
            raise RedisConnectionError(str(error)) from error
        token = secrets.field(fields, "auth_token")
        return (fields["username"], token) if "username" in fields else (token,)


def connect(address: RedisAddress, *, cluster: bool = False, timeout_seconds: float = _TIMEOUT_SECONDS) -> RedisClient:
    """A client for `redis://` or `rediss://`, or for a host with its secret's token, over TLS.

    Connects at the first command; a cluster's client asks for the nodes at once. A socket idle for 10 s is pinged first
    (the Lambda may have been frozen), and a lost call is sent once more, since every script of the platform is
    repeatable. Raises ConfigurationError, RedisUnavailable (cluster mode).
    """
    options: dict[str, Any] = {
        "decode_responses": True,
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "health_check_interval": _PING_AFTER_IDLE_SECONDS,
        "retry": Retry(NoBackoff(), 1),
    }
    if isinstance(address, RedisBySecret):
        options["credential_provider"] = _Token(address.secret_arn)
    url = address if isinstance(address, str) else f"{_SCHEME}://{address.host}:{address.port}/0"
    try:
        if cluster:
            with unavailable_as_typed():
                return RedisCluster.from_url(url, **options)
        return Redis.from_url(url, retry_on_error=[RedisConnectionError], **options)
    except ValueError:  # its message quotes the URL, password included
        raise ConfigurationError("REDIS_URL: not a valid URL; percent-encode special characters") from None


@contextmanager
def unavailable_as_typed() -> Iterator[None]:
    """Turn every failure of a Redis command into RedisUnavailable."""
    try:
        yield
    except (RedisError, RedisClusterException) as error:  # the latter is not a subclass of the former
        raise RedisUnavailable(type(error).__name__) from error


class Script:
    """A Lua script composed of files, called by digest and loaded again when Redis has lost it."""

    def __init__(self, *sources: tuple[str, str]) -> None:
        """`sources`: (package, file name) of each part; functions first, the body last."""
        parts = [files(package).joinpath(name).read_text(encoding="utf-8") for package, name in sources]
        self.source = "\n".join(parts)
        self.sha1 = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()

    def run(self, client: RedisClient, keys: Sequence[str], args: Sequence[str | int]) -> Reply:
        """Run the script and return its reply, a list of strings of which the first is the return code.

        Raises RedisUnavailable if there was no reply; the script may or may not have run.
        """
        with unavailable_as_typed():
            try:
                reply = client.evalsha(self.sha1, len(keys), *keys, *args)
            except NoScriptError:  # the script cache is empty after a restart or a failover
                reply = client.eval(self.source, len(keys), *keys, *args)
        if not isinstance(reply, list):
            raise RedisUnavailable("a script did not return a list")
        return [str(part) for part in reply]
