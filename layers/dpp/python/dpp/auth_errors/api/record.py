"""Record an authentication error (AUTH-1, AUTH-2): once for a requestId, with its event in the same transaction."""

import logging
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from dpp.auth_errors import store
from dpp.auth_errors.api.sanitize import payload_hash
from dpp.auth_errors.errors import AuthErrorConflict
from dpp.auth_errors.model import AuthError, AuthErrorReport
from dpp.auth_errors.outbox import events, tables
from dpp.auth_errors.outbox.publish import Waker
from dpp.platform.db.postgres import Database

_LOG = logging.getLogger("dpp.auth_errors.api.record")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded error. `created` is false if an earlier report created it."""

    error: AuthError
    created: bool


def record(
    report: AuthErrorReport, reported_by: str, database: Database, waker: Waker, now: datetime | None = None
) -> Recorded:
    """Record an error, or find it if it is recorded. Raises AuthErrorConflict if its requestId has another report.

    The error and its event are one transaction, and repeating the report is safe. After a crash before the publisher
    is woken, the event waits up to a minute for the publisher's schedule.
    """
    digest = payload_hash(report)
    with database.connection() as connection:
        with connection.transaction():
            created = store.record(connection, uuid4(), report, reported_by=reported_by, payload_hash=digest, now=now)
            if created is not None:
                event = events.recorded(created.auth_error_id, created.dedup_key, created.occurred_at)
                tables.enqueue(connection, event, now)
        known = created or store.find_by_key(connection, reported_by, report.request_id)
    if known is None:
        raise AssertionError("the authentication error of a known requestId can't be found")
    if known.payload_hash != digest:
        raise AuthErrorConflict
    if created is not None:
        waker.wake()
        _LOG.info(
            "authentication error recorded",
            extra={"auth_error_id": str(known.auth_error_id), "reported_by": reported_by},
        )
    return Recorded(known, created=created is not None)
