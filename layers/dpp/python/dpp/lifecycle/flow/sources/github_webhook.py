"""Reads GitHub's webhook deliveries as events, with the same ids as those of polls (LIFE-6, LIFE-7)."""

import re
from collections.abc import Mapping

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from dpp.lifecycle.flow.errors import UnreadableDelivery
from dpp.lifecycle.flow.model import EventKind, NewEvent, Source
from dpp.lifecycle.flow.sources.github import Item, User, event_id_of, path_of, same_login, subject_of
from dpp.platform.strict_json import Json

_WRITTEN = frozenset({"opened", "created", "submitted", "edited"})
_TOPIC_OF: Mapping[str, str] = {
    "issues": "issue",
    "issue_comment": "issue",
    "pull_request": "pull_request",
    "pull_request_review": "pull_request",
    "pull_request_review_comment": "pull_request",
}
_TEXT_OF: Mapping[str, str] = {
    "issues": "issue",
    "issue_comment": "comment",
    "pull_request": "pull_request",
    "pull_request_review": "review",
    "pull_request_review_comment": "comment",
}


class _Repository(BaseModel):
    full_name: str


class _Item(Item):
    id: int | None = None
    updated_at: AwareDatetime | None = None
    submitted_at: AwareDatetime | None = None


class _Payload(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    action: str
    repository: _Repository
    sender: User
    issue: _Item | None = None
    pull_request: _Item | None = None
    comment: _Item | None = None
    review: _Item | None = None
    assignee: User | None = None
    requested_reviewer: User | None = None

    def part(self, name: str) -> _Item:
        found: _Item | None = getattr(self, name)
        if found is None:
            raise UnreadableDelivery
        return found


def mentions(text: str | None, login: str) -> bool:
    """True if the text contains `@login` as a whole word; `@login/team` and `a@login` are other names."""
    name = re.escape(login.removesuffix("[bot]"))
    return bool(re.search(rf"(?<![\w@/.+-])@{name}(?![\w/-])", text or "", re.ASCII | re.IGNORECASE))


def event_of(event_name: str, payload: Json, login: str) -> NewEvent | None:
    """The event of a delivery, None if it is not addressed to `login`. Raises UnreadableDelivery."""
    if event_name not in _TOPIC_OF:
        return None
    try:
        delivery = _Payload.model_validate(payload)
    except ValidationError:
        raise UnreadableDelivery from None
    if same_login(delivery.sender.login, login):
        return None
    if delivery.action in _WRITTEN:
        return _mention(event_name, delivery, login)
    if event_name in {"issues", "pull_request"}:
        return _assignment(event_name, delivery, login)
    return None


def _mention(event_name: str, delivery: _Payload, login: str) -> NewEvent | None:
    topic, text = delivery.part(_TOPIC_OF[event_name]), delivery.part(_TEXT_OF[event_name])
    if same_login(text.author, login) or not mentions(text.body, login):
        return None
    url = text.url
    if event_name == "pull_request_review":  # a delivery has no address of its own for a review
        url = f"{topic.url}/reviews/{text.id}"
    return _event(EventKind.MENTIONED, delivery, (topic, text), url, text.created_at or text.submitted_at)


def _assignment(event_name: str, delivery: _Payload, login: str) -> NewEvent | None:
    topic = delivery.part(_TOPIC_OF[event_name])
    if delivery.action == "assigned" and delivery.assignee and same_login(delivery.assignee.login, login):
        kind = EventKind.ASSIGNED
    elif (
        delivery.action == "review_requested"
        and delivery.requested_reviewer
        and same_login(delivery.requested_reviewer.login, login)
    ):
        kind = EventKind.REVIEW_REQUESTED
    else:
        return None
    return _event(kind, delivery, (topic, topic), topic.url, topic.updated_at)


def _event(
    kind: EventKind, delivery: _Payload, about: tuple[_Item, _Item], url: str, happened_at: AwareDatetime | None
) -> NewEvent:
    """`about`: the item with the title, and the item with the text."""
    topic, text = about
    path = path_of(url)
    event_id = path and event_id_of(path, kind)
    if not event_id or happened_at is None:
        raise UnreadableDelivery
    subject = subject_of(
        delivery.repository.full_name, topic.title or "", url=text.html_url, actor=delivery.sender.login, body=text.body
    )
    return NewEvent(event_id, Source.GITHUB, kind, happened_at, subject)
