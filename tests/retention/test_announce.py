"""The daily cleanup is announced in Slack if the deployment has a notifier (LIFE-5, LIFE-8)."""

from dataclasses import replace
from typing import Any

import pytest

from dpp.lifecycle.retention import daily_report
from lifecycle_chamberlain import handler as chamberlain
from lifecycle_chamberlain.handler import wiring
from tests.retention.environment import DAY, NIGHT, Environment
from tests.support.api import lambda_context


def messages(env: Environment) -> list[tuple[Any, ...]]:
    return env.execute("SELECT kind, task_id, dedup_key, body FROM lifecycle_messages")


def test_report_has_the_total_the_classes_and_the_warnings(env: Environment) -> None:
    env.change(announce=daily_report.announce)
    for number in (1, 2):
        env.seen(f"jira:A-{number}", NIGHT - 31 * DAY)
    task_id = env.task(7, None)
    env.thread(task_id, NIGHT - 8 * DAY)
    env.clean()
    env.tick()
    [(kind, of_task, key, body)] = messages(env)
    assert (kind, of_task, key) == ("REPORT", None, "cleanup/2026-11-29")
    first, of_class, *warnings = body.splitlines()
    assert first.startswith("Cleanup of 2026-11-29: 2 rows deleted, ")
    assert of_class == "• seen: 2"
    assert any(task_id in warning for warning in warnings)
    assert all(warning.startswith("! ") for warning in warnings)
    assert "jira:A" not in body


def test_report_with_many_warnings_is_cut_to_a_message(env: Environment) -> None:
    cleanup = replace(env.clean(), warnings=["w" * 300] * 100)
    env.using(daily_report.announce, cleanup, NIGHT)
    [(_, _, _, body)] = messages(env)
    assert len(body) == 4_000
    assert body.startswith("Cleanup of 2026-11-29: 0 rows deleted, 0 bytes.\n! www")


@pytest.mark.parametrize("envoy", [None, "dpp-test-lifecycle_envoy"])
def test_deployment_without_notifier_writes_no_message(
    env: Environment, envoy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message would never be sent, and the alarm for unsent messages would never clear."""
    monkeypatch.setenv("DATABASE_URL", env.url)
    monkeypatch.setenv("DPP_STATE_BUCKET", "state")
    if envoy is not None:
        monkeypatch.setenv("DPP_LIFECYCLE_ENVOY_FUNCTION", envoy)
    wiring.cache_clear()
    try:
        assert (wiring()[0].announce is not None) == (envoy is not None)
    finally:
        wiring()[0].database.close()
        wiring.cache_clear()


def test_notifier_is_woken_once_per_night(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    env.change(announce=daily_report.announce)
    woken: list[str] = []

    def wake(role: str) -> None:
        woken.append(role)

    monkeypatch.setattr(chamberlain, "wiring", lambda: (env.effects, wake))
    for _ in range(3):
        chamberlain.handler({}, lambda_context())
    assert woken == ["ENVOY"]
    assert len(messages(env)) == 1
