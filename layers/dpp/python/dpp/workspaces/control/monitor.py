"""Look at what is really there and write it down (003 §1, §3; WS-1 … WS-4): the sole writer of conditions and phase.

What a look found is written only where the row still says what the look was judged with, and no later look has been
(WS-6): a monitor that was held up changes nothing. A crash before the write loses a look, and the next one is seconds
away. A provider that doesn't answer has shown nothing: conditions stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable
from dpp.workspaces import store
from dpp.workspaces.control.conditions import Observed, calculate_phase, conditions_after, see_archive
from dpp.workspaces.model import ARCHIVE_READY, Conditions, Phase, Workspace, container_condition
from dpp.workspaces.ports import Provider, Seen
from dpp.workspaces.store import Writer

REFRESH_AFTER_SECONDS = 300
"""A look of the fleet that found nothing new is noted so seldom: `observed_at` may be so old."""

ARCHIVE_TURNS = 20
"""A look of the fleet asks S3 for the archive of one workspace in so many, the next look for those of the next."""


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look found of one workspace."""

    workspace: Workspace
    conditions: Conditions
    phase: Phase

    @property
    def is_news(self) -> bool:
        """True where a condition or the phase is another than what stands in the row."""
        return self.phase is not self.workspace.phase or self.conditions != self.workspace.conditions


def look(
    database: Database, provider: Provider, workspace_id: UUID, now: datetime | None = None
) -> Workspace | None:
    """Observe one workspace; as it stands afterwards, None where there is none.

    Raises DependencyUnavailable where the provider or Postgres doesn't answer.
    """
    with database.connection() as connection:
        began = store.clock(connection, now)
        workspace = store.find(connection, workspace_id)
    if workspace is None or workspace.cleaned_at is not None:
        return workspace
    (found,) = _observe(provider, [workspace], began, with_archive=lambda _: True)
    with database.connection() as connection:
        with store.writing(connection, Writer.MONITOR):
            written = store.observe(connection, workspace, found.conditions, found.phase, began)
        return written or store.find(connection, workspace_id)


@dataclass(frozen=True, slots=True)
class FleetPage:
    """What a page of the fleet came to. `changed`: those that stand otherwise than before; `last`: None at the end."""

    looked: int
    changed: Sequence[UUID]
    last: int | None
    outage: str | None = None


def look_at_page(
    database: Database,
    provider: Provider,
    *,
    above: int,
    turn: int,
    limit: int,
    now: datetime | None = None,
) -> FleetPage:
    """Observe a page of the fleet with as few calls as the provider allows, and write what is new.

    What is as it was costs no write: a fleet costs what of it has changed. A page that the provider doesn't answer for
    is left to the next beat, and hides none behind it. Raises PostgresUnavailable.
    """
    with database.connection() as connection:
        began = store.clock(connection, now)
        page = store.fleet_page(connection, above, limit)
    if not page:
        return FleetPage(0, (), None)
    last = page[-1].sequence if len(page) == limit else None

    def in_turn(one: Workspace) -> bool:
        return one.sequence % ARCHIVE_TURNS == turn % ARCHIVE_TURNS

    try:
        looks = _observe(provider, page, began, with_archive=in_turn)
    except DependencyUnavailable as outage:
        return FleetPage(0, (), last, outage.dependency)
    changed = _write(database, looks, began)
    return FleetPage(len(page), changed, last)


def _write(database: Database, looks: Sequence[_Look], began: datetime) -> list[UUID]:
    """Write what is new, and note of what is not that it was looked at, where that is long ago; the new ones."""
    changed = [found for found in looks if found.is_news or found.workspace.observed_at is None]
    old = began - timedelta(seconds=REFRESH_AFTER_SECONDS)
    stale = [
        found.workspace.workspace_id
        for found in looks
        if not found.is_news
        and found.workspace.observed_at is not None
        and found.workspace.observed_at <= old
    ]
    with database.connection() as connection:
        for found in changed:
            with store.writing(connection, Writer.MONITOR):
                store.observe(connection, found.workspace, found.conditions, found.phase, began)
        if stale:
            with store.writing(connection, Writer.MONITOR):
                store.refresh(connection, stale, began)
    return [found.workspace.workspace_id for found in changed]


def _observe(
    provider: Provider,
    workspaces: Sequence[Workspace],
    now: datetime,
    *,
    with_archive: Callable[[Workspace], bool],
) -> list[_Look]:
    containers, volumes = _seen(provider, [one.workspace_id for one in workspaces])
    infra = container_condition(provider.containers.infra)
    looks = []
    for one in workspaces:
        observed = Observed(
            container={infra: containers[one.workspace_id]},
            volume=volumes[one.workspace_id],
            archive=_archive(provider, one, now, asks=with_archive(one)),
            archive_key=one.archive_key,
            error_info=one.error_info,
        )
        conditions = conditions_after(one.conditions, observed, now)
        looks.append(_Look(one, conditions, calculate_phase(conditions, one.deleted_at)))
    return looks


def _seen(
    provider: Provider, workspace_ids: Sequence[UUID]
) -> tuple[Mapping[UUID, Seen], Mapping[UUID, Seen]]:
    """Containers and volumes. The two looks are not one: what contradicts the invariant is looked at again (WS-9)."""
    containers = dict(provider.containers.observe(workspace_ids))
    volumes = dict(provider.volumes.observe(workspace_ids))
    odd = [one for one in workspace_ids if containers[one].ready and not volumes[one].ready]
    if odd:
        volumes |= provider.volumes.observe(odd)
        containers |= provider.containers.observe(odd)
    return containers, volumes


def _archive(provider: Provider, workspace: Workspace, now: datetime, *, asks: bool) -> Seen:
    """What is to be said of the archive; as it was last seen, where S3 isn't asked this time."""
    before = workspace.conditions.get(ARCHIVE_READY)
    key = workspace.archive_key
    if not asks and key is not None and before is not None and before.reason != "NoArchive":
        return Seen(before.status, before.reason, before.message)
    found = None if key is None else provider.archives.look(key)
    return see_archive(key, workspace.home_ctx.archive, found, now)
