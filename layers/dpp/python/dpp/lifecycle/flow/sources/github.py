"""GitHub's notifications, asked page by page with the first page's ETag (LIFE-7), and the ids of its events.

An id is the path of what it is about in GitHub's API, which a notification and a webhook tell alike (LIFE-6):
`github:o/r/issues/comments/123` of a comment, `github:o/r/pulls/7` of what stands in the pull request itself,
`github:o/r/pulls/7#assign` of an assignment, `github:o/r/pulls/7#review_request` of a request for a review.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from dpp.lifecycle.flow.errors import SourceUnavailable
from dpp.lifecycle.flow.model import (
    MAX_BODY,
    MAX_TITLE,
    MAX_URL,
    EventKind,
    NewEvent,
    Source,
    Subject,
    bounded,
)
from dpp.lifecycle.flow.ports import Outside, OutsideReply, OutsideRequest, Target
from dpp.lifecycle.flow.sources.polling import (
    EventSink,
    PollResult,
    PollState,
    RateLimited,
    ReplyTooLarge,
    demand,
    json_of,
    wait_seconds,
)

MAX_PAGES = 100
"""5,000 unread notifications; a Link that leads on and on must have an end."""
KIND_OF_REASON: Mapping[str, EventKind] = {
    "mention": EventKind.MENTIONED,
    "assign": EventKind.ASSIGNED,
    "review_requested": EventKind.REVIEW_REQUESTED,
}
_MARK: Mapping[EventKind, str] = {
    EventKind.ASSIGNED: "#assign",
    EventKind.REVIEW_REQUESTED: "#review_request",
}
_HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
_PATH = re.compile(r"https?://[^/?#]+(?:/api/v3)?/repos/((?:[A-Za-z0-9_.-]+/){2,6}[A-Za-z0-9_.-]+)", re.ASCII)
_COMMENT = re.compile(r".+/comments/\d+", re.ASCII)
_NEXT = re.compile(r'<[^>]*>[^,]*;\s*rel="?next"?', re.IGNORECASE)
_ETAG = re.compile(r"[!-~]{1,500}", re.ASCII)
_MAX_ID = 300


class User(BaseModel):
    """Who."""

    login: str


class Item(BaseModel):
    """A comment, an issue or a pull request, as the API and a webhook tell it."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: str = ""
    html_url: str | None = None
    title: str | None = None
    body: str | None = None
    user: User | None = None
    created_at: AwareDatetime | None = None

    @property
    def author(self) -> str:
        """Who wrote it; empty where the account is gone."""
        return self.user.login if self.user else ""


class _Topic(BaseModel):
    title: str
    url: str
    latest_comment_url: str | None = None


class _Repository(BaseModel):
    full_name: str


class _Notification(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    id: str
    reason: str
    updated_at: AwareDatetime
    subject: _Topic
    repository: _Repository


def path_of(url: str | None) -> str | None:
    """What of an API address says what it is about, `o/r/issues/5`; None of what is no such address."""
    match = _PATH.fullmatch(url or "")
    if match is None or {".", ".."} & set(match[1].split("/")):
        return None
    return match[1]


def event_id_of(path: str, kind: EventKind) -> str | None:
    """The id of an event about this path; None where it would be longer than an id may be."""
    event_id = f"github:{path}{_MARK.get(kind, '')}"
    return event_id if len(event_id) <= _MAX_ID else None


def subject_of(place: str, title: str, *, url: str | None, actor: str, body: str | None) -> Subject:
    """What an event is about, cut to what a row keeps."""
    return Subject(
        place=bounded(place, MAX_TITLE) or "GitHub",
        title=bounded(title, MAX_TITLE) or "(no title)",
        url=url if url and len(url) <= MAX_URL and url.isascii() and url.isprintable() else "",
        actor=bounded(actor, MAX_TITLE),
        body=bounded(body or "", MAX_BODY),
    )


def same_login(one: str, other: str) -> bool:
    """GitHub's names know no case."""
    return one.casefold() == other.casefold()


def poll(outside: Outside, login: str, state: PollState, sink: EventSink) -> PollResult:
    """Take in what the notifications of `login` tell. Raises SourceUnavailable where not all of it was taken in.

    What was taken in by then stays so, and is a duplicate to the next poll. A page is read whole or not at all.
    """
    etag: str | None = None
    wait = 1
    for page in range(1, MAX_PAGES + 1):
        reply = _ask_page(outside, page, state.etag if page == 1 else None)
        wait = max(wait, wait_seconds(reply.headers, state.started_at))
        if page == 1 and reply.status == 304 and state.etag is not None:
            return PollResult(state.etag, not_modified=True, wait_seconds=wait)
        items = json_of(demand(reply, Source.GITHUB, state.started_at), Source.GITHUB)
        if not isinstance(items, list):
            raise SourceUnavailable("GITHUB_NO_LIST")
        if page == 1:
            etag = _storable(reply.headers.get("etag"))
        for item in items:
            _take(outside, login, state, sink, item)
        if not _NEXT.search(reply.headers.get("link", "")):
            return PollResult(etag, not_modified=False, wait_seconds=wait)
    raise SourceUnavailable("GITHUB_PAGES_WITHOUT_END")


def _ask_page(outside: Outside, page: int, etag: str | None) -> OutsideReply:
    headers = dict(_HEADERS) if etag is None else {**_HEADERS, "if-none-match": etag}
    path = f"/notifications?participating=true&per_page=50&page={page}"
    return outside.ask(OutsideRequest(target=Target.GITHUB, method="GET", path=path, headers=headers))


def _storable(etag: str | None) -> str | None:
    return etag if etag and _ETAG.fullmatch(etag) else None


def _take(outside: Outside, login: str, state: PollState, sink: EventSink, raw: Any) -> None:
    """Take in one notification, unless it is none of ours; one that can't be read is skipped."""
    try:
        told = _Notification.model_validate(raw)
    except ValidationError:
        sink.skip(raw.get("id") if isinstance(raw, dict) else None)
        return
    kind = KIND_OF_REASON.get(told.reason)
    if kind is None:
        return
    path = _path_told(told, kind)
    event_id = path and event_id_of(path, kind)
    if not path or not event_id:
        sink.skip(told.id)
        return
    if sink.is_known(event_id):
        return
    bare = NewEvent(event_id, Source.GITHUB, kind, told.updated_at, _bare_subject(told))
    if told.updated_at <= state.started_at - timedelta(days=state.horizon_days):
        sink.accept(bare)  # too old, whatever it says
        return
    item = _fetch(outside, path, state.started_at)
    if item is not None and kind is EventKind.MENTIONED and same_login(item.author, login):
        return
    sink.accept(bare if item is None else _with_body(bare, told, item))


def _path_told(told: _Notification, kind: EventKind) -> str | None:
    """The latest comment's path, else the subject's. To be assigned or asked for a review is about the subject."""
    latest = path_of(told.subject.latest_comment_url)
    if kind is EventKind.MENTIONED and latest is not None and _COMMENT.fullmatch(latest):
        return latest
    return path_of(told.subject.url)


def _fetch(outside: Outside, path: str, now: datetime) -> Item | None:
    """What a notification is about; None where it is gone, or not ours to read: one such must not hold back the rest.

    Raises SourceUnavailable where another time may tell: a limit, 401, 5xx, or a reply that was cut.
    """
    request = OutsideRequest(target=Target.GITHUB, method="GET", path=f"/repos/{path}", headers=_HEADERS)
    reply = outside.ask(request)
    try:
        body = json_of(demand(reply, Source.GITHUB, now), Source.GITHUB)
    except RateLimited:
        raise
    except ReplyTooLarge:
        return None
    except SourceUnavailable:
        if 300 <= reply.status < 500 and reply.status not in {401, 408}:
            return None
        raise
    try:
        return Item.model_validate(body)
    except ValidationError:
        return None


def _bare_subject(told: _Notification) -> Subject:
    return subject_of(told.repository.full_name, told.subject.title, url=None, actor="", body=None)


def _with_body(bare: NewEvent, told: _Notification, item: Item) -> NewEvent:
    """The event with what was fetched. A mention happened when it was written, as a webhook tells it too."""
    happened_at = bare.happened_at
    if bare.kind is EventKind.MENTIONED and item.created_at is not None:
        happened_at = item.created_at
    subject = subject_of(
        told.repository.full_name, told.subject.title, url=item.html_url, actor=item.author, body=item.body
    )
    return replace(bare, happened_at=happened_at, subject=subject)
