"""Objects whose rows are gone are deleted from S3, and then from the list (LIFE-3, LIFE-4).

A row is deleted in the statement that puts its object's key on the list, so there is never a row without a list entry
or an object that nothing tells of. A crash after S3's answer leaves the key on the list: it is deleted once more, which
S3 takes for done. What S3 refuses stays on the list, each time for longer, and is counted.
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
class Drained:
    """What became of the list: objects deleted, refused, and whether S3 did not answer."""

    deleted: int = 0
    refused: int = 0
    unanswered: bool = False


def drain(database: Database, storage: Objects, done: Drained, now: datetime | None = None) -> bool:
    """One call to S3; True where there was a full call's worth, so that more may be left."""
    with database.connection() as connection:
        keys = store.due_deletions(connection, now)
    if not keys:
        return False
    try:
        refused = storage.delete(keys)
    except StorageUnavailable:
        _LOG.warning("objects left on the list: S3 did not answer", extra={"objects": len(keys)})
        done.unanswered = True
        return False
    gone = [key for key in keys if key not in refused]
    with database.connection() as connection:
        store.note_deletions(connection, gone, refused, now)
    if refused:
        told = {"objects": len(refused), "codes": sorted(set(refused.values()))}
        _LOG.warning("S3 refused to delete objects; they stay on the list", extra=told)
    done.deleted += len(gone)
    done.refused += len(refused)
    return len(keys) == store.DELETIONS_A_CALL
