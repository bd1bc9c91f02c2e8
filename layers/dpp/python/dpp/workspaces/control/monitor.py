"""Observe what exists and store it (003 §1, §3; WS-1 … WS-4): the only writer of conditions and phase.

An observation is stored only if the row still has the values it was judged with, and no later observation (WS-6): a
delayed monitor changes nothing. A crash before the write loses one observation; the next follows within seconds. If the
provider doesn't answer, the conditions stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable
from dpp.workspaces import store
from dpp.workspaces.control.conditions import ObservedState, calculate_phase, conditions_after, observe_archive
from dpp.workspaces.model import ARCHIVE_READY, Conditions, Phase, Workspace, container_condition
from dpp.workspaces.ports import Observation, Provider
from dpp.workspaces.store import Writer

REFRESH_AFTER_SECONDS = 300
"""The maximum age of `observed_at` while observations of the fleet find no change."""

ARCHIVE_CHECK_EVERY = 20
"""An observation of the fleet checks the archive of every 20th workspace in S3; the next tick checks other ones."""


@dataclass(frozen=True, slots=True)
class _Observed:
    """The observation of one workspace."""

    workspace: Workspace
    conditions: Conditions
    phase: Phase

    @property
    def has_changed(self) -> bool:
        """True if a condition or the phase differs from the row."""
        return self.phase is not self.workspace.phase or self.conditions != self.workspace.conditions


def observe(
    database: Database, provider: Provider, workspace_id: UUID, now: datetime | None = None
) -> Workspace | None:
    """Observe one workspace, and return it as stored afterwards, or None if it doesn't exist.

    Raises DependencyUnavailable if the provider or Postgres doesn't answer.
    """
    with database.connection() as connection:
        began = store.clock(connection, now)
        workspace = store.find(connection, workspace_id)
    if workspace is None or workspace.cleaned_at is not None:
        return workspace
    (found,) = _observe(provider, [workspace], began, checks_archive=lambda _: True)
    with database.connection() as connection:
        with store.writing(connection, Writer.MONITOR):
            written = store.record_observation(connection, workspace, found.conditions, found.phase, began)
        return written or store.find(connection, workspace_id)


@dataclass(frozen=True, slots=True)
class PageReport:
    """Report of observing a page. `last`: the sequence to continue above, or None at the end of the fleet."""

    observed: int
    changed: Sequence[UUID]
    last: int | None
    outage: str | None = None


def observe_page(
    database: Database, provider: Provider, *, above: int, tick_number: int, limit: int, now: datetime | None = None
) -> PageReport:
    """Observe a page of the fleet with as few calls as the provider allows, and store the changes.

    An unchanged workspace costs no write. If the provider doesn't answer, the page is left to the next tick, and the
    following pages are observed all the same. Raises PostgresUnavailable.
    """
    with database.connection() as connection:
        began = store.clock(connection, now)
        page = store.fleet_page(connection, above, limit)
    if not page:
        return PageReport(0, (), None)
    last = page[-1].sequence if len(page) == limit else None

    def is_due(one: Workspace) -> bool:
        return one.sequence % ARCHIVE_CHECK_EVERY == tick_number % ARCHIVE_CHECK_EVERY

    try:
        observed = _observe(provider, page, began, checks_archive=is_due)
    except DependencyUnavailable as outage:
        return PageReport(0, (), last, outage.dependency)
    changed = _write(database, observed, began)
    return PageReport(len(page), changed, last)


def _write(database: Database, observed: Sequence[_Observed], began: datetime) -> list[UUID]:
    """Store changes, refresh old `observed_at` of the rest, and return the ids of the changed ones."""
    changed = [found for found in observed if found.has_changed or found.workspace.observed_at is None]
    old = began - timedelta(seconds=REFRESH_AFTER_SECONDS)
    stale = [
        found.workspace.workspace_id
        for found in observed
        if not found.has_changed and found.workspace.observed_at is not None and found.workspace.observed_at <= old
    ]
    with database.connection() as connection:
        for found in changed:
            with store.writing(connection, Writer.MONITOR):
                store.record_observation(connection, found.workspace, found.conditions, found.phase, began)
        if stale:
            with store.writing(connection, Writer.MONITOR):
                store.refresh_observed_at(connection, stale, began)
    return [found.workspace.workspace_id for found in changed]


def _observe(
    provider: Provider, workspaces: Sequence[Workspace], now: datetime, *, checks_archive: Callable[[Workspace], bool]
) -> list[_Observed]:
    containers, volumes = _observe_resources(provider, [one.workspace_id for one in workspaces])
    infra = container_condition(provider.containers.infra)
    found = []
    for one in workspaces:
        observed = ObservedState(
            containers={infra: containers[one.workspace_id]},
            volume=volumes[one.workspace_id],
            archive=_archive(provider, one, now, checks=checks_archive(one)),
            archive_key=one.archive_key,
            error_info=one.error_info,
        )
        conditions = conditions_after(one.conditions, observed, now)
        found.append(_Observed(one, conditions, calculate_phase(conditions, one.deleted_at)))
    return found


def _observe_resources(
    provider: Provider, workspace_ids: Sequence[UUID]
) -> tuple[Mapping[UUID, Observation], Mapping[UUID, Observation]]:
    """Observe containers, then volumes. A container without a volume is observed again (WS-9)."""
    containers = dict(provider.containers.observe(workspace_ids))
    volumes = dict(provider.volumes.observe(workspace_ids))
    contradicting = [one for one in workspace_ids if containers[one].ready and not volumes[one].ready]
    if contradicting:
        volumes |= provider.volumes.observe(contradicting)
        containers |= provider.containers.observe(contradicting)
    return containers, volumes


def _archive(provider: Provider, workspace: Workspace, now: datetime, *, checks: bool) -> Observation:
    """The observation of the archive; the previous one if S3 is not to be asked now."""
    before = workspace.conditions.get(ARCHIVE_READY)
    key = workspace.archive_key
    if not checks and key is not None and before is not None and before.reason != "NoArchive":
        return Observation(before.status, before.reason, before.message)
    found = None if key is None else provider.archives.head(key)
    return observe_archive(key, workspace.home_ctx.archive, found, now)
