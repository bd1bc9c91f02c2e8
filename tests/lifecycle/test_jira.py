"""Jira is polled since the last check, and each update of an issue is one event (LIFE-6, LIFE-7)."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dpp.lifecycle.flow.intake.poller import PollOutcome
from dpp.lifecycle.flow.ports import OUTCOME_HEADER, OutsideOutcome, OutsideReply
from dpp.lifecycle.flow.sources.jira import text_of
from tests.lifecycle.poll_environment import JQL, NOW, SEARCH, PollEnvironment, issue, reply

ED_1 = "jira:ED-1:2026-11-28T11:30:00.123Z"
HOUR = timedelta(hours=1)


@pytest.fixture
def post(post: PollEnvironment) -> PollEnvironment:
    post.github_login, post.jira_jql = None, JQL
    return post


def page(*issues: object, token: str | None = None) -> OutsideReply:
    body: dict[str, Any] = {"issues": list(issues), "isLast": token is None}
    return reply(body if token is None else body | {"nextPageToken": token})


def query(post: PollEnvironment, number: int = -1) -> dict[str, str]:
    asked = parse_qs(urlsplit(post.outside.asked[number].path).query)
    return {name: values[0] for name, values in asked.items()}


def test_life_7_the_id_has_the_time_of_the_update(post: PollEnvironment) -> None:
    post.outside.answers[SEARCH] = page(issue("ED-1"))
    assert (post.poll_source().outcome, post.woken) == (PollOutcome.TAKEN_IN, ["KING"])
    assert post.ids() == [ED_1]
    assert post.payload(ED_1) == {
        "place": "ED",
        "title": "Main order flow broken",
        "url": "https://your-domain.atlassian.net/browse/ED-1",
        "actor": "Mia Krystof",
        "body": "What\nOrder entry fails for @Mia\nhttps://example.com/x\none\n\ntwo",
    }


def test_life_6_an_update_is_an_event_and_the_same_one_is_none(post: PollEnvironment) -> None:
    post.outside.answers[SEARCH] = [
        page(issue("ED-1")),
        page(issue("ED-1", "2026-11-28T11:30:00.123+0000"), issue("ED-1", "2026-11-28T11:59:00.000+0000")),
    ]
    post.poll_source()
    report = post.poll_source(NOW + HOUR)
    assert (report.accepted, report.duplicates) == (1, 1)
    assert post.ids() == [ED_1, "jira:ED-1:2026-11-28T11:59:00.000Z"]


def test_life_7_it_asks_since_the_last_check_with_an_overlap_and_never_beyond_the_horizon(
    post: PollEnvironment,
) -> None:
    post.outside.answers[SEARCH] = page()
    post.poll_source()
    assert query(post)["jql"] == f'({JQL}) AND updated >= "-{28 * 24 * 60}m" ORDER BY updated ASC'
    post.poll_source(NOW + timedelta(minutes=5))
    assert '"-65m"' in query(post)["jql"]
    post.poll_source(NOW + timedelta(days=60))
    assert f'"-{28 * 24 * 60}m"' in query(post)["jql"]


def test_a_filter_with_an_order_of_its_own_is_asked_in_ours(post: PollEnvironment) -> None:
    post.jira_jql = 'text ~ "order by" ORDER BY rank DESC, key'
    post.outside.answers[SEARCH] = page()
    post.poll_source()
    assert query(post)["jql"].startswith('(text ~ "order by") AND updated >=')


def test_pages_are_followed_by_their_tokens(post: PollEnvironment) -> None:
    post.outside.answers[SEARCH] = [page(issue("ED-1"), token="t/1="), page(issue("ED-2"))]
    assert post.poll_source().accepted == 2
    assert query(post)["nextPageToken"] == "t/1="


@pytest.mark.parametrize(
    "broken",
    [
        reply(json.dumps({"issues": [issue("ED-2")], "isLast": True})[:-9]),
        reply([]),
        reply({"isLast": True}),
        reply({"issues": [], "isLast": False}),
        page(issue("ED-1"), token="t1"),
        reply(status=400),
        reply(status=429, headers={"retry-after": "30"}),
        reply(status=503),
    ],
    ids=["cut", "no object", "no list", "no token", "the same token", "400", "429", "503"],
)
def test_the_last_check_moves_on_only_when_every_page_was_taken_in(post: PollEnvironment, broken: OutsideReply) -> None:
    post.outside.answers[SEARCH] = [page(issue("ED-1"), token="t1"), broken]
    assert post.poll_source().outcome is PollOutcome.FAILED
    assert post.poll_state("JIRA") == (None, None, 1)
    assert post.ids() == [ED_1]
    post.outside.answers[SEARCH] = [page(issue("ED-1"), token="t1"), page(issue("ED-2"))]
    assert post.poll_source(NOW + HOUR).accepted == 1
    assert post.poll_state("JIRA") == (None, NOW + HOUR, 0)


def test_a_page_that_is_too_large_is_asked_again_without_descriptions(post: PollEnvironment) -> None:
    too_large = reply(status=502, headers={OUTCOME_HEADER: OutsideOutcome.REPLY_TOO_LARGE})
    post.outside.answers[SEARCH] = [too_large, page(issue("ED-1"))]
    assert post.poll_source().accepted == 1
    assert "description" in query(post, 0)["fields"]
    assert "description" not in query(post, 1)["fields"]


@pytest.mark.parametrize(
    "odd",
    [
        None,
        {"key": "ED-9"},
        issue("no key"),
        issue("ED-9", "yesterday"),
        issue("ED-9", "2026-11-28T11:30:00.123"),
        issue("ED-9", "0001-01-01T00:00:00.000+1400"),
    ],
)
def test_one_issue_that_can_not_be_read_is_counted_and_holds_nothing_back(post: PollEnvironment, odd: object) -> None:
    post.outside.answers[SEARCH] = page(odd, issue("ED-1"))
    report = post.poll_source()
    assert (report.outcome, report.accepted, report.skipped) == (PollOutcome.TAKEN_IN, 1, 1)


def test_a_filter_that_no_address_can_hold_is_said(post: PollEnvironment) -> None:
    post.jira_jql = "한" * 500
    assert post.poll_source().error == "source is unavailable: JIRA_FILTER_TOO_LONG"


def test_any_document_has_a_text() -> None:
    deep: dict[str, Any] = {"type": "text", "text": "never reached"}
    for _ in range(500):
        deep = {"type": "panel", "content": [deep]}
    assert text_of(deep) == ""
    assert text_of("h1. wiki") == "h1. wiki"
    assert text_of({"type": "doc", "content": "no list", "attrs": []}) == text_of(None) == ""
