"""Polls the Jira issues of a filter that changed since the last poll (LIFE-7), and builds event ids.

An id consists of the issue and the time of its last update, `jira:KEY-1:2026-11-28T09:15:30.123Z`. So each change is
one event, whether it is polled or delivered (LIFE-6).
"""

import math
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpp.lifecycle.flow.errors import SourceUnavailable, UnreadableDelivery
from dpp.lifecycle.flow.model import MAX_BODY, MAX_TITLE, MAX_URL, EventKind, NewEvent, Source, Subject, bounded
from dpp.lifecycle.flow.ports import Outside, OutsideRequest, Target
from dpp.lifecycle.flow.sources import polling
from dpp.platform.strict_json import Json

MAX_PAGES = 200
_PAGE = 50
_MAX_PATH = 4_000
_FIELDS = "summary,updated,project,creator"
_ORDER = re.compile(r"""\border\s+by\b[^"']*$""", re.IGNORECASE)
_CHANGES = ("jira:issue_created", "jira:issue_updated")  # compared, not hashed: the value may have any type
_MAX_DEPTH = 60
_BLOCKS = frozenset(
    {"paragraph", "heading", "listItem", "blockquote", "codeBlock", "tableRow", "rule", "panel", "mediaSingle"}
)


class _Person(BaseModel):
    displayName: str = ""


class _Project(BaseModel):
    key: str = ""


class _Fields(BaseModel):
    updated: str
    summary: str | None = None
    description: Any = None
    project: _Project | None = None
    creator: _Person | None = None


class _Issue(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    key: str = Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}-[0-9]{1,15}$")
    self: str = ""
    fields: _Fields


class _Delivery(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    webhookEvent: str
    issue: _Issue
    user: _Person | None = None


def poll(outside: Outside, jql: str, state: polling.PollState, sink: polling.EventSink) -> polling.PollResult:
    """Accept the changes of the filter's issues. Raises SourceUnavailable if not all were accepted."""
    token: str | None = None
    for _ in range(MAX_PAGES):
        issues, following = _page(outside, jql, state, token)
        for raw in issues:
            try:
                event = _event(_Issue.model_validate(raw))
            except (ValidationError, ValueError, OverflowError):
                sink.skip(raw.get("id") if isinstance(raw, dict) else None)
                continue
            if not sink.is_known(event.event_id):
                sink.accept(event)
        if following is None:
            return polling.PollResult(None, not_modified=False, wait_seconds=polling.POLL_SECONDS)
        if following == token:
            break
        token = following
    raise SourceUnavailable("JIRA_PAGES_WITHOUT_END")


def filter_since(jql: str, state: polling.PollState) -> str:
    """The filter with the time added. The time is relative: Jira reads an absolute time in the user's own zone."""
    minutes = max(1, math.ceil((state.started_at - state.since).total_seconds() / 60))
    return f'({_ORDER.sub("", jql).strip()}) AND updated >= "-{minutes}m" ORDER BY updated ASC'


def event_of(payload: Json) -> NewEvent | None:
    """The event of a delivery, None if it reports no change. Raises UnreadableDelivery.

    The filter is configured in Jira's webhook: a delivery does not say whether an issue matches ours.
    """
    if not isinstance(payload, dict):
        raise UnreadableDelivery
    if payload.get("webhookEvent") not in _CHANGES:
        return None
    try:
        delivery = _Delivery.model_validate(payload)
        return _event(delivery.issue, actor=delivery.user)
    except (ValidationError, ValueError, OverflowError):
        raise UnreadableDelivery from None


def text_of(document: Any) -> str:
    """The text of a description: a document (ADF) or, in a delivery, a string with wiki markup."""
    if isinstance(document, str):
        return document
    parts: list[str] = []
    _walk(document, parts, 0)
    return re.sub(r"\n{3,}", "\n\n", "".join(parts)).strip()


def _page(outside: Outside, jql: str, state: polling.PollState, token: str | None) -> tuple[list[Any], str | None]:
    """A page of issues and the token of the next page, None for the last; without descriptions if it is too large."""
    try:
        body = _ask(outside, jql, state, token, f"{_FIELDS},description")
    except polling.ReplyTooLarge:
        body = _ask(outside, jql, state, token, _FIELDS)
    issues = body.get("issues") if isinstance(body, dict) else None
    if not isinstance(issues, list):
        raise SourceUnavailable("JIRA_NO_LIST")
    following, is_last = body.get("nextPageToken"), body.get("isLast")
    if is_last is True or (is_last is None and following is None):
        return issues, None
    if not isinstance(following, str) or not following:
        raise SourceUnavailable("JIRA_NO_NEXT_PAGE")
    return issues, following


def _ask(outside: Outside, jql: str, state: polling.PollState, token: str | None, fields: str) -> Any:
    query = {"jql": filter_since(jql, state), "fields": fields, "maxResults": str(_PAGE)}
    if token is not None:
        query["nextPageToken"] = token
    path = f"/rest/api/3/search/jql?{urlencode(query)}"
    if len(path) > _MAX_PATH:
        raise SourceUnavailable("JIRA_FILTER_TOO_LONG")
    headers = {"accept": "application/json"}
    reply = outside.ask(OutsideRequest(target=Target.JIRA, method="GET", path=path, headers=headers))
    return polling.json_of(polling.require_ok(reply, Source.JIRA, state.started_at), Source.JIRA)


def _event(issue: _Issue, actor: _Person | None = None) -> NewEvent:
    """The issue's latest change. Raises ValueError, OverflowError for an invalid time."""
    fields = issue.fields
    updated = datetime.fromisoformat(fields.updated)
    if updated.tzinfo is None:
        raise ValueError("the time has no zone")
    updated = updated.astimezone(UTC)
    stamp = updated.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    who = actor or fields.creator
    subject = Subject(
        place=bounded(fields.project.key if fields.project else "", MAX_TITLE) or issue.key.rpartition("-")[0],
        title=bounded(fields.summary or "", MAX_TITLE) or issue.key,
        url=_address(issue),
        actor=bounded(who.displayName if who else "", MAX_TITLE),
        body=bounded(text_of(fields.description), MAX_BODY),
    )
    return NewEvent(f"jira:{issue.key}:{stamp}", Source.JIRA, EventKind.UPDATED, updated, subject)


def _address(issue: _Issue) -> str:
    """The page for people; `self` is the address in the API, on the same host."""
    parts = urlsplit(issue.self)
    if parts.scheme not in {"http", "https"} or not parts.netloc.isascii():
        return ""
    address = f"{parts.scheme}://{parts.netloc}/browse/{issue.key}"
    return address if address.isprintable() and len(address) <= MAX_URL else ""


def _walk(node: Any, parts: list[str], depth: int) -> None:
    if not isinstance(node, dict) or depth > _MAX_DEPTH:
        return
    kind, attrs = node.get("type"), node.get("attrs")
    attrs = attrs if isinstance(attrs, dict) else {}
    if kind == "hardBreak":
        parts.append("\n")
    text = node.get("text") if kind == "text" else attrs.get("text") or attrs.get("url")
    if isinstance(text, str):
        parts.append(text)
    content = node.get("content")
    for child in content if isinstance(content, list) else ():
        _walk(child, parts, depth + 1)
    if kind in _BLOCKS:
        parts.append("\n")
