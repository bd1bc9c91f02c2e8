"""The poller may crash at any point, and a failing source does not affect the other (LIFE-6, LIFE-7, LIFE-11)."""

import logging
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from dpp.lifecycle.flow.intake import accept, source_rows
from dpp.lifecycle.flow.intake.poller import MAX_PAUSE_SECONDS, PollOutcome, pause_seconds
from dpp.lifecycle.flow.model import Source
from dpp.platform.errors import PostgresUnavailable
from tests.lifecycle.poll_environment import (
    JQL,
    NOW,
    PAGE,
    SEARCH,
    PollEnvironment,
    comment,
    comment_id,
    comment_path,
    issue,
    notification,
    reply,
)
from tests.support.stored import existing

LATER = NOW + timedelta(hours=2)
ALL = [comment_id(1), comment_id(2), "jira:ED-1:2026-11-28T11:30:00.123Z"]


class Crash(BaseException):
    """The process is killed."""


@pytest.fixture
def post(post: PollEnvironment) -> PollEnvironment:
    """Two sources with new items: two pages of GitHub, one of Jira."""
    post.jira_jql = JQL
    link = {"link": f'<https://api.github.com{PAGE}2>; rel="next"'}
    post.outside.answers |= {
        f"{PAGE}1": reply([notification(1)], headers={"etag": '"one"', **link}),
        f"{PAGE}2": reply([notification(2)]),
        comment_path(1): reply(comment(1)),
        comment_path(2): reply(comment(2)),
        SEARCH: reply({"issues": [issue("ED-1")], "isLast": True}),
    }
    return post


class Fuse:
    """Counts effects, and ends the process before or after a given one."""

    def __init__(self, at: int | None, *, after: bool) -> None:
        self.at, self.after, self.effects = at, after, count()

    def wrap(self, effect: Any) -> Any:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            mine = next(self.effects)
            if mine == self.at and not self.after:
                raise Crash
            result = effect(*args, **kwargs)
            if mine == self.at:
                raise Crash
            return result

        return wrapped


def fire(post: PollEnvironment, fuse: Fuse) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accept, "accept_event", fuse.wrap(accept.accept_event))
        patch.setattr(source_rows, "polled", fuse.wrap(source_rows.polled))
        patch.setattr(type(post.outside), "ask", fuse.wrap(type(post.outside).ask))
        patch.setattr(type(post), "wake", fuse.wrap(type(post).wake))
        post.poll()


EFFECTS = 11


def test_the_crash_tests_know_every_effect(post: PollEnvironment) -> None:
    fuse = Fuse(None, after=False)
    fire(post, fuse)
    assert next(fuse.effects) == EFFECTS
    assert post.ids() == ALL


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("effect", range(EFFECTS))
def test_life_6_whichever_effect_is_the_last_everything_is_taken_in_once(
    post: PollEnvironment, effect: int, after: bool
) -> None:
    with pytest.raises(Crash):
        fire(post, Fuse(effect, after=after))
    before = post.poll_state()
    assert before is None or set(ALL[:2]) <= set(post.ids())  # an ETag is stored last
    post.poll(LATER)
    assert sorted(post.ids()) == sorted(ALL)
    poll_state = existing(post.poll_state())
    assert poll_state[0] == '"one"'


def test_life_11_heartbeat_is_recorded_even_if_nothing_is_due(post: PollEnvironment) -> None:
    post.github_login = post.jira_jql = None
    assert post.poll().sources == ()
    assert post.execute("SELECT role, beat_at FROM lifecycle_heartbeats") == [("SENTINEL", NOW)]


@pytest.mark.parametrize("failing", ["GITHUB", "JIRA"])
def test_one_failing_source_never_stops_the_other(post: PollEnvironment, failing: str) -> None:
    post.outside.answers[f"{PAGE}1" if failing == "GITHUB" else SEARCH] = reply(status=500)
    report = {one.source: one.outcome for one in post.poll().sources}
    assert report.pop(failing) is PollOutcome.FAILED  # type: ignore[call-overload]
    assert set(report.values()) == {PollOutcome.TAKEN_IN}


def test_defect_in_one_source_does_not_stop_the_other(post: PollEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpp.lifecycle.flow.sources.github.path_of", lambda url: 1 / 0)
    first, second = post.poll().sources
    assert (first.error, second.outcome) == ("unexpected: ZeroDivisionError", PollOutcome.TAKEN_IN)


def test_tick_without_postgres_fails_and_blames_no_source(
    post: PollEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise PostgresUnavailable("OperationalError")

    monkeypatch.setattr(accept, "accept_event", lost)
    with pytest.raises(PostgresUnavailable):
        post.poll()
    assert post.poll_state() is None


def test_the_pause_doubles_to_an_hour_and_ends_with_the_first_success(post: PollEnvironment) -> None:
    post.jira_jql = None
    answer = post.outside.answers[f"{PAGE}1"]
    post.outside.answers[f"{PAGE}1"] = reply(status=500)
    now, pauses = NOW, []
    for _ in range(8):
        pause = existing(post.poll_source(now).next_poll_seconds)
        assert post.poll_source(now + timedelta(seconds=pause - 1)).outcome is PollOutcome.NOT_DUE
        pauses.append(pause)
        now += timedelta(seconds=pause)
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert pause_seconds(10_000) == MAX_PAUSE_SECONDS
    post.outside.answers[f"{PAGE}1"] = answer
    assert post.poll_source(now).next_poll_seconds == 60


def test_poll_out_of_time_continues_at_the_next_tick(post: PollEnvironment) -> None:
    post.jira_jql = None
    ticks = count(0, 8)
    post.monotonic = lambda: float(next(ticks))
    assert post.poll_source().error == "source is unavailable: GITHUB_OUT_OF_TIME"
    assert post.ids() == [comment_id(1)]
    post.monotonic = lambda: 0.0
    assert post.poll_source(NOW + timedelta(minutes=1)).accepted == 1


def test_nothing_of_what_people_wrote_is_logged_or_reported(
    post: PollEnvironment, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    post.outside.answers[SEARCH] = reply('{"issues": [{"key": "Main order"')
    logged = str(post.poll().as_dict()) + "".join(str(record.__dict__) for record in caplog.records)
    for words in ("Greetings", "@dpp-bot hi", "Main order", "octocat"):
        assert words not in logged
    assert Source.JIRA in logged
