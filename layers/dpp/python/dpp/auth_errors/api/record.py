"""Take an authentication error in (AUTH-1, AUTH-2): once for a requestId, with its event in the same transaction."""

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
    """An error that stands; `created` false where it stood before."""

    error: AuthError
    created: bool


def record(
    report: AuthErrorReport,
    reported_by: str,
    database: Database,
    waker: Waker,
    now: datetime | None = None,
) -> Recorded:
    """Take it in, or find it taken in. Raises AuthErrorConflict where its requestId stands for another report.

    One transaction: a crash leaves both the error and its event, or neither, and the repetition tells which. A crash
    before the publisher was woken costs up to a minute, until its schedule fires.
    """
    digest = payload_hash(report)
    with database.connection() as connection:
        with connection.transaction():
            taken = store.record(
                connection, uuid4(), report, reported_by=reported_by, payload_hash=digest, now=now
            )
            if taken is not None:
                event = events.recorded(taken.auth_error_id, taken.dedup_key, taken.occurred_at)
                tables.enqueue(connection, event, now)
        known = taken or store.find_by_key(connection, reported_by, report.request_id)
    if known is None:
        raise AssertionError("an authentication error that is known can't be found")
    if known.payload_hash != digest:
        raise AuthErrorConflict
    if taken is not None:
        waker.wake()
        _LOG.info(
            "authentication error recorded",
            extra={"auth_error_id": str(known.auth_error_id), "reported_by": reported_by},
        )
    return Recorded(known, created=taken is not None)
