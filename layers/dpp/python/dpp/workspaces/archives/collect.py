"""Collect the archives that nothing protects, two hours after they were written (003 §9; WS-13).

Objects are listed first and the rows asked afterwards, so that an archive is never judged by what was true before it
was made. A key that nothing protects is never protected again, since each operation has an id of its own: what a
crash or a second collector leaves is collected the next time.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dpp.platform.db.postgres import Connection, Database
from dpp.workspaces import store
from dpp.workspaces.archives.garbage import Place, Verdict, verdict
from dpp.workspaces.ports import ArchiveObject, Archives

MAX_DELETED = 2_000
"""So many objects a run at most: a fault in a rule shows before the bucket is empty."""

TIME_LIMIT_SECONDS = 120.0
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Collected:
    """What a run came to. `by_verdict` counts objects; `after`: where the next run goes on, None at the end."""

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
) -> Collected:
    """Go through the bucket from `after` on; `dry_run` only counts. Raises DependencyUnavailable."""
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
    return Collected(dry_run, dict(counted), deleted, deleted_bytes, refused, capped, after)


def _judge(connection: Connection, page: Sequence[ArchiveObject], now: datetime) -> dict[str, Verdict]:
    places = {one.key: Place.of(one.key) for one in page}
    ids = {place.workspace_id for place in places.values() if place is not None}
    claims = store.claims(connection, list(ids)) if ids else {}
    judged = {}
    for one in page:
        place = places[one.key]
        claim = None if place is None else claims.get(place.workspace_id)
        judged[one.key] = verdict(one.key, (now - one.modified_at).total_seconds(), claim)
    return judged
