"""What GitHub calls with: the deliveries that concern us, as events under the same ids as a poll's (LIFE-6, LIFE-7)."""

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
    """Whether the text has `@login` as a whole word; `@login/team` and `a@login` are somebody else."""
    name = re.escape(login.removesuffix("[bot]"))
    return bool(re.search(rf"(?<![\w@/.+-])@{name}(?![\w/-])", text or "", re.ASCII | re.IGNORECASE))


def event_of(event_name: str, payload: Json, login: str) -> NewEvent | None:
    """The event that a delivery tells, None of one that doesn't concern us. Raises UnreadableDelivery."""
    if event_name not in _TOPIC_OF:
        return None
    try:
        told = _Payload.model_validate(payload)
    except ValidationError:
        raise UnreadableDelivery from None
    if same_login(told.sender.login, login):
        return None
    if told.action in _WRITTEN:
        return _mention(event_name, told, login)
    if event_name in {"issues", "pull_request"}:
        return _appointment(event_name, told, login)
    return None


def _mention(event_name: str, told: _Payload, login: str) -> NewEvent | None:
    topic, text = told.part(_TOPIC_OF[event_name]), told.part(_TEXT_OF[event_name])
    if same_login(text.author, login) or not mentions(text.body, login):
        return None
    url = text.url
    if event_name == "pull_request_review":  # a review has no address of its own in a delivery
        url = f"{topic.url}/reviews/{text.id}"
    return _event(EventKind.MENTIONED, told, (topic, text), url, text.created_at or text.submitted_at)


def _appointment(event_name: str, told: _Payload, login: str) -> NewEvent | None:
    topic = told.part(_TOPIC_OF[event_name])
    if told.action == "assigned" and told.assignee and same_login(told.assignee.login, login):
        kind = EventKind.ASSIGNED
    elif (
        told.action == "review_requested"
        and told.requested_reviewer
        and same_login(told.requested_reviewer.login, login)
    ):
        kind = EventKind.REVIEW_REQUESTED
    else:
        return None
    return _event(kind, told, (topic, topic), topic.url, topic.updated_at)


def _event(
    kind: EventKind,
    told: _Payload,
    about: tuple[_Item, _Item],
    url: str,
    happened_at: AwareDatetime | None,
) -> NewEvent:
    """`about`: what has the title, and what has the words."""
    topic, text = about
    path = path_of(url)
    event_id = path and event_id_of(path, kind)
    if not event_id or happened_at is None:
        raise UnreadableDelivery
    subject = subject_of(
        told.repository.full_name,
        topic.title or "",
        url=text.html_url,
        actor=told.sender.login,
        body=text.body,
    )
    return NewEvent(event_id, Source.GITHUB, kind, happened_at, subject)
