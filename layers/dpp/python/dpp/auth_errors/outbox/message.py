"""Parses messages of the event queue strictly: a malformed one is a dead letter at once (004 §5.2; AUTH-7)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from dpp.auth_errors.outbox import events
from dpp.auth_errors.outbox.tables import EventRef
from dpp.platform.ids import parse_uuid
from dpp.platform.strict_json import JsonRefused, parse

_OUTBOX_ID = re.compile("[1-9][0-9]{0,17}", re.ASCII)


class DeadLetterReason(StrEnum):
    """The reason of a dead letter, stored as its attribute."""

    MISSING_HEADER = "MISSING_HEADER"
    BAD_HEADER = "BAD_HEADER"
    BAD_JSON = "BAD_JSON"
    NO_AUTH_ERROR_ID = "NO_AUTH_ERROR_ID"
    AUTH_ERROR_NOT_FOUND = "AUTH_ERROR_NOT_FOUND"
    UNKNOWN_EVENT = "UNKNOWN_EVENT"
    NOT_RETRYABLE = "NOT_RETRYABLE"
    MAX_RETRIES_EXCEEDED = "MAX_RETRIES_EXCEEDED"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """A message of the queue; `headers` are its attributes."""

    body: str = field(repr=False)
    headers: Mapping[str, str]


class MalformedMessage(Exception):
    """A message that can never be parsed. `detail` names the invalid part and quotes no content."""

    def __init__(self, reason: DeadLetterReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def outbox_id_of(headers: Mapping[str, str]) -> int | None:
    """The outbox id in a message's headers; None if it is missing or invalid."""
    text = headers.get(events.OUTBOX_ID_HEADER, "")
    return int(text) if _OUTBOX_ID.fullmatch(text) else None


def read(message: EventMessage) -> EventRef:
    """The event that the message names. Raises MalformedMessage."""
    missing = [name for name in events.HEADERS if not message.headers.get(name)]
    if missing:
        raise MalformedMessage(DeadLetterReason.MISSING_HEADER, ", ".join(missing))
    outbox_id = outbox_id_of(message.headers)
    if outbox_id is None:
        raise MalformedMessage(DeadLetterReason.BAD_HEADER, events.OUTBOX_ID_HEADER)
    if message.headers[events.AGGREGATE_TYPE_HEADER] != events.AGGREGATE_TYPE:
        raise MalformedMessage(DeadLetterReason.BAD_HEADER, events.AGGREGATE_TYPE_HEADER)
    try:
        event_type = events.EventType(message.headers[events.EVENT_TYPE_HEADER])
    except ValueError:
        raise MalformedMessage(DeadLetterReason.BAD_HEADER, events.EVENT_TYPE_HEADER) from None
    try:
        payload = parse(message.body)
    except JsonRefused as refused:
        raise MalformedMessage(DeadLetterReason.BAD_JSON, str(refused)) from None
    named = payload.get("authErrorId") if isinstance(payload, dict) else None
    auth_error_id = parse_uuid(named) if isinstance(named, str) else None
    if auth_error_id is None:
        raise MalformedMessage(DeadLetterReason.NO_AUTH_ERROR_ID, "authErrorId")
    return EventRef(outbox_id, event_type, auth_error_id)
