"""The events of this context: their types, keys, payloads and headers (004 §5.2, §6; AUTH-6, AUTH-7, AUTH-9)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

AGGREGATE_TYPE = "auth_error"

OUTBOX_ID_HEADER = "outboxId"
EVENT_TYPE_HEADER = "eventType"
AGGREGATE_TYPE_HEADER = "aggregateType"
HEADERS = (OUTBOX_ID_HEADER, EVENT_TYPE_HEADER, AGGREGATE_TYPE_HEADER)
"""Attributes that every message must have; a message without one of them is a dead letter at once."""


class EventType(StrEnum):
    """The type of an event."""

    RECORDED = "auth.error.recorded.v1"
    ANALYSIS_REQUESTED = "auth.error.analysis.requested.v1"


_KEYS: Mapping[EventType, str] = {EventType.RECORDED: "recorded", EventType.ANALYSIS_REQUESTED: "analysis_requested"}


@dataclass(frozen=True, slots=True)
class EventDescriptor:
    """An event to be published: its type, its error and its payload."""

    event_type: EventType
    auth_error_id: UUID
    payload: Mapping[str, str]

    @property
    def idempotency_key(self) -> str:
        """One event per type and error. The key uses the error's id, never its requestId (004 §4)."""
        return f"{AGGREGATE_TYPE}:{_KEYS[self.event_type]}:{self.auth_error_id}"

    @property
    def payload_hash(self) -> str:
        """SHA-256 of the payload with sorted keys."""
        text = json.dumps(dict(self.payload), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


def recorded(auth_error_id: UUID, request_id: str, occurred_at: datetime) -> EventDescriptor:
    """`auth.error.recorded.v1`: an error was recorded."""
    payload = {"authErrorId": str(auth_error_id), "requestId": request_id, "occurredAt": occurred_at.isoformat()}
    return EventDescriptor(EventType.RECORDED, auth_error_id, payload)


def analysis_requested(
    auth_error_id: UUID, request_id: str, occurred_at: datetime, requested_at: datetime
) -> EventDescriptor:
    """`auth.error.analysis.requested.v1`: an error is to be analysed."""
    payload = dict(recorded(auth_error_id, request_id, occurred_at).payload)
    payload["requestedAt"] = requested_at.isoformat()
    return EventDescriptor(EventType.ANALYSIS_REQUESTED, auth_error_id, payload)
