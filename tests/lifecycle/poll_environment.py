"""An environment for polls: real Postgres, and recorded replies of the sources."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from dpp.lifecycle.flow.errors import OutsideUnavailable
from dpp.lifecycle.flow.intake.poller import PollerEffects, PollerReport, SourceReport, poll_sources
from dpp.lifecycle.flow.model import EventKind, NewEvent, Source, Subject
from dpp.lifecycle.flow.ports import OutsideReply, OutsideRequest, Target
from dpp.platform.db.postgres import Database

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
DAY = timedelta(days=1)
HORIZON_DAYS = 28
LOGIN = "dpp-bot"
JQL = "assignee = currentUser()"
RECORDED = Path(__file__).parent / "recorded"


def recorded(name: str) -> Any:
    """A recorded response or delivery."""
    return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))


def reply(body: object = "", status: int = 200, headers: Mapping[str, str] | None = None) -> OutsideReply:
    """A reply; a body that is no text is JSON."""
    text = body if isinstance(body, str) else json.dumps(body)
    return OutsideReply(status=status, headers=dict(headers or {}), body=text)


def new_event(number: int = 1, happened_at: datetime = NOW) -> NewEvent:
    subject = Subject(place="o/r", title="a title", body="@dpp-bot, please")
    event_id = f"github:o/r/issues/comments/{number}"
    return NewEvent(event_id, Source.GITHUB, EventKind.MENTIONED, happened_at, subject)


@dataclass(slots=True)
class PlayedReplies:
    """Replies by target and path; a request without a reply fails. Several replies are played in order."""

    answers: dict[str, OutsideReply | list[OutsideReply]] = field(default_factory=dict)
    asked: list[OutsideRequest] = field(default_factory=list)
    before: Callable[[OutsideRequest], None] | None = None

    def ask(self, request: OutsideRequest) -> OutsideReply:
        self.asked.append(request)
        if self.before is not None:
            self.before(request)
        path = request.path if request.target is Target.GITHUB else request.path.partition("?")[0]
        found = self.answers.get(path)
        if isinstance(found, list):
            found = found.pop(0) if found else None
        if found is None:
            raise OutsideUnavailable("ConnectError")
        return found

    @property
    def paths(self) -> list[str]:
        """The requested paths, in order."""
        return [request.path for request in self.asked]


@dataclass(slots=True)
class PollEnvironment:
    """The parts around the poller: real Postgres, recorded replies, and the roles that were woken."""

    url: str
    database: Database
    outside: PlayedReplies = field(default_factory=PlayedReplies)
    woken: list[str] = field(default_factory=list)
    github_login: str | None = LOGIN
    jira_jql: str | None = None
    monotonic: Callable[[], float] = lambda: 0.0

    def effects(self) -> PollerEffects:
        return PollerEffects(
            database=self.database,
            outside=self.outside,
            wake=self.wake,
            github_login=self.github_login,
            jira_jql=self.jira_jql,
            horizon_days=HORIZON_DAYS,
            monotonic=self.monotonic,
        )

    def wake(self, role: str) -> None:
        """Record which role was woken."""
        self.woken.append(role)

    def poll(self, now: datetime = NOW) -> PollerReport:
        """Run one tick."""
        return poll_sources(self.effects(), now)

    def poll_source(self, now: datetime = NOW) -> SourceReport:
        """Run one tick with one source."""
        [report] = self.poll(now).sources
        return report

    def execute(self, statement: str, **params: object) -> list[tuple[Any, ...]]:
        """One statement, committed, on a connection of its own."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, params)
            return cursor.fetchall() if cursor.description else []

    def ids(self) -> list[str]:
        """The ids of the events, in the order of their arrival."""
        return [str(row[0]) for row in self.execute("SELECT event_id FROM lifecycle_events ORDER BY sequence")]

    def payload(self, event_id: str) -> dict[str, Any]:
        [[found]] = self.execute("SELECT payload FROM lifecycle_events WHERE event_id = %(id)s", id=event_id)
        payload: dict[str, Any] = found
        return payload

    def poll_state(self, source: str = "GITHUB") -> tuple[Any, ...] | None:
        """ETag, complete_until and failures of a source."""
        rows = self.execute(
            "SELECT etag, complete_until, failures FROM lifecycle_sources WHERE source = %(source)s", source=source
        )
        return rows[0] if rows else None


@contextmanager
def open_poll_environment(url: str) -> Iterator[PollEnvironment]:
    with closing(Database(url)) as database:
        yield PollEnvironment(url, database)


# GitHub

PAGE = "/notifications?participating=true&per_page=50&page="


def notification(
    number: int, reason: str = "mention", *, at: datetime = NOW, comment: bool = True, kind: str = "issues"
) -> dict[str, Any]:
    """A thread of the notifications API, about issue `number`, whose latest comment is 1000 + `number`."""
    made = recorded("github_notification")
    found: dict[str, Any] = made
    api = "https://api.github.com/repos/o/r"
    found["id"], found["reason"] = str(number), reason
    found["updated_at"] = at.isoformat().replace("+00:00", "Z")
    found["subject"] |= {
        "url": f"{api}/{kind}/{number}",
        "latest_comment_url": f"{api}/issues/comments/{1000 + number}" if comment else f"{api}/{kind}/{number}",
    }
    return found


def comment(number: int, *, at: datetime = NOW, author: str = "octocat", body: str = "@dpp-bot hi") -> dict[str, Any]:
    """The comment of `notification(number)`, as the API gives it."""
    found: dict[str, Any] = recorded("github_comment")
    found["url"] = f"https://api.github.com/repos/o/r/issues/comments/{1000 + number}"
    found["html_url"] = f"https://github.com/o/r/issues/{number}#issuecomment-{1000 + number}"
    found["created_at"] = at.isoformat().replace("+00:00", "Z")
    found["user"]["login"], found["body"] = author, body
    return found


def comment_path(number: int) -> str:
    return f"/repos/o/r/issues/comments/{1000 + number}"


def comment_id(number: int) -> str:
    """The event's id."""
    return f"github:o/r/issues/comments/{1000 + number}"


# Jira

SEARCH = "/rest/api/3/search/jql"


def issue(key: str, updated: str = "2026-11-28T20:30:00.123+0900") -> dict[str, Any]:
    """An issue, as the search returns it."""
    found: dict[str, Any] = recorded("jira_issue")
    found["key"] = key
    found["fields"]["updated"] = updated
    return found
