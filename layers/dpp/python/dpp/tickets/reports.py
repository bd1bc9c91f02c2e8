"""The reaper's reports: rows in Postgres, with copies in S3 (TIX-3, TIX-4).

A report is inserted in the transaction of the changes that it reports. It is published afterwards: first its snapshot,
then `latest`, then the row is marked. After a crash in between, or if S3 is unavailable, the next run publishes the
report before its own; writing the same copy twice is harmless. One run at a time publishes (`dpp.tickets.reap`), so
`latest` never goes back to an older report.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any

from psycopg.types.json import Jsonb

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Connection, Database
from dpp.tickets.errors import NoReportYet, SnapshotNotFound
from dpp.tickets.report import ReaperReport
from dpp.tickets.staleness import LATEST_KEY, snapshot_key, snapshot_key_of
from dpp.tickets.store import QUERIES

_LOG = logging.getLogger("dpp.tickets.reports")
_PUBLISHED_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report, as stored in Postgres."""

    report_id: int
    snapshot_key: str
    report: ReaperReport


def insert(connection: Connection, report: ReaperReport, *, actor: str, breaker_tripped: bool) -> StoredReport:
    """Insert a report, with the key of its snapshot as its evidence."""
    for nth in count(1):
        key = snapshot_key(report.asof, nth)
        whole = report.model_copy(update={"evidence_refs": (key,)})
        params = {
            "asof": report.asof,
            "actor": actor,
            "breaker_tripped": breaker_tripped,
            "snapshot_key": key,
            "report": Jsonb(whole.model_dump(mode="json", by_alias=True)),
        }
        row = connection.execute(QUERIES["insert_report"], params).fetchone()
        if row is not None:
            return StoredReport(int(row[0]), key, whole)
    raise AssertionError("unreachable")


def latest(connection: Connection) -> StoredReport:
    """The newest report. Raises NoReportYet."""
    row = connection.execute(QUERIES["latest_report"]).fetchone()
    if row is None:
        raise NoReportYet
    return _stored(row)


def of_snapshot(connection: Connection, name: str) -> StoredReport:
    """The report whose snapshot has this name. Raises SnapshotNotFound."""
    params = {"snapshot_key": snapshot_key_of(name)}
    row = connection.execute(QUERIES["report_of_snapshot"], params).fetchone()
    if row is None:
        raise SnapshotNotFound
    return _stored(row)


def publish(database: Database, storage: ObjectStore, now: datetime | None = None) -> int:
    """Publish the reports that are not marked as published, the oldest first, and return their number.

    Raises DependencyUnavailable.
    """
    with database.connection() as connection:
        due = connection.execute(QUERIES["unpublished_reports"], {"limit": _PUBLISHED_AT_ONCE}).fetchall()
    published = 0
    for stored in map(_stored, due):
        copy = stored.report.to_json().encode()
        storage.put_json(stored.snapshot_key, copy)
        storage.put_json(LATEST_KEY, copy)
        with database.connection() as connection:
            connection.execute(QUERIES["mark_published"], {"report_id": stored.report_id, "now": now})
        published += 1
    if published > 1:
        _LOG.info("published reports of earlier runs", extra={"reports": published - 1})
    return published


def _stored(row: tuple[Any, ...]) -> StoredReport:
    report_id, key, report = row
    return StoredReport(int(report_id), str(key), ReaperReport.model_validate(report))
