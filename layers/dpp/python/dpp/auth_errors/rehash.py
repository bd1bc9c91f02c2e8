"""Add errors to clusters of a newer stack hash version (AUTH-10). Older clusters remain; an error is in one of each."""

from uuid import uuid4

from dpp.auth_errors import store
from dpp.auth_errors.traces.stack_hash import VERSION, stack_hash
from dpp.platform.db.postgres import Database

BATCH = 200


def rehash(database: Database, *, above: int = 0, limit: int = 10_000) -> tuple[int, int | None]:
    """Add up to `limit` analysed errors to clusters of the current version, in the order of recording.

    Returns their number, and the sequence above which to continue (None at the end). Each error is a transaction, so
    the command can be interrupted and repeated.
    """
    done = 0
    while done < limit:
        with database.connection() as connection:
            errors = store.not_hashed(connection, VERSION, above, min(BATCH, limit - done))
            for error in errors:
                found = stack_hash(error.exception_class, error.stacktrace)
                store.join_cluster(connection, error, uuid4(), VERSION, found.digest)
        if not errors:
            return done, None
        done, above = done + len(errors), errors[-1].sequence
    return done, above
