"""Authentication errors with their events, clusters and decisions, as stored in Postgres (AUTH-1 … AUTH-11)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from dpp.auth_errors.machine import AuthErrorStatus, DecisionType, OutboxStatus, ProcessedStatus
from dpp.auth_errors.outbox.events import EventType


class DecidedBy(StrEnum):
    """The kind of actor of a decision: a person or a policy."""

    OPERATOR = "OPERATOR"
    SYSTEM = "SYSTEM"


@dataclass(frozen=True, slots=True)
class AuthErrorReport:
    """A sanitised report of a service (AUTH-1). Its free text must not appear in logs."""

    request_id: str
    occurred_at: datetime
    http_status: int
    exception_class: str
    stacktrace: str = field(repr=False)
    exception_message: str | None = field(default=None, repr=False)
    root_cause_class: str | None = None
    root_cause_message: str | None = field(default=None, repr=False)
    service: str | None = None
    http_method: str | None = None
    request_path: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AuthError:
    """An authentication error. `sequence` is the order of recording; `dedup_key` is its requestId."""

    auth_error_id: UUID
    sequence: int
    reported_by: str
    dedup_key: str
    payload_hash: str
    occurred_at: datetime
    http_status: int
    exception_class: str
    exception_message: str | None = field(repr=False)
    root_cause_class: str | None
    root_cause_message: str | None = field(repr=False)
    stacktrace: str = field(repr=False)
    service: str | None
    http_method: str | None
    request_path: str | None = field(repr=False)
    status: AuthErrorStatus
    retry_count: int
    next_retry_at: datetime | None
    last_failure: str | None
    analyzed_at: datetime | None
    escalated_at: datetime | None
    moved_by: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class AuthErrorTransition:
    """One transition of an error; a trigger writes it."""

    from_status: AuthErrorStatus | None
    to_status: AuthErrorStatus
    actor: str
    failure: str | None
    happened_at: datetime


@dataclass(frozen=True, slots=True)
class Cluster:
    """The errors of one stack hash."""

    cluster_id: UUID
    hash_version: str
    stack_hash: str
    exception_class: str
    error_count: int
    first_seen_at: datetime
    last_seen_at: datetime
    escalated_at: datetime | None


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision on an error, with its actor, reason and inputs (AUTH-11)."""

    decision_id: UUID
    auth_error_id: UUID
    decision_type: DecisionType
    decided_by: DecidedBy
    actor: str
    reason: str
    inputs: Mapping[str, Any]
    policy_version: int | None
    policy_name: str | None
    from_status: AuthErrorStatus
    to_status: AuthErrorStatus
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class ClaimedEvent:
    """An event that a publisher has claimed. `retry_count` counts earlier failures to publish it."""

    outbox_id: int
    event_type: EventType
    aggregate_type: str
    payload: Mapping[str, Any]
    retry_count: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """An event in the outbox, with its processed message."""

    outbox_id: int
    auth_error_id: UUID
    event_type: EventType
    status: OutboxStatus
    retry_count: int
    next_retry_at: datetime | None
    last_error: str | None
    published_at: datetime | None
    handled_at: datetime | None
    created_at: datetime
    processed_status: ProcessedStatus | None
    attempts: int | None
    processed_next_retry_at: datetime | None
    processed_error: str | None


@dataclass(frozen=True, slots=True)
class ProcessedMessage:
    """A processed message. `attempts` counts leases, so that crashed attempts count."""

    outbox_id: int
    status: ProcessedStatus
    attempts: int
    lease_owner: UUID | None
    lease_until: datetime | None
    next_retry_at: datetime | None
    last_error: str | None
    dead_lettered_at: datetime | None
