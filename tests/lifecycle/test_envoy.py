"""What the envoy sends, in which order, and what becomes of what Slack does not take (LIFE-5, LIFE-10)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.lifecycle.flow import slack, store
from dpp.lifecycle.flow.errors import NotConfigured, WireUnavailable
from dpp.lifecycle.flow.model import MessageKind, Thread
from dpp.lifecycle.flow.notifier import LAST_PAUSE_SECONDS, pause_after
from dpp.lifecycle.flow.ports import OutsideReply
from dpp.lifecycle.flow.slack import Delivered, Refused
from dpp.lifecycle.flow.store import NewMessage
from tests.lifecycle.court import CHANNEL, Court, a_court, a_url  # noqa: F401 - fixtures


def _left(court: Court) -> tuple[str, int, float, str | None]:
    """Status, attempts, the pause in seconds, and why, of the only message."""
    ((status, attempts, next_at, why),) = court.rows(
        "SELECT status, attempts, next_attempt_at, last_error FROM lifecycle_messages"
    )
    return status, attempts, (next_at - court.now).total_seconds(), why


def test_messages_of_a_task_go_to_its_thread_in_their_order(court: Court) -> None:
    task_id = court.started(looks=3)
    assert court.envoy().as_dict() == {"sent": 2, "failed": 0, "repeated": 0, "stopped_early": False}
    first, second = court.slack.posts
    assert first["text"].startswith(f"[{task_id}] Mentioned by kim in a/repo: a task")
    assert first["channel"] == "C0HOME"
    assert "thread_ts" not in first
    assert (second["channel"], second["thread_ts"]) == (CHANNEL, "1700000000.000001")
    assert second["text"].startswith("Done for 0.0200 USD.")
    assert court.slack.told == ["msg-20260301-001", "msg-20260301-002"]


def test_a_mapping_goes_when_its_task_s_last_message_is_sent(court: Court) -> None:
    task_id = court.started(plan=["AT_WORK"])
    court.envoy()
    assert court.thread(task_id) == Thread(CHANNEL, "1700000000.000001")
    court.soldiers.plans.clear()
    court.settle(2)
    assert court.messages(task_id)[-1] == ("TASK_RESULT", "SENT")
    assert court.rows("SELECT count(*) FROM lifecycle_threads") == [(0,)]


def test_by_an_incoming_webhook_every_message_names_its_task(court: Court) -> None:
    court.slack.tells_threads = False
    task_id = court.started(looks=3)
    court.envoy()
    assert len(court.slack.posts) == 2
    assert all(post["text"].startswith(f"[{task_id}] ") for post in court.slack.posts)
    assert court.rows("SELECT count(*) FROM lifecycle_threads") == [(0,)]


def test_a_report_has_no_task_and_goes_to_the_channel(court: Court) -> None:
    with court.database.connection() as connection, connection.transaction():
        store.say(
            connection, NewMessage(MessageKind.REPORT, None, "report/2026-03-01", "All is well"), court.now
        )
    court.envoy()
    assert court.slack.posts[0]["text"] == "All is well"
    assert court.slack.posts[0]["channel"] == "C0HOME"


@pytest.mark.parametrize(
    ("reply", "why", "pause_seconds"),
    [
        (OutsideReply(status=500, body="<html>"), "slack: HTTP 500", 30),
        (OutsideReply(status=404, body="no_team"), "slack: HTTP 404", 30),
        (OutsideReply(status=302), "slack: HTTP 302", 30),
        (OutsideReply(status=429, headers={"retry-after": "90"}), "slack: ratelimited", 90),
        (OutsideReply(status=429, headers={"retry-after": "soon"}), "slack: ratelimited", 30),
        (OutsideReply(status=429, headers={"retry-after": "999999"}), "slack: ratelimited", 3_600),
        (
            OutsideReply(status=200, body='{"ok": false, "error": "channel_not_found"}'),
            "slack: channel_not_found",
            30,
        ),
        (
            OutsideReply(status=200, body='{"ok": false, "error": "<b>"}'),
            "slack: an error without a code",
            30,
        ),
        (OutsideReply(status=200, body="welcome"), "slack: no answer of Slack's", 30),
        (OutsideReply(status=200, body="[" * 100_000), "slack: no answer of Slack's", 30),
        (WireUnavailable("gone"), "slack: no reply", 30),
        (NotConfigured(), "slack: Slack is not configured", 30),
    ],
)
def test_what_slack_does_not_take_stays_pending_and_comes_again(
    court: Court, reply: OutsideReply | Exception, why: str, pause_seconds: float
) -> None:
    def replies(_told: dict[str, Any]) -> OutsideReply:
        if isinstance(reply, Exception):
            raise reply
        return reply

    court.emit("a task")
    court.king()
    court.slack.replies = replies
    assert court.envoy().failed == 1
    assert _left(court) == ("PENDING", 1, pause_seconds, why)
    court.slack.replies = lambda _told: None
    court.pass_time(pause_seconds - 1)
    assert court.envoy().sent == 0
    court.pass_time(1)
    assert court.envoy().sent == 1
    assert _left(court)[0] == "SENT"


def test_the_pause_grows_up_to_an_hour(court: Court) -> None:
    court.emit("a task")
    court.king()
    court.slack.replies = lambda _told: OutsideReply(status=503)
    pauses = []
    for _ in range(10):
        court.envoy()
        pauses.append(_left(court)[2])
        court.pass_time(pauses[-1])
    assert pauses == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


@given(st.integers(min_value=0, max_value=2**31 - 1))
def test_no_pause_is_above_an_hour(attempts: int) -> None:
    assert 30 <= pause_after(attempts) <= LAST_PAUSE_SECONDS


def test_a_message_that_nobody_can_deliver_holds_back_its_own_task_s_only(court: Court) -> None:
    court.slack.replies = lambda told: OutsideReply(status=400) if "cursed" in told["text"] else None
    cursed, blessed = court.started("cursed", looks=3), court.started("blessed", looks=3)
    for _ in range(6):
        court.envoy()
        court.pass_time(3_600)
    assert court.messages(cursed) == [("THREAD_START", "PENDING"), ("TASK_RESULT", "PENDING")]
    assert court.messages(blessed) == [("THREAD_START", "SENT"), ("TASK_RESULT", "SENT")]


def test_a_slack_that_is_down_is_not_asked_by_every_message(court: Court) -> None:
    for number in range(9):
        court.emit(f"task {number}")
    court.king()
    court.slack.replies = lambda _told: OutsideReply(status=503)
    report = court.envoy()
    assert (report.failed, report.stopped_early) == (3, True)
    court.slack.replies = lambda _told: OutsideReply(status=429)
    report = court.envoy()
    assert (report.failed, report.stopped_early) == (1, True)


def test_a_message_that_is_being_sent_is_no_other_envoy_s(court: Court) -> None:
    court.emit("a task")
    court.king()
    other = type(court.database)(court.url)
    seen: list[int] = []

    def replies(_told: dict[str, Any]) -> None:
        if not seen:
            seen.append(court.envoy(other).sent)

    court.slack.replies = replies
    try:
        assert court.envoy().sent == 1
    finally:
        other.close()
    assert seen == [0]
    assert len(court.slack.posts) == 1


def test_of_two_who_sent_it_one_s_thread_is_the_task_s(court: Court) -> None:
    """The first one slept past its minute."""
    court.started(plan=["AT_WORK"], looks=0)
    other = type(court.database)(court.url)
    seen: list[int] = []

    def replies(_told: dict[str, Any]) -> None:
        if not seen:
            court.pass_time(61)
            seen.append(0)
            seen[0] = court.envoy(other).sent

    court.slack.replies = replies
    try:
        report = court.envoy()
    finally:
        other.close()
    assert (seen, report.sent, report.repeated) == ([1], 0, 1)
    assert court.rows("SELECT thread_ts FROM lifecycle_threads") == [("1700000000.000001",)]


def test_a_task_that_is_gone_leaves_no_mapping(court: Court) -> None:
    court.started(looks=0)
    court.rows("DELETE FROM lifecycle_tasks")
    assert court.envoy().sent == 1
    assert court.rows("SELECT count(*) FROM lifecycle_threads") == [(0,)]


@given(st.text(max_size=300))
def test_no_word_of_a_source_is_a_mention_or_a_link(text: str) -> None:
    told = slack.escaped(text)
    assert not set("<>") & set(told)
    assert told.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == text


def test_a_message_is_escaped_as_it_is_sent(court: Court) -> None:
    court.emit("<!channel> & <https://evil.example|here>")
    court.king()
    court.envoy()
    assert "&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt;" in court.slack.posts[0]["text"]


@given(
    st.text(max_size=60)
    | st.recursive(st.none() | st.booleans() | st.text(max_size=5), st.lists).map(json.dumps)
)
def test_any_reply_is_read(body: str) -> None:
    found = slack.read(OutsideReply(status=200, body=body))
    assert isinstance(found, Refused) or body.strip() == "ok"


def test_a_thread_that_can_t_be_kept_is_not(court: Court) -> None:
    long = json.dumps({"ok": True, "channel": "C" * 101, "ts": "1"})
    assert slack.read(OutsideReply(status=200, body=long)) == Delivered(None)
    assert slack.read(OutsideReply(status=200, body='{"ok": true, "ts": 1}')) == Delivered(None)


def test_the_longest_body_fits_a_request(court: Court) -> None:
    with court.database.connection() as connection, connection.transaction():
        store.say(connection, NewMessage(MessageKind.REPORT, None, "report/1", "&" * 4_000), court.now)
    assert court.envoy().sent == 1
