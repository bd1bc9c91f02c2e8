"""Scripts and the errors of Redis (RUN-6; issue 3: Redis down at each step)."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pytest
from redis.exceptions import DataError, RedisClusterException, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from dpp.platform.db.redis import Script, connect, unavailable_as_typed
from dpp.platform.errors import DependencyUnavailable, RedisUnavailable
from dpp_cli.local.servers import HOST, ValkeyServer, free_port

_OBSERVE = Script(("dpp.platform.db.lua", "rate_limit.lua"), ("dpp.runs.lua", "observe.lua"))


@pytest.fixture
def client(valkey_server: ValkeyServer) -> Iterator[Any]:
    """A container's client."""
    opened = connect(valkey_server.url)
    yield opened
    opened.close()


@pytest.fixture
def keys() -> list[str]:
    """Keys for this test's script."""
    name = uuid4().hex
    return [f"rate:{name}", f"budget:{name}"]


def test_a_script_is_composed_of_its_files_in_order() -> None:
    """Functions first, the body last; it is called by the digest of the whole."""
    parts = [files("dpp.platform.db.lua") / "rate_limit.lua", files("dpp.runs.lua") / "observe.lua"]
    assert _OBSERVE.source == "\n".join(part.read_text() for part in parts)
    assert len(_OBSERVE.sha1) == 40


def test_a_script_returns_strings(client: Any, keys: list[str]) -> None:
    """Every value of a reply is text."""
    reply = _OBSERVE.run(client, keys, (60,))
    assert reply == ["59", "1", "1", "0"]


def test_a_script_that_redis_lost_is_sent_once_and_then_called_by_digest(client: Any, keys: list[str]) -> None:
    """RUN-6: NOSCRIPT after a restart or a failover."""
    client.script_flush()
    assert client.script_exists(_OBSERVE.sha1) == [False]
    assert _OBSERVE.run(client, keys, (60,))[0] == "59"
    assert client.script_exists(_OBSERVE.sha1) == [True]


def test_a_script_that_returns_no_list_is_an_error(client: Any, keys: list[str], valkey_server: ValkeyServer) -> None:
    """The digest then belongs to a foreign script."""
    empty = Script(("dpp.platform.db.lua", "rate_limit.lua"))
    with pytest.raises(RedisUnavailable):
        empty.run(client, keys, (60,))


@pytest.mark.parametrize(
    "error",
    [RedisTimeout("x"), ResponseError("OOM command not allowed"), DataError("x"), RedisClusterException("x")],
    ids=lambda error: type(error).__name__,
)
def test_every_failure_of_redis_is_one_typed_error(error: Exception) -> None:
    """Issue 3, RUN-9: also a cluster's exceptions, which are not RedisErrors; their text is not passed on."""
    with pytest.raises(RedisUnavailable) as found, unavailable_as_typed():
        raise error
    assert isinstance(found.value, DependencyUnavailable)
    assert found.value.dependency == "redis"
    assert str(found.value) == f"redis is unavailable: {type(error).__name__}"


def test_an_error_of_the_caller_passes_through() -> None:
    """Only failures of Redis are converted."""
    with pytest.raises(KeyError), unavailable_as_typed():
        raise KeyError("the caller's own")


def test_a_missing_server_is_a_typed_error(keys: list[str]) -> None:
    """Issue 3: the first command is refused."""
    nowhere = connect(f"redis://:hunter2@{HOST}:{free_port()}/0")
    with pytest.raises(RedisUnavailable) as refused:
        _OBSERVE.run(nowhere, keys, (60,))
    assert "hunter2" not in str(refused.value)
    nowhere.close()


def test_a_dropped_connection_is_replaced_transparently(
    client: Any, valkey_server: ValkeyServer, keys: list[str]
) -> None:
    """Issue 3: a lost call is sent again once, since every script is repeatable."""
    other: Any = connect(valkey_server.url)
    assert client.client_setname(keys[0])
    [mine] = [one["id"] for one in other.client_list() if one["name"] == keys[0]]
    assert other.client_kill_filter(_id=mine) == 1
    other.close()
    assert _OBSERVE.run(client, keys, (60,))[2] == "1"
