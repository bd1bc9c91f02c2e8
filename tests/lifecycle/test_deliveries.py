"""Signatures of deliveries, and their events, which are those of polls (LIFE-6, LIFE-7, LIFE-10)."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from dpp.lifecycle.flow import answer
from dpp.lifecycle.flow.errors import BadSignature, NotConfigured, StaleDelivery, UnreadableDelivery
from dpp.lifecycle.flow.intake.deliveries import (
    Delivery,
    DeliveryOutcome,
    DeliveryResult,
    WebhookEffects,
    WebhookSecrets,
    from_github,
    from_jira,
    from_slack,
)
from dpp.lifecycle.flow.model import Thread
from dpp.lifecycle.flow.sources.github_webhook import mentions
from dpp.platform.aws.renewable import Renewable
from dpp.platform.db.postgres import Connection
from tests.lifecycle.poll_environment import (
    JQL,
    LOGIN,
    NOW,
    PAGE,
    SEARCH,
    PollEnvironment,
    comment,
    comment_id,
    comment_path,
    issue,
    notification,
    recorded,
    reply,
)
from tests.lifecycle.signing import SECRETS, signed

FROM: dict[str, Callable[[WebhookEffects, Delivery], DeliveryResult]] = {
    "github": from_github,
    "jira": from_jira,
    "slack": from_slack,
}
RECORDED = {"github": "github_delivery_issue_comment", "jira": "jira_delivery_updated", "slack": "slack_delivery_reply"}
IGNORED = DeliveryResult(DeliveryOutcome.IGNORED)


@pytest.fixture
def effects(post: PollEnvironment) -> WebhookEffects:
    # The recorded deliveries are of this month, so that they are recent in any year.
    return WebhookEffects(post.database, post.wake, Renewable(SECRETS), LOGIN, horizon_days=3_650, clock=lambda: NOW)


def github(effects: WebhookEffects, payload: Any, kind: str = "issue_comment") -> DeliveryResult:
    return from_github(effects, signed("github", payload, kind=kind))


def changed(name: str = "github_delivery_issue_comment", **parts: Any) -> dict[str, Any]:
    """A recorded delivery with other values; `comment__body=` changes the body of its comment."""
    found: dict[str, Any] = recorded(name)
    for place, value in parts.items():
        *way, last = place.split("__")
        into = found
        for step in way:
            into = into[step]
        into[last] = value
    return found


# Signatures


@pytest.mark.parametrize("source", FROM)
def test_signature_covers_the_raw_bytes(effects: WebhookEffects, source: str) -> None:
    whole = signed(source, recorded(RECORDED[source]))
    assert whole.signature is not None
    last = "0" if whole.signature[-1] != "0" else "1"
    forged = [
        replace(whole, signature=None),
        replace(whole, signature=""),
        replace(whole, signature="한"),
        replace(whole, signature=whole.signature[:-1] + last),
        replace(whole, signature=whole.signature.partition("=")[2]),
        replace(whole, signature=whole.signature.replace("256=", "1=").replace("v0=", "v1=")),
        replace(whole, body=whole.body + b" "),
        replace(whole, body=b""),
    ]
    for one in forged:
        with pytest.raises(BadSignature):
            FROM[source](effects, one)
    FROM[source](effects, whole)


@pytest.mark.parametrize("source", FROM)
def test_source_without_a_secret_is_not_configured(effects: WebhookEffects, source: str) -> None:
    bare = replace(effects, secrets=Renewable(WebhookSecrets()))
    with pytest.raises(NotConfigured):
        FROM[source](bare, signed(source, {}))


def test_github_without_a_login_is_not_configured(effects: WebhookEffects) -> None:
    with pytest.raises(NotConfigured):
        from_github(replace(effects, github_login=None), signed("github", {}))


@pytest.mark.parametrize("seconds", [-301, 301, 86_400])
def test_slack_signature_is_valid_for_five_minutes(effects: WebhookEffects, seconds: int) -> None:
    at = NOW + timedelta(seconds=seconds)
    with pytest.raises(StaleDelivery):
        from_slack(effects, signed("slack", {"type": "x"}, at=at))
    edge = NOW + timedelta(seconds=300 if seconds > 0 else -300)
    assert from_slack(effects, signed("slack", {"type": "x"}, at=edge)) == IGNORED


@pytest.mark.parametrize("stamp", [None, "", "-5", "1e9", "१२३", "9" * 40])
def test_slack_timestamp_must_be_digits(effects: WebhookEffects, stamp: str | None) -> None:
    with pytest.raises(BadSignature):
        from_slack(effects, replace(signed("slack", {}), timestamp=stamp))


@pytest.mark.parametrize("source", FROM)
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"a": 1, "a": 2}', b'{"a": "\\u0000"}', b"[" * 100_000])
def test_signed_but_unreadable_delivery_is_rejected(effects: WebhookEffects, source: str, body: bytes) -> None:
    with pytest.raises(UnreadableDelivery):
        FROM[source](effects, signed(source, body))


# GitHub


def test_life_6_a_webhook_and_a_poll_of_a_mention_are_one_event(post: PollEnvironment, effects: WebhookEffects) -> None:
    delivered = github(effects, recorded("github_delivery_issue_comment"))
    assert delivered == DeliveryResult(DeliveryOutcome.ACCEPTED, comment_id(1))
    assert post.woken == ["KING"]
    assert post.execute("SELECT arrived_by, kind FROM lifecycle_events") == [("WEBHOOK", "MENTIONED")]
    post.outside.answers = {f"{PAGE}1": reply([notification(1)]), comment_path(1): reply(comment(1))}
    assert post.poll_source().duplicates == 1
    again = github(effects, recorded("github_delivery_issue_comment"))
    assert again == DeliveryResult(DeliveryOutcome.DUPLICATE, comment_id(1))
    assert post.woken == ["KING"]


def test_life_6_a_webhook_and_a_poll_of_a_review_request_are_one_event(
    post: PollEnvironment, effects: WebhookEffects
) -> None:
    event_id = "github:o/r/pulls/7#review_request"
    delivered = github(effects, recorded("github_delivery_pull_request"), "pull_request")
    assert delivered == DeliveryResult(DeliveryOutcome.ACCEPTED, event_id)
    post.outside.answers[f"{PAGE}1"] = reply([notification(7, "review_requested", kind="pulls")])
    assert (post.poll_source().duplicates, post.ids()) == (1, [event_id])


@pytest.mark.parametrize(
    ("kind", "payload", "event_id"),
    [
        ("issues", changed(action="assigned", assignee={"login": "DPP-Bot"}), "github:o/r/issues/1#assign"),
        ("issues", changed(action="opened", issue__body="cc @dpp-bot."), "github:o/r/issues/1"),
        ("issues", changed(action="edited", issue__body="(@DPP-bot)"), "github:o/r/issues/1"),
        ("issue_comment", changed(action="edited"), comment_id(1)),
        (
            "pull_request",
            changed("github_delivery_pull_request", action="opened", pull_request__body="@dpp-bot"),
            "github:o/r/pulls/7",
        ),
        (
            "pull_request",
            changed("github_delivery_pull_request", action="assigned", assignee={"login": LOGIN}),
            "github:o/r/pulls/7#assign",
        ),
        (
            "pull_request_review",
            changed(
                "github_delivery_pull_request",
                action="submitted",
                review={"id": 80, "body": "@dpp-bot", "submitted_at": "2026-11-28T11:00:00Z"},
            ),
            "github:o/r/pulls/7/reviews/80",
        ),
        (
            "pull_request_review_comment",
            changed(
                "github_delivery_pull_request",
                action="created",
                comment={
                    "url": "https://api.github.com/repos/o/r/pulls/comments/9",
                    "body": "@dpp-bot",
                    "created_at": "2026-11-28T11:00:00Z",
                },
            ),
            "github:o/r/pulls/comments/9",
        ),
    ],
)
def test_delivery_for_us_is_accepted(
    effects: WebhookEffects, kind: str, payload: dict[str, Any], event_id: str
) -> None:
    assert github(effects, payload, kind) == DeliveryResult(DeliveryOutcome.ACCEPTED, event_id)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("ping", {"zen": "Keep it logically awesome.", "hook_id": 1}),
        ("", {}),
        ("push", {"ref": "refs/heads/main"}),
        ("issue_comment", changed(comment__body="nobody")),
        ("issue_comment", changed(action="deleted")),
        ("issue_comment", changed(comment__user={"login": "DPP-bot"})),
        ("issue_comment", changed(sender__login=LOGIN)),
        ("issues", changed(action="assigned", assignee={"login": "octocat"})),
        ("issues", changed(action="unassigned", assignee={"login": LOGIN})),
        ("issues", changed(action="labeled")),
        ("pull_request", changed("github_delivery_pull_request", requested_reviewer=None)),
        ("pull_request", changed("github_delivery_pull_request", requested_reviewer={"login": "x"})),
        ("pull_request", changed("github_delivery_pull_request", action="synchronize")),
    ],
)
def test_delivery_for_others_is_ignored(
    post: PollEnvironment, effects: WebhookEffects, kind: str, payload: Any
) -> None:
    assert github(effects, payload, kind) == IGNORED
    assert (post.ids(), post.woken) == ([], [])


@pytest.mark.parametrize(
    "payload",
    [
        [],
        {"action": "created"},
        changed(comment=None),
        changed(comment__url="https://evil.example/"),
        changed(comment__created_at="yesterday"),
        changed(comment__created_at=None),
    ],
)
def test_malformed_github_delivery_is_rejected(effects: WebhookEffects, payload: Any) -> None:
    with pytest.raises(UnreadableDelivery):
        github(effects, payload)


def test_old_delivery_is_too_old(post: PollEnvironment, effects: WebhookEffects) -> None:
    delivered = github(replace(effects, horizon_days=28), changed(comment__created_at="2020-01-01T00:00:00Z"))
    assert delivered == DeliveryResult(DeliveryOutcome.TOO_OLD, comment_id(1))
    assert post.ids() == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@dpp-bot", True),
        ("hi @DPP-BOT!", True),
        ("안녕 @dpp-bot님", True),
        ("(@dpp-bot)", True),
        ("@dpp-bot2", False),
        ("@dpp-bot-x", False),
        ("@dpp-bot/team", False),
        ("a@dpp-bot", False),
        ("@@dpp-bot", False),
        ("https://x/@dpp-bot", False),
        ("dpp-bot", False),
        (None, False),
    ],
)
def test_a_mention_is_a_whole_word(text: str | None, expected: bool) -> None:
    assert mentions(text, LOGIN) is expected


def test_an_app_is_mentioned_without_its_mark() -> None:
    assert mentions("@robot, please", "robot[bot]")


# Jira


def test_life_6_a_webhook_and_a_poll_of_an_update_are_one_event(post: PollEnvironment, effects: WebhookEffects) -> None:
    event_id = "jira:ED-1:2026-11-28T11:30:00.123Z"
    delivered = from_jira(effects, signed("jira", recorded("jira_delivery_updated")))
    assert delivered == DeliveryResult(DeliveryOutcome.ACCEPTED, event_id)
    post.github_login, post.jira_jql = None, JQL
    post.outside.answers[SEARCH] = reply({"issues": [issue("ED-1")], "isLast": True})
    assert (post.poll_source().duplicates, post.ids()) == (1, [event_id])
    assert post.payload(event_id)["actor"] == "Mia Krystof"


def test_other_jira_events_are_ignored_and_malformed_ones_rejected(effects: WebhookEffects) -> None:
    for payload in ({"webhookEvent": "comment_created"}, {"webhookEvent": ["jira:issue_updated"]}, {}):
        assert from_jira(effects, signed("jira", payload)) == IGNORED
    odd = [[], {"webhookEvent": "jira:issue_updated"}, changed("jira_delivery_updated", issue__key="x y-1")]
    for unfit in odd:
        with pytest.raises(UnreadableDelivery):
            from_jira(effects, signed("jira", unfit))


# Slack


@dataclass(slots=True)
class Awaiting:
    """Accepts the first answer in a thread."""

    heard: list[tuple[Thread, str]] = field(default_factory=list)

    def __call__(self, connection: Connection, thread: Thread, text: str, now: datetime | None = None) -> bool:
        self.heard.append((thread, text))
        return len(self.heard) == 1


@pytest.fixture
def awaiting(monkeypatch: pytest.MonkeyPatch) -> Awaiting:
    found = Awaiting()
    monkeypatch.setattr(answer, "answer_in_thread", found)
    return found


def test_life_10_a_reply_in_a_thread_is_the_answer_once(
    post: PollEnvironment, effects: WebhookEffects, awaiting: Awaiting
) -> None:
    delivery = signed("slack", recorded("slack_delivery_reply"))
    assert from_slack(effects, delivery) == DeliveryResult(DeliveryOutcome.ACCEPTED, "Ev123ABC456")
    assert from_slack(effects, delivery) == IGNORED
    thread = Thread("C123ABC456", "1795867100.000100")
    assert awaiting.heard == [(thread, "yes, use a < b &amp; go on")] * 2
    assert post.woken == ["GENERAL"]


@pytest.mark.parametrize(
    "odd",
    [
        {"bot_id": "B1"},
        {"user": None},
        {"subtype": "message_changed"},
        {"subtype": "bot_message"},
        {"thread_ts": None},
        {"text": ""},
        {"type": "reaction_added"},
    ],
)
def test_messages_other_than_replies_of_people_are_ignored(
    effects: WebhookEffects, awaiting: Awaiting, odd: dict[str, Any]
) -> None:
    payload = recorded("slack_delivery_reply")
    payload["event"] |= odd
    assert from_slack(effects, signed("slack", payload)) == IGNORED
    assert awaiting.heard == []


def test_slack_challenge_is_returned_and_malformed_deliveries_are_rejected(effects: WebhookEffects) -> None:
    challenge = {"token": "x", "challenge": "3eZbrw1a", "type": "url_verification"}
    assert from_slack(effects, signed("slack", challenge)).challenge == "3eZbrw1a"
    odd: list[Any] = [[], {"type": "url_verification"}, {"type": "event_callback"}]
    for payload in odd:
        with pytest.raises(UnreadableDelivery):
            from_slack(effects, signed("slack", payload))


def test_a_rotated_secret_is_fetched_once_and_not_at_each_delivery(effects: WebhookEffects) -> None:
    """The first delivery that is signed with the new secret fetches it, and the container keeps it."""
    fetched: list[WebhookSecrets] = []

    def fetch() -> WebhookSecrets:
        fetched.append(SECRETS)
        return SECRETS

    warm = replace(effects, secrets=Renewable(WebhookSecrets(github="an-old-one"), fetch))
    ping = signed("github", {"zen": "Design for failure."}, kind="ping")
    for _ in range(3):
        assert from_github(warm, ping).outcome is DeliveryOutcome.IGNORED
    assert len(fetched) == 1
    with pytest.raises(BadSignature):
        from_github(warm, replace(ping, signature="sha256=0"))
