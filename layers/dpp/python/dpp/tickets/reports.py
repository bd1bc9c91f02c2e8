"""The reaper's reports: rows, of which the objects in S3 are copies (TIX-3, TIX-4).

A report is a row of the transaction that it tells of. Afterwards it is published: its snapshot first, then `latest`,
then the row says so. A crash in between, or S3 that is down, leaves a row which the next run publishes before its own;
to write a copy twice harms nothing, since it is the same. One run at a time publishes (`dpp.tickets.reap`), so that
`latest` never goes back.
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
    """A report that stands in its row."""

    report_id: int
    snapshot_key: str
    report: ReaperReport


def keep(connection: Connection, report: ReaperReport, *, actor: str, breaker_tripped: bool) -> StoredReport:
    """Write a report as a row, with the snapshot's name as its evidence."""
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
    return _kept(row)


def of_snapshot(connection: Connection, name: str) -> StoredReport:
    """The report whose snapshot has this name. Raises SnapshotNotFound."""
    params = {"snapshot_key": snapshot_key_of(name)}
    row = connection.execute(QUERIES["report_of_snapshot"], params).fetchone()
    if row is None:
        raise SnapshotNotFound
    return _kept(row)


def publish(database: Database, storage: ObjectStore, now: datetime | None = None) -> int:
    """Write the copies that are not known to stand, the oldest first; how many. Raises DependencyUnavailable."""
    with database.connection() as connection:
        due = connection.execute(QUERIES["unpublished_reports"], {"limit": _PUBLISHED_AT_ONCE}).fetchall()
    published = 0
    for kept in map(_kept, due):
        copy = kept.report.to_json().encode()
        storage.put_json(kept.snapshot_key, copy)
        storage.put_json(LATEST_KEY, copy)
        with database.connection() as connection:
            connection.execute(QUERIES["mark_published"], {"report_id": kept.report_id, "now": now})
        published += 1
    if published > 1:
        _LOG.info("reports that were left published", extra={"reports": published - 1})
    return published


def _kept(row: tuple[Any, ...]) -> StoredReport:
    report_id, key, report = row
    return StoredReport(int(report_id), str(key), ReaperReport.model_validate(report))
