"""Polls GitHub's notifications, page by page with the ETag of the first page (LIFE-7), and builds event ids.

An id contains the path of its subject in GitHub's API, which notifications and webhooks have in common (LIFE-6):
`github:o/r/issues/comments/123` for a comment, `github:o/r/pulls/7` for the text of a pull request,
`github:o/r/pulls/7#assign` for an assignment, `github:o/r/pulls/7#review_request` for a review request.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from dpp.lifecycle.flow.errors import SourceUnavailable
from dpp.lifecycle.flow.model import MAX_BODY, MAX_TITLE, MAX_URL, EventKind, NewEvent, Source, Subject, bounded
from dpp.lifecycle.flow.ports import Outside, OutsideReply, OutsideRequest, Target
from dpp.lifecycle.flow.sources import polling

MAX_PAGES = 100
"""5,000 unread notifications; the limit ends an endless chain of Link headers."""
KIND_OF_REASON: Mapping[str, EventKind] = {
    "mention": EventKind.MENTIONED,
    "assign": EventKind.ASSIGNED,
    "review_requested": EventKind.REVIEW_REQUESTED,
}
_MARK: Mapping[EventKind, str] = {EventKind.ASSIGNED: "#assign", EventKind.REVIEW_REQUESTED: "#review_request"}
_HEADERS = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
_PATH = re.compile(r"https?://[^/?#]+(?:/api/v3)?/repos/((?:[A-Za-z0-9_.-]+/){2,6}[A-Za-z0-9_.-]+)", re.ASCII)
_COMMENT = re.compile(r".+/comments/\d+", re.ASCII)
_NEXT = re.compile(r'<[^>]*>[^,]*;\s*rel="?next"?', re.IGNORECASE)
_ETAG = re.compile(r"[!-~]{1,500}", re.ASCII)
_MAX_ID = 300


class User(BaseModel):
    """A GitHub account."""

    login: str


class Item(BaseModel):
    """A comment, an issue or a pull request, in the format of the API and of webhooks."""

    model_config = ConfigDict(hide_input_in_errors=True)

    url: str = ""
    html_url: str | None = None
    title: str | None = None
    body: str | None = None
    user: User | None = None
    created_at: AwareDatetime | None = None

    @property
    def author(self) -> str:
        """The author, empty if the account was deleted."""
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
    """The part of an API address that identifies the subject, such as `o/r/issues/5`; None for other addresses."""
    match = _PATH.fullmatch(url or "")
    if match is None or {".", ".."} & set(match[1].split("/")):
        return None
    return match[1]


def event_id_of(path: str, kind: EventKind) -> str | None:
    """The event id for a path; None if it would be too long."""
    event_id = f"github:{path}{_MARK.get(kind, '')}"
    return event_id if len(event_id) <= _MAX_ID else None


def subject_of(place: str, title: str, *, url: str | None, actor: str, body: str | None) -> Subject:
    """The subject of an event, cut to the limits of a row."""
    return Subject(
        place=bounded(place, MAX_TITLE) or "GitHub",
        title=bounded(title, MAX_TITLE) or "(no title)",
        url=url if url and len(url) <= MAX_URL and url.isascii() and url.isprintable() else "",
        actor=bounded(actor, MAX_TITLE),
        body=bounded(body or "", MAX_BODY),
    )


def same_login(one: str, other: str) -> bool:
    """GitHub's account names are case-insensitive."""
    return one.casefold() == other.casefold()


def poll(outside: Outside, login: str, state: polling.PollState, sink: polling.EventSink) -> polling.PollResult:
    """Accept the events in the notifications of `login`. Raises SourceUnavailable if not all were accepted.

    Events accepted by then stay accepted, and are duplicates for the next poll. A page is read completely or not at
    all.
    """
    etag: str | None = None
    wait = 1
    for page in range(1, MAX_PAGES + 1):
        reply = _ask_page(outside, page, state.etag if page == 1 else None)
        wait = max(wait, polling.wait_seconds(reply.headers, state.started_at))
        if page == 1 and reply.status == 304 and state.etag is not None:
            return polling.PollResult(state.etag, not_modified=True, wait_seconds=wait)
        items = polling.json_of(polling.require_ok(reply, Source.GITHUB, state.started_at), Source.GITHUB)
        if not isinstance(items, list):
            raise SourceUnavailable("GITHUB_NO_LIST")
        if page == 1:
            etag = _storable(reply.headers.get("etag"))
        for item in items:
            _take(outside, login, state, sink, item)
        if not _NEXT.search(reply.headers.get("link", "")):
            return polling.PollResult(etag, not_modified=False, wait_seconds=wait)
    raise SourceUnavailable("GITHUB_PAGES_WITHOUT_END")


def _ask_page(outside: Outside, page: int, etag: str | None) -> OutsideReply:
    headers = dict(_HEADERS) if etag is None else {**_HEADERS, "if-none-match": etag}
    path = f"/notifications?participating=true&per_page=50&page={page}"
    return outside.ask(OutsideRequest(target=Target.GITHUB, method="GET", path=path, headers=headers))


def _storable(etag: str | None) -> str | None:
    return etag if etag and _ETAG.fullmatch(etag) else None


def _take(outside: Outside, login: str, state: polling.PollState, sink: polling.EventSink, raw: Any) -> None:
    """Accept one notification if its reason is ours; skip it if it can't be read."""
    try:
        notification = _Notification.model_validate(raw)
    except ValidationError:
        sink.skip(raw.get("id") if isinstance(raw, dict) else None)
        return
    kind = KIND_OF_REASON.get(notification.reason)
    if kind is None:
        return
    path = _path_of_subject(notification, kind)
    event_id = path and event_id_of(path, kind)
    if not path or not event_id:
        sink.skip(notification.id)
        return
    if sink.is_known(event_id):
        return
    bare = NewEvent(event_id, Source.GITHUB, kind, notification.updated_at, _bare_subject(notification))
    if notification.updated_at <= state.started_at - timedelta(days=state.horizon_days):
        sink.accept(bare)  # too old, whatever its content is
        return
    item = _fetch(outside, path, state.started_at)
    if item is not None and kind is EventKind.MENTIONED and same_login(item.author, login):
        return
    sink.accept(bare if item is None else _with_body(bare, notification, item))


def _path_of_subject(notification: _Notification, kind: EventKind) -> str | None:
    """The path of the latest comment for a mention, else that of the subject, to which assignments and review requests
    refer."""
    latest = path_of(notification.subject.latest_comment_url)
    if kind is EventKind.MENTIONED and latest is not None and _COMMENT.fullmatch(latest):
        return latest
    return path_of(notification.subject.url)


def _fetch(outside: Outside, path: str, now: datetime) -> Item | None:
    """Fetch the subject of a notification; None if it is deleted or not accessible, which must not block other
    notifications.

    Raises SourceUnavailable if a later attempt may succeed: a limit, 401, 5xx, or a truncated reply.
    """
    request = OutsideRequest(target=Target.GITHUB, method="GET", path=f"/repos/{path}", headers=_HEADERS)
    reply = outside.ask(request)
    try:
        body = polling.json_of(polling.require_ok(reply, Source.GITHUB, now), Source.GITHUB)
    except polling.RateLimited:
        raise
    except polling.ReplyTooLarge:
        return None
    except SourceUnavailable:
        if 300 <= reply.status < 500 and reply.status not in {401, 408}:
            return None
        raise
    try:
        return Item.model_validate(body)
    except ValidationError:
        return None


def _bare_subject(notification: _Notification) -> Subject:
    return subject_of(notification.repository.full_name, notification.subject.title, url=None, actor="", body=None)


def _with_body(bare: NewEvent, notification: _Notification, item: Item) -> NewEvent:
    """Add the fetched content. A mention happened when its text was written, as in a webhook."""
    happened_at = bare.happened_at
    if bare.kind is EventKind.MENTIONED and item.created_at is not None:
        happened_at = item.created_at
    subject = subject_of(
        notification.repository.full_name,
        notification.subject.title,
        url=item.html_url,
        actor=item.author,
        body=item.body,
    )
    return replace(bare, happened_at=happened_at, subject=subject)
