"""The notifier's messages, their order, and what happens to refused ones (LIFE-5, LIFE-10)."""

import json
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.lifecycle.flow import slack, store
from dpp.lifecycle.flow.errors import NotConfigured, OutsideUnavailable
from dpp.lifecycle.flow.model import MessageKind, Thread
from dpp.lifecycle.flow.notifier import LAST_PAUSE_SECONDS, pause_after
from dpp.lifecycle.flow.ports import OutsideReply
from dpp.lifecycle.flow.slack import Delivered, Refused
from dpp.lifecycle.flow.store import NewMessage
from tests.lifecycle.environment import CHANNEL, Environment


def _left(env: Environment) -> tuple[str, int, float, str | None]:
    """Status, attempts, pause in seconds and error of the only message."""
    ((status, attempts, next_at, why),) = env.rows(
        "SELECT status, attempts, next_attempt_at, last_error FROM lifecycle_messages"
    )
    return status, attempts, (next_at - env.now).total_seconds(), why


def test_messages_of_a_task_go_to_its_thread_in_their_order(env: Environment) -> None:
    task_id = env.started(ticks=3)
    assert env.notify().as_dict() == {"sent": 2, "failed": 0, "repeated": 0, "stopped_early": False}
    first, second = env.slack.posts
    assert first["text"].startswith(f"[{task_id}] Mentioned by kim in a/repo: a task")
    assert first["channel"] == "C0HOME"
    assert "thread_ts" not in first
    assert (second["channel"], second["thread_ts"]) == (CHANNEL, "1700000000.000001")
    assert second["text"].startswith("Done for 0.0200 USD.")
    assert env.slack.posted_ids == ["msg-20260301-001", "msg-20260301-002"]


def test_thread_is_deleted_with_the_last_message(env: Environment) -> None:
    task_id = env.started(plan=["AT_WORK"])
    env.notify()
    assert env.thread(task_id) == Thread(CHANNEL, "1700000000.000001")
    env.task_runs.plans.clear()
    env.run_ticks(2)
    assert env.messages(task_id)[-1] == ("TASK_RESULT", "SENT")
    assert env.rows("SELECT count(*) FROM lifecycle_threads") == [(0,)]


def test_by_an_incoming_webhook_every_message_names_its_task(env: Environment) -> None:
    env.slack.tells_threads = False
    task_id = env.started(ticks=3)
    env.notify()
    assert len(env.slack.posts) == 2
    assert all(post["text"].startswith(f"[{task_id}] ") for post in env.slack.posts)
    assert env.rows("SELECT count(*) FROM lifecycle_threads") == [(0,)]


def test_a_report_has_no_task_and_goes_to_the_channel(env: Environment) -> None:
    env.using(store.add_message, NewMessage(MessageKind.REPORT, None, "report/2026-03-01", "All is well"), env.now)
    env.notify()
    assert env.slack.posts[0]["text"] == "All is well"
    assert env.slack.posts[0]["channel"] == "C0HOME"


@pytest.mark.parametrize(
    ("reply", "why", "pause_seconds"),
    [
        (OutsideReply(status=500, body="<html>"), "slack: HTTP 500", 30),
        (OutsideReply(status=404, body="no_team"), "slack: HTTP 404", 30),
        (OutsideReply(status=302), "slack: HTTP 302", 30),
        (OutsideReply(status=429, headers={"retry-after": "90"}), "slack: ratelimited", 90),
        (OutsideReply(status=429, headers={"retry-after": "soon"}), "slack: ratelimited", 30),
        (OutsideReply(status=429, headers={"retry-after": "999999"}), "slack: ratelimited", 3_600),
        (OutsideReply(status=200, body='{"ok": false, "error": "channel_not_found"}'), "slack: channel_not_found", 30),
        (OutsideReply(status=200, body='{"ok": false, "error": "<b>"}'), "slack: an error without a code", 30),
        (OutsideReply(status=200, body="welcome"), "slack: not a reply of Slack", 30),
        (OutsideReply(status=200, body="[" * 100_000), "slack: not a reply of Slack", 30),
        (OutsideUnavailable("gone"), "slack: no reply", 30),
        (NotConfigured(), "slack: Slack is not configured", 30),
    ],
)
def test_refused_message_stays_pending_and_is_retried(
    env: Environment, reply: OutsideReply | Exception, why: str, pause_seconds: float
) -> None:
    def replies(_sent: dict[str, Any]) -> OutsideReply:
        if isinstance(reply, Exception):
            raise reply
        return reply

    env.emit("a task")
    env.dispatch()
    env.slack.replies = replies
    assert env.notify().failed == 1
    assert _left(env) == ("PENDING", 1, pause_seconds, why)
    env.slack.replies = lambda _sent: None
    env.pass_time(pause_seconds - 1)
    assert env.notify().sent == 0
    env.pass_time(1)
    assert env.notify().sent == 1
    assert _left(env)[0] == "SENT"


def test_the_pause_grows_up_to_an_hour(env: Environment) -> None:
    env.emit("a task")
    env.dispatch()
    env.slack.replies = lambda _sent: OutsideReply(status=503)
    pauses = []
    for _ in range(10):
        env.notify()
        pauses.append(_left(env)[2])
        env.pass_time(pauses[-1])
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


@given(st.integers(min_value=0, max_value=2**31 - 1))
def test_no_pause_is_above_an_hour(attempts: int) -> None:
    assert 30 <= pause_after(attempts) <= LAST_PAUSE_SECONDS


def test_undeliverable_message_delays_only_its_own_task(env: Environment) -> None:
    env.slack.replies = lambda posted_ids: OutsideReply(status=400) if "cursed" in posted_ids["text"] else None
    cursed, blessed = env.started("cursed", ticks=3), env.started("blessed", ticks=3)
    for _ in range(6):
        env.notify()
        env.pass_time(3_600)
    assert env.messages(cursed) == [("THREAD_START", "PENDING"), ("TASK_RESULT", "PENDING")]
    assert env.messages(blessed) == [("THREAD_START", "SENT"), ("TASK_RESULT", "SENT")]


def test_tick_stops_early_while_slack_is_down(env: Environment) -> None:
    for number in range(9):
        env.emit(f"task {number}")
    env.dispatch()
    env.slack.replies = lambda _sent: OutsideReply(status=503)
    report = env.notify()
    assert (report.failed, report.stopped_early) == (3, True)
    env.slack.replies = lambda _sent: OutsideReply(status=429)
    report = env.notify()
    assert (report.failed, report.stopped_early) == (1, True)


def test_leased_message_is_not_sent_by_another_notifier(env: Environment) -> None:
    env.emit("a task")
    env.dispatch()
    seen: list[int] = []

    def replies(_sent: dict[str, Any]) -> None:
        if not seen:
            seen.append(env.notify(other).sent)

    env.slack.replies = replies
    with closing(type(env.database)(env.url)) as other:
        assert env.notify().sent == 1
    assert seen == [0]
    assert len(env.slack.posts) == 1


def test_thread_of_the_first_commit_is_kept_after_a_double_send(env: Environment) -> None:
    """The first notifier was suspended past its lease."""
    env.started(plan=["AT_WORK"], ticks=0)
    seen: list[int] = []

    def replies(_sent: dict[str, Any]) -> None:
        if not seen:
            env.pass_time(61)
            seen.append(0)
            seen[0] = env.notify(other).sent

    env.slack.replies = replies
    with closing(type(env.database)(env.url)) as other:
        report = env.notify()
    assert (seen, report.sent, report.repeated) == ([1], 0, 1)
    assert env.rows("SELECT thread_ts FROM lifecycle_threads") == [("1700000000.000001",)]


def test_deleted_task_gets_no_thread(env: Environment) -> None:
    env.started(ticks=0)
    env.rows("DELETE FROM lifecycle_tasks")
    assert env.notify().sent == 1
    assert env.rows("SELECT count(*) FROM lifecycle_threads") == [(0,)]


@given(st.text(max_size=300))
def test_no_word_of_a_source_is_a_mention_or_a_link(text: str) -> None:
    escaped = slack.escaped(text)
    assert not set("<>") & set(escaped)
    assert escaped.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


def test_a_message_is_escaped_as_it_is_sent(env: Environment) -> None:
    env.emit("<!channel> & <https://evil.example|here>")
    env.dispatch()
    env.notify()
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt;" in env.slack.posts[0]["text"]


@given(st.text(max_size=60) | st.recursive(st.none() | st.booleans() | st.text(max_size=5), st.lists).map(json.dumps))
def test_any_reply_is_read(body: str) -> None:
    found = slack.read(OutsideReply(status=200, body=body))
    assert isinstance(found, Refused) or body.strip() == "ok"


def test_a_thread_that_can_t_be_kept_is_not(env: Environment) -> None:
    long = json.dumps({"ok": True, "channel": "C" * 101, "ts": "1"})
    assert slack.read(OutsideReply(status=200, body=long)) == Delivered(None)
    assert slack.read(OutsideReply(status=200, body='{"ok": true, "ts": 1}')) == Delivered(None)


def test_the_longest_body_fits_a_request(env: Environment) -> None:
    env.using(store.add_message, NewMessage(MessageKind.REPORT, None, "report/1", "&" * 4_000), env.now)
    assert env.notify().sent == 1
