"""Read authentication errors: one with its details, or pages of them; clusters."""

from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from dpp.auth_errors import store
from dpp.auth_errors.errors import AuthErrorNotFound, ClusterNotFound
from dpp.auth_errors.model import AuthError, AuthErrorTransition, Cluster, Decision, OutboxEntry
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.store import Filter, PageKey
from dpp.platform.db.postgres import Connection, one_snapshot

NEWEST = PageKey(datetime.max.replace(tzinfo=UTC), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class WholeAuthError:
    """An error with its clusters, its decisions, its history and its events."""

    error: AuthError
    clusters: list[Cluster]
    decisions: list[Decision]
    transitions: list[AuthErrorTransition]
    events: list[OutboxEntry]


@dataclass(frozen=True, slots=True)
class Page:
    """Errors, the newest occurrence first. The next page starts at `next_key`; None on the last page."""

    errors: list[AuthError]
    next_key: PageKey | None


def read(connection: Connection, auth_error_id: UUID | None) -> WholeAuthError:
    """Read one error in one snapshot (LIFE-12). Raises AuthErrorNotFound, also for an invalid id (None)."""
    with one_snapshot(connection):
        error = store.find(connection, auth_error_id) if auth_error_id else None
        if error is None:
            raise AuthErrorNotFound
        found = error.auth_error_id
        return WholeAuthError(
            error,
            store.clusters_of(connection, found),
            store.decisions(connection, found),
            store.transitions(connection, found),
            tables.entries(connection, tables.ids_of_error(connection, found)),
        )


def page(connection: Connection, which: Filter, start: PageKey | None, limit: int) -> Page:
    """One page of the errors that match the filter."""
    found = store.page(connection, which, start or NEWEST, limit + 1)
    errors = found[:limit]
    more = len(found) > limit
    return Page(errors, PageKey(errors[-1].occurred_at, errors[-1].sequence) if more else None)


def cluster(connection: Connection, cluster_id: UUID | None) -> Cluster:
    """Raises ClusterNotFound."""
    found = store.cluster(connection, cluster_id) if cluster_id else None
    if found is None:
        raise ClusterNotFound
    return found
