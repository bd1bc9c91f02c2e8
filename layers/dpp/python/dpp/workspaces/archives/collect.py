"""Delete unprotected archives, two hours after they were written (003 §9; WS-13).

Objects are listed before the rows are read, so that no archive is judged by rows that are older than it. An unprotected
key never becomes protected again, since each operation has its own id; leftovers of a crash or of a concurrent
collection are deleted by the next one.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dpp.platform.db.postgres import Connection, Database
from dpp.workspaces import store
from dpp.workspaces.archives.garbage import ArchiveLocation, Verdict, verdict
from dpp.workspaces.ports import ArchiveObject, Archives

MAX_DELETED = 2_000
"""Maximum deletions per collection, so that a wrong rule is noticed before the bucket is empty."""

TIME_LIMIT_SECONDS = 120.0
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class CollectReport:
    """Report of a collection. `by_verdict` counts objects; `after`: the key to continue after, or None at the end."""

    dry_run: bool
    by_verdict: Mapping[Verdict, int]
    deleted: int
    deleted_bytes: int
    refused: int
    capped: bool
    after: str | None


def collect(
    database: Database,
    archives: Archives,
    *,
    after: str | None = None,
    dry_run: bool = False,
    now: datetime | None = None,
    elapsed: Callable[[], float] = time.monotonic,
    time_limit_seconds: float = TIME_LIMIT_SECONDS,
) -> CollectReport:
    """Scan the bucket after the key `after`; `dry_run` only counts. Raises DependencyUnavailable."""
    began, counted = elapsed(), Counter[Verdict]()
    deleted = deleted_bytes = refused = 0
    capped = False
    while elapsed() - began < time_limit_seconds and not capped:
        page = archives.page(after, _PAGE)
        with database.connection() as connection:
            judged = _judge(connection, page, store.clock(connection, now))
        counted.update(judged.values())
        garbage = [one for one in page if judged[one.key] is Verdict.GARBAGE]
        capped = deleted + refused + len(garbage) > MAX_DELETED
        garbage = garbage[: max(0, MAX_DELETED - deleted - refused)]
        kept = set() if dry_run or not garbage else set(archives.delete([one.key for one in garbage]))
        gone = [one for one in garbage if one.key not in kept]
        deleted, refused = deleted + len(gone), refused + len(kept)
        deleted_bytes += sum(one.size_bytes for one in gone)
        after = page[-1].key if len(page) == _PAGE and not capped else None
        if after is None:
            break
    return CollectReport(dry_run, dict(counted), deleted, deleted_bytes, refused, capped, after)


def _judge(connection: Connection, page: Sequence[ArchiveObject], now: datetime) -> dict[str, Verdict]:
    locations = {one.key: ArchiveLocation.parse(one.key) for one in page}
    ids = {location.workspace_id for location in locations.values() if location is not None}
    references = store.archive_references(connection, list(ids)) if ids else {}
    judged = {}
    for one in page:
        location = locations[one.key]
        referenced = None if location is None else references.get(location.workspace_id)
        judged[one.key] = verdict(one.key, (now - one.modified_at).total_seconds(), referenced)
    return judged
