"""Reads requests of Slack's Events API: the URL verification, and people's replies in threads (LIFE-10)."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from dpp.lifecycle.flow.errors import UnreadableDelivery
from dpp.lifecycle.flow.model import Thread
from dpp.platform.strict_json import Json

_MESSAGE_TYPES = frozenset({"message", "app_mention"})
_MESSAGE_SUBTYPES = frozenset({None, "thread_broadcast", "file_share"})
_ESCAPED = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


@dataclass(frozen=True, slots=True)
class Challenge:
    """The URL verification; Slack expects the text in the response."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """A person's reply in a thread."""

    event_id: str
    thread: Thread
    text: str = field(repr=False)


class _Verification(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    challenge: str


class _Event(BaseModel):
    type: str
    subtype: str | None = None
    bot_id: str | None = None
    user: str | None = None
    channel: str | None = None
    thread_ts: str | None = None
    text: str | None = None


class _Callback(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)

    event_id: str
    event: _Event


def content_of(payload: Json) -> Challenge | Reply | None:
    """The content of a delivery, None if it is not a person's reply in a thread. Raises UnreadableDelivery."""
    if not isinstance(payload, dict):
        raise UnreadableDelivery
    try:
        if payload.get("type") == "url_verification":
            return Challenge(_Verification.model_validate(payload).challenge)
        if payload.get("type") != "event_callback":
            return None
        callback = _Callback.model_validate(payload)
    except ValidationError:
        raise UnreadableDelivery from None
    message = callback.event
    if (
        message.type not in _MESSAGE_TYPES
        or message.subtype not in _MESSAGE_SUBTYPES
        or message.bot_id
        or not message.user
    ):
        return None
    if not (message.channel and message.thread_ts and message.text):
        return None
    return Reply(callback.event_id, Thread(message.channel, message.thread_ts), _unescaped(message.text))


def _unescaped(text: str) -> str:
    """Slack escapes these three characters only (Slack guide, "Formatting text")."""
    for escaped, meant in _ESCAPED:
        text = text.replace(escaped, meant)
    return text
