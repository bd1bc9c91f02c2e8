"""Deletes objects from S3 after their rows (LIFE-3, LIFE-4).

The statement that deletes a row lists the key of its object. So an object always has a row or is listed. A crash after
S3's reply leaves the key listed: it is deleted again, which S3 accepts. A key that S3 refuses stays listed, is tried
again after growing pauses, and is counted.
"""

import logging
from dataclasses import dataclass
from datetime import datetime

from dpp.lifecycle.flow.ports import Objects
from dpp.lifecycle.retention import store
from dpp.platform.db.postgres import Database
from dpp.platform.errors import StorageUnavailable

_LOG = logging.getLogger("dpp.lifecycle.retention.deletions")


@dataclass(slots=True)
class DeletionReport:
    """Deleted and refused objects of a tick; `unanswered`: S3 did not reply."""

    deleted: int = 0
    refused: int = 0
    unanswered: bool = False


def delete_listed(database: Database, storage: Objects, done: DeletionReport, now: datetime | None = None) -> bool:
    """Delete one call's worth of listed objects. Returns True if the call was full, so that more may be listed."""
    keys = database.using(store.due_deletions, now)
    if not keys:
        return False
    try:
        refused = storage.delete(keys)
    except StorageUnavailable:
        _LOG.warning("S3 did not reply; the objects stay listed", extra={"objects": len(keys)})
        done.unanswered = True
        return False
    gone = [key for key in keys if key not in refused]
    database.using(store.note_deletions, gone, refused, now)
    if refused:
        extra = {"objects": len(refused), "codes": sorted(set(refused.values()))}
        _LOG.warning("S3 refused to delete objects; they stay listed", extra=extra)
    done.deleted += len(gone)
    done.refused += len(refused)
    return len(keys) == store.DELETIONS_A_CALL
