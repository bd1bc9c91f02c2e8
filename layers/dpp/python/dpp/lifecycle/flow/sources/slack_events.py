"""What Slack's Events API calls with: its question whether we are we, and what people write in threads (LIFE-10)."""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from dpp.lifecycle.flow.errors import UnreadableDelivery
from dpp.lifecycle.flow.model import Thread
from dpp.platform.strict_json import Json

_SPOKEN = frozenset({"message", "app_mention"})
_SPOKEN_TOO = frozenset({None, "thread_broadcast", "file_share"})
_ESCAPED = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


@dataclass(frozen=True, slots=True)
class Challenge:
    """To be said back, as proof that the address is ours."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What a person wrote in a thread."""

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


def told_by(payload: Json) -> Challenge | Reply | None:
    """What a delivery tells, None of what is no person's reply in a thread. Raises UnreadableDelivery."""
    if not isinstance(payload, dict):
        raise UnreadableDelivery
    try:
        if payload.get("type") == "url_verification":
            return Challenge(_Verification.model_validate(payload).challenge)
        if payload.get("type") != "event_callback":
            return None
        told = _Callback.model_validate(payload)
    except ValidationError:
        raise UnreadableDelivery from None
    said = told.event
    if said.type not in _SPOKEN or said.subtype not in _SPOKEN_TOO or said.bot_id or not said.user:
        return None
    if not (said.channel and said.thread_ts and said.text):
        return None
    return Reply(told.event_id, Thread(said.channel, said.thread_ts), _unescaped(said.text))


def _unescaped(text: str) -> str:
    """Slack escapes three characters, and these alone (Slack guide, "Formatting text")."""
    for escaped, meant in _ESCAPED:
        text = text.replace(escaped, meant)
    return text
