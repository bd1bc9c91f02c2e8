"""The three functions: a tick is counted, logged as counts, and returned (LIFE-11, RUN-31)."""

import logging
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from dpp.lifecycle.flow.errors import OutsideUnavailable
from dpp.platform.config import ConfigurationError
from dpp.platform.observability.metrics import TICKS
from tests.lifecycle.environment import Environment
from tests.support.api import lambda_context

ENVIRON = {
    "REDIS_URL": "redis://127.0.0.1:1/0",
    "DPP_RUN_QUEUE_URL": "http://127.0.0.1:1/queue",
    "DPP_RESULTS_BUCKET": "results",
    "DPP_STATE_BUCKET": "state",
    "DPP_LIFECYCLE_TENANT": "t_tasks",
    "DPP_LIFECYCLE_OUTSIDE_FUNCTION": "dpp-outside",
}
ROLES = ("king", "general", "envoy")


@pytest.fixture(name="fire")
def firing(env: Environment, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Invoke a role's function in this environment."""
    for name, value in (ENVIRON | {"DATABASE_URL": env.url}).items():
        monkeypatch.setenv(name, value)

    def fire(role: str) -> dict[str, Any]:
        wired = import_module(f"lifecycle_{role}.handler").wiring
        wired.cache_clear()
        try:
            body: dict[str, Any] = import_module(f"lifecycle_{role}.handler").handler({}, lambda_context())
            return body
        finally:
            wired().database.close()
            wired.cache_clear()

    return fire


@pytest.mark.parametrize("role", ROLES)
def test_idle_tick_is_reported_and_records_a_heartbeat(
    env: Environment, fire: Callable[[str], dict[str, Any]], role: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body = fire(role)
    assert set(body.values()) == {0}
    assert TICKS.name in capsys.readouterr().out
    assert env.rows("SELECT role FROM lifecycle_heartbeats") == [(role.upper(),)]


def test_no_content_of_an_event_is_logged(
    env: Environment,
    fire: Callable[[str], dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """D8: neither title nor body, whatever fails."""

    def ask(_self: object, _request: object) -> None:
        raise OutsideUnavailable("away")

    monkeypatch.setattr("dpp.lifecycle.flow.outside.OutsideFunction.ask", ask)
    env.emit("a-secret-title", body="a-secret-body")
    with caplog.at_level(logging.DEBUG):
        assert fire("king")["dispatched"] == 1
        assert fire("envoy")["failed"] == 1
        assert fire("general")["left"] + fire("general")["waits"] == 1
    logged = caplog.text + "".join(str(vars(record)) for record in caplog.records) + "".join(capsys.readouterr())
    assert "a-secret" not in logged


@pytest.mark.parametrize("role", ROLES)
def test_a_missing_variable_is_named(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENVIRON, "DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    wired = import_module(f"lifecycle_{role}.handler").wiring
    wired.cache_clear()
    with pytest.raises(ConfigurationError, match="DATABASE_URL"):
        wired()
