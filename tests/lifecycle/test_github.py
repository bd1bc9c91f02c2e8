"""GitHub is polled with an ETag, and no failure loses or duplicates a notification (LIFE-6, LIFE-7)."""

import json
from datetime import timedelta
from typing import Any

import pytest

from dpp.lifecycle.flow.intake.poller import PollOutcome
from dpp.lifecycle.flow.model import MAX_BODY
from dpp.lifecycle.flow.ports import OUTCOME_HEADER, OutsideOutcome, OutsideReply
from dpp.lifecycle.flow.sources.github import path_of
from tests.lifecycle.poll_environment import (
    DAY,
    NOW,
    PAGE,
    PollEnvironment,
    comment,
    comment_id,
    comment_path,
    notification,
    recorded,
    reply,
)

LATER = NOW + timedelta(minutes=2)
MORE = {"etag": 'W/"one"', "link": f'<https://api.github.com{PAGE}2>; rel="next", <x>; rel="last"'}


def tell(post: PollEnvironment, *pages: list[Any], etag: str = 'W/"one"') -> None:
    """Notifications by pages, each with its comment."""
    for number, page in enumerate(pages, 1):
        link = {"link": f'<https://api.github.com{PAGE}{number + 1}>; rel="next"'} if number < len(pages) else {}
        post.outside.answers[f"{PAGE}{number}"] = reply(page, headers={"etag": etag, **link})
        for one in page:
            if isinstance(one, dict) and str(one.get("id", "")).isdigit():
                post.outside.answers[comment_path(int(one["id"]))] = reply(comment(int(one["id"])))


def test_a_mention_is_taken_in_with_what_was_written(post: PollEnvironment) -> None:
    tell(post, [notification(1)])
    report = post.poll_source()
    assert (report.outcome, report.accepted, post.woken) == (PollOutcome.TAKEN_IN, 1, ["KING"])
    assert post.payload(comment_id(1)) == {
        "place": "o/r",
        "title": "Greetings",
        "url": "https://github.com/o/r/issues/1#issuecomment-1001",
        "actor": "octocat",
        "body": "@dpp-bot hi",
    }
    assert post.poll_state() == ('W/"one"', NOW, 0)


def test_life_7_the_etag_is_sent_and_an_unchanged_page_is_all_that_is_asked(post: PollEnvironment) -> None:
    tell(post, [notification(1)])
    post.poll_source()
    post.outside.asked.clear()
    post.outside.answers[f"{PAGE}1"] = reply(status=304, headers={"x-poll-interval": "90"})
    report = post.poll_source(LATER)
    [asked] = post.outside.asked
    assert asked.headers["if-none-match"] == 'W/"one"'
    assert (report.outcome, report.next_poll_seconds) == (PollOutcome.NOT_MODIFIED, 90)
    assert post.poll_state() == ('W/"one"', LATER, 0)
    assert post.poll_source(LATER + timedelta(seconds=89)).outcome is PollOutcome.NOT_DUE
    assert post.poll_source(LATER + timedelta(seconds=90)).outcome is PollOutcome.NOT_MODIFIED


def test_assignments_and_review_requests_are_about_their_subject(post: PollEnvironment) -> None:
    tell(post, [notification(1, "assign"), notification(2, "review_requested", kind="pulls")])
    post.outside.answers["/repos/o/r/issues/1"] = reply(recorded("github_issue"))
    post.outside.answers["/repos/o/r/pulls/2"] = reply(recorded("github_issue"))
    post.poll_source()
    assert post.ids() == ["github:o/r/issues/1#assign", "github:o/r/pulls/2#review_request"]
    assert post.payload("github:o/r/issues/1#assign")["body"].startswith("I'm having")


def test_a_mention_in_the_issue_itself_is_about_the_issue(post: PollEnvironment) -> None:
    tell(post, [notification(1, comment=False)])
    post.outside.answers["/repos/o/r/issues/1"] = reply(recorded("github_issue"))
    post.poll_source()
    assert post.ids() == ["github:o/r/issues/1"]


def test_other_notifications_and_own_comments_are_skipped(post: PollEnvironment) -> None:
    tell(post, [notification(1, "subscribed"), notification(2, "ci_activity"), notification(3)])
    post.outside.answers[comment_path(3)] = reply(comment(3, author="DPP-bot"))
    report = post.poll_source()
    assert (report.outcome, report.accepted, report.skipped) == (PollOutcome.TAKEN_IN, 0, 0)
    assert post.woken == []


def test_every_page_is_taken_in_and_a_page_twice_doubles_nothing(post: PollEnvironment) -> None:
    tell(post, [notification(1), notification(2)], [notification(2), notification(3)], [notification(3)])
    report = post.poll_source()
    assert (report.accepted, report.duplicates) == (3, 2)
    assert post.ids() == [comment_id(number) for number in (1, 2, 3)]
    again = post.poll_source(LATER)
    assert (again.accepted, again.duplicates) == (0, 5)


def test_nothing_is_fetched_of_what_was_seen(post: PollEnvironment) -> None:
    tell(post, [notification(1)])
    post.poll_source()
    post.outside.asked.clear()
    post.poll_source(LATER)
    assert post.outside.paths == [f"{PAGE}1"]


@pytest.mark.parametrize(
    "broken",
    [
        reply(json.dumps([notification(2)])[:-40], headers={"etag": 'W/"one"'}),
        reply({"message": "not a list"}),
        reply("[" * 100_000),
        reply(status=500),
        reply(status=502),
        reply(status=429),
        reply(status=401),
        reply(status=304),
        reply(status=502, headers={OUTCOME_HEADER: OutsideOutcome.REPLY_TOO_LARGE}),
        None,
    ],
    ids=["cut", "no list", "deep", "500", "502", "429", "401", "304", "too large", "broken wire"],
)
def test_life_7_no_etag_is_kept_before_every_page_was_taken_in(
    post: PollEnvironment, broken: OutsideReply | None
) -> None:
    tell(post, [notification(1)], [notification(2)])
    whole = post.outside.answers[f"{PAGE}2"]
    del post.outside.answers[f"{PAGE}2"]
    if broken is not None:
        post.outside.answers[f"{PAGE}2"] = broken
    report = post.poll_source()
    assert (report.outcome, report.accepted, post.woken) == (PollOutcome.FAILED, 1, ["KING"])
    assert post.poll_state() == (None, None, 1)
    assert post.ids() == [comment_id(1)]

    post.outside.answers[f"{PAGE}2"] = whole
    assert post.poll_source(NOW + timedelta(hours=1)).outcome is PollOutcome.TAKEN_IN
    assert post.ids() == [comment_id(1), comment_id(2)]
    assert post.poll_state() == ('W/"one"', NOW + timedelta(hours=1), 0)


@pytest.mark.parametrize(
    "odd",
    [
        7,
        None,
        {"id": "9"},
        notification(9) | {"updated_at": "yesterday"},
        notification(9) | {"subject": {"title": "a discussion", "url": None}},
        notification(9) | {"subject": {"title": "t", "url": "https://evil.example/x"}},
        notification(9) | {"subject": {"title": "t", "url": "https://api.github.com/repos/o/../issues/1"}},
    ],
)
def test_one_item_that_can_not_be_read_is_counted_and_holds_nothing_back(post: PollEnvironment, odd: Any) -> None:
    tell(post, [odd, notification(1)])
    report = post.poll_source()
    assert (report.outcome, report.accepted, report.skipped) == (PollOutcome.TAKEN_IN, 1, 1)
    assert post.poll_state() == ('W/"one"', NOW, 0)


@pytest.mark.parametrize("status", [404, 410, 403, 451, 301])
def test_what_is_gone_is_an_event_without_its_body(post: PollEnvironment, status: int) -> None:
    tell(post, [notification(1)])
    post.outside.answers[comment_path(1)] = reply(status=status)
    assert post.poll_source().accepted == 1
    assert post.payload(comment_id(1))["body"] == ""


@pytest.mark.parametrize(
    ("broken", "seconds"),
    [
        (reply(status=500), 60),
        (reply(status=503, headers={"retry-after": "7"}), 7),
        (reply(status=429), 60),
        (reply(status=429, headers={"retry-after": "120"}), 120),
        (reply(status=429, headers={"retry-after": "9" * 21}), 60),
        (reply(status=429, headers={"retry-after": f"Wed, 21 Oct {'9' * 21} 07:28:00 GMT"}), 60),
        (reply("You have exceeded a secondary rate limit", status=403), 60),
        (
            reply(
                status=403, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW.timestamp()) + 600)}
            ),
            601,
        ),
        (reply('{"body": "cut'), 60),
    ],
)
def test_a_body_that_another_time_may_give_fails_the_poll_and_nothing_is_forgotten(
    post: PollEnvironment, broken: OutsideReply, seconds: int
) -> None:
    tell(post, [notification(1), notification(2)])
    post.outside.answers[comment_path(2)] = [broken, reply(comment(2))]
    report = post.poll_source()
    assert (report.outcome, report.next_poll_seconds) == (PollOutcome.FAILED, seconds)
    assert post.poll_state() == (None, None, 1)
    assert post.poll_source(NOW + timedelta(seconds=seconds)).accepted == 1
    assert post.ids() == [comment_id(1), comment_id(2)]


def test_of_what_is_beyond_the_horizon_nothing_is_fetched(post: PollEnvironment) -> None:
    tell(post, [notification(1, at=NOW - 28 * DAY)])
    assert post.poll_source().too_old == 1
    assert post.outside.paths == [f"{PAGE}1"]


def test_a_mention_is_as_old_as_what_was_written(post: PollEnvironment) -> None:
    """A thread is updated by every comment; a comment that was written long ago is not new."""
    tell(post, [notification(1)])
    post.outside.answers[comment_path(1)] = reply(comment(1, at=NOW - 40 * DAY))
    assert post.poll_source().too_old == 1


def test_pages_without_an_end_end(post: PollEnvironment) -> None:
    for number in range(1, 102):
        post.outside.answers[f"{PAGE}{number}"] = reply([], headers=MORE)
    report = post.poll_source()
    assert report.error == "source is unavailable: GITHUB_PAGES_WITHOUT_END"
    assert len(post.outside.asked) == 100


def test_odd_texts_are_kept_as_postgres_can_keep_them(post: PollEnvironment) -> None:
    tell(post, [notification(1)])
    post.outside.answers[comment_path(1)] = reply(comment(1, body="a\x00b\ud800 " + "한" * 9_000))
    post.poll_source()
    body = post.payload(comment_id(1))["body"]
    assert body.startswith("ab? 한")
    assert len(body) == MAX_BODY


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://api.github.com/repos/o/r.x/issues/comments/1", "o/r.x/issues/comments/1"),
        ("https://ghe.example/api/v3/repos/o/r/pulls/1", "o/r/pulls/1"),
        ("https://api.github.com/repos/o/./issues/1", None),
        ("https://api.github.com/repos/o/r/issues/1?x=1", None),
        ("https://api.github.com/user", None),
        (None, None),
    ],
)
def test_an_id_comes_of_an_address_of_the_api_and_of_no_other(url: str | None, path: str | None) -> None:
    assert path_of(url) == path
