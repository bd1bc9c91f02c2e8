"""Find the clusters of a newer version of the stack hash (AUTH-10): the older ones stay, an error is in one of each."""

from uuid import uuid4

from dpp.auth_errors import store
from dpp.auth_errors.traces.stack_hash import VERSION, stack_hash
from dpp.platform.db.postgres import Database

BATCH = 200


def rehash(database: Database, *, above: int = 0, limit: int = 10_000) -> tuple[int, int | None]:
    """Put up to `limit` analysed errors that lack it into the cluster of today's version, in the order of taking in.

    How many, and above which sequence to go on, None at the end. Each is a transaction, so that it may be ended and
    begun again at any time.
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
