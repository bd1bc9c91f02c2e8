"""Observations of the fleet: stable workspaces cost little, changes are found soon (WS-5; D10)."""

from uuid import UUID

import pytest

from dpp.platform.errors import PostgresUnavailable, QueueUnavailable
from dpp.workspaces.control import tick as ticks
from dpp.workspaces.control.message import Collect, Observe, ObservePage, Tick, Work, body_of, parse
from dpp.workspaces.control.monitor import ARCHIVE_CHECK_EVERY, REFRESH_AFTER_SECONDS
from dpp.workspaces.control.tick import LOST_AFTER_SECONDS, PAGE, observe_fleet_page, tick
from dpp.workspaces.errors import ProviderUnavailable
from dpp.workspaces.model import Phase
from dpp.workspaces.store import NO_BOUND
from tests.workspaces.environment import LOOKS, Environment
from tests.workspaces.memory_provider import MemoryProvider

ONE = UUID("11111111-1111-4111-8111-111111111111")


@pytest.fixture
def asked(fleet: MemoryProvider) -> list[str]:
    """The calls of the provider from now on."""
    calls: list[str] = []
    fleet.faults.before = calls.append
    return calls


def test_stable_fleet_costs_one_observation_per_page_and_no_write(
    env: Environment, fleet: MemoryProvider, asked: list[str]
) -> None:
    """WS-5."""
    for _ in range(6):
        env.create_in("STANDBY")
    env.run_ticks(2)
    before = env.rows("SELECT workspace_id, xmin, observed_at FROM workspaces ORDER BY 1")
    asked.clear()
    env.tick()
    env.deliver()
    assert asked.count("containers.observe") == asked.count("volumes.observe") == 1
    assert env.rows("SELECT workspace_id, xmin, observed_at FROM workspaces ORDER BY 1") == before
    assert env.sqs.of(LOOKS) == []


def test_each_archive_is_checked_in_rotation(env: Environment, fleet: MemoryProvider, asked: list[str]) -> None:
    """A HEAD per workspace and half minute would cost more than all else."""
    workspaces = [env.create_in("ARCHIVED") for _ in range(3)]
    env.run_ticks(1)
    asked.clear()
    for _ in range(ARCHIVE_CHECK_EVERY):
        env.tick()
        env.deliver()
        env.pass_time(30)
    assert asked.count("archives.head") in range(len(workspaces), len(workspaces) * 2 + 1)


def test_lost_archive_is_found_within_ten_minutes(env: Environment, fleet: MemoryProvider) -> None:
    """WS-2."""
    workspace_id = env.create_in("ARCHIVED")
    fleet.archives.objects.clear()
    env.run_ticks(ARCHIVE_CHECK_EVERY + 1)
    assert env.phase(workspace_id) is Phase.ERROR


def test_observed_at_is_at_most_five_minutes_old(env: Environment) -> None:
    workspace_id = env.create_in("STANDBY")
    env.run_ticks(20)
    observed_at = env.get(workspace_id).observed_at
    assert observed_at is not None
    assert (env.clock() - observed_at).total_seconds() < REFRESH_AFTER_SECONDS + 70


def test_all_pages_are_observed_per_tick(
    env: Environment, fleet: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticks, "PAGE", 2)
    workspaces = [env.create_in("STANDBY") for _ in range(5)]
    fleet.volumes.volumes.clear()
    env.tick()
    env.deliver()
    assert all(not env.get(one).volume_ready for one in workspaces)


def test_pages_after_a_failed_one_are_observed(
    env: Environment, fleet: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticks, "PAGE", 2)
    workspaces = [env.create_in("STANDBY") for _ in range(4)]
    env.run_ticks(1)
    fleet.volumes.volumes.clear()
    first = True

    def away(call: str) -> None:
        nonlocal first
        if call == "containers.observe" and first:
            first = False
            raise ProviderUnavailable

    fleet.faults.before = away
    env.tick()
    env.deliver()
    assert [env.get(one).volume_ready for one in workspaces] == [True, True, False, False]


def test_lost_observation_is_sent_again(env: Environment) -> None:
    """D10: twice a minute."""
    workspace_id = env.create("RUNNING")
    env.sqs.clear()
    assert env.tick().seeded == 1
    assert env.tick().seeded == 0
    env.sqs.clear()
    env.pass_time(LOST_AFTER_SECONDS + 1)
    assert env.tick().seeded == 1
    env.deliver()
    assert env.phase(workspace_id) is Phase.RUNNING


def test_request_needs_no_queue(env: Environment) -> None:
    """If SQS is unavailable, a tick finds the change in the row."""
    env.sqs.is_away = True
    workspace_id = env.create("RUNNING")
    env.set_desired_state(workspace_id, "STANDBY")
    with pytest.raises(QueueUnavailable):
        env.tick()
    env.sqs.is_away = False
    env.run_ticks(3)
    assert env.phase(workspace_id) is Phase.STANDBY


def test_workspace_in_error_is_observed_only_with_the_fleet(env: Environment, fleet: MemoryProvider) -> None:
    workspace_id = env.create_in("STANDBY")
    fleet.volumes.volumes.clear()
    env.run_ticks(3)
    assert env.phase(workspace_id) is Phase.ERROR
    assert env.tick().seeded == 0
    measures = env.tick().stats
    assert (measures.unsettled, measures.in_error, measures.lost) == (0, 1, 1)


def test_age_of_the_oldest_operation_is_measured(env: Environment, fleet: MemoryProvider) -> None:
    """For the alarm of a stuck operation."""
    workspace_id = env.create_in("STANDBY")

    fleet.faults.fail("containers.start", ProviderUnavailable)
    env.set_desired_state(workspace_id, "RUNNING")
    env.observe(workspace_id)
    env.pass_time(100)
    measures = env.tick().stats
    assert measures.unsettled == 1
    assert measures.oldest_operation_seconds == pytest.approx(100, abs=1)


def test_observing_a_missing_workspace_does_nothing(env: Environment) -> None:
    assert env.observe(ONE).workspace is None
    gone = env.create_in("PENDING")
    env.delete(gone)
    env.run_ticks(2)
    assert env.observe(gone).steps == []
    assert observe_fleet_page(ObservePage(0, 1), env.effects()).observed == 0


def test_unavailable_postgres_returns_the_message_to_the_queue(env: Environment) -> None:
    env.create()
    effects = env.effects()
    effects.database._address = "postgresql://postgres@127.0.0.1:1/nothing"
    effects.database.close()
    for does in (lambda: tick(effects), lambda: observe_fleet_page(ObservePage(0, 0), effects)):
        with pytest.raises(PostgresUnavailable):
            does()


@pytest.mark.parametrize(
    "message",
    [
        Observe(ONE),
        Work(ONE),
        ObservePage(0, 7),
        ObservePage(5, 0),
        Collect(None),
        Collect("a/b/c"),
        Tick(True),
        Tick(False),
    ],
)
def test_message_is_parsed_as_written(message: object) -> None:
    assert parse(body_of(message)) == message  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "null",
        "[]",
        "1",
        "{}",
        "not json",
        '{"look": 1}',
        '{"look": "x"}',
        f'{{"look": "{{{ONE}}}"}}',
        '{"work": null}',
        '{"fleet": {}}',
        '{"fleet": {"above": -1, "turn": 1}}',
        f'{{"fleet": {{"above": {NO_BOUND}, "turn": 1}}}}',
        '{"fleet": {"above": "1", "turn": 1}}',
        '{"beat": "hourly"}',
        '{"collect": {"after": 1}}',
        '"\\ud800"',
    ],
)
def test_unknown_message_is_dropped(body: str) -> None:
    assert parse(body) is None


def test_event_of_the_schedule_is_a_tick() -> None:
    assert parse('{"version": "0", "detail-type": "Scheduled Event", "detail": {}}') == Tick(is_minute=True)


def test_page_size_needs_few_calls() -> None:
    """ECS describes ten services per call: twenty calls, in a function that has a minute."""
    assert PAGE <= 300
