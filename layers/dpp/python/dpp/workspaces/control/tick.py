"""Twice a minute: send overdue observations (D10), lower idle workspaces (003 §3), measure the fleet (WS-5, WS-6).

The parts are independent and repeatable. The next tick makes up for a crash.
"""

from dataclasses import dataclass

from dpp.workspaces import store
from dpp.workspaces.control import monitor
from dpp.workspaces.control.hints import send_all, send_hints
from dpp.workspaces.control.message import Observe, ObservePage, body_of
from dpp.workspaces.control.observe import ControlEffects
from dpp.workspaces.control.planner import OBSERVE_WHEN_STABLE_SECONDS
from dpp.workspaces.store import FleetStats, Writer

LOST_AFTER_SECONDS = 15
"""An observation that is overdue by this time is sent again."""

MAX_SEEDED = 500
MAX_LOWERED = 500
"""At most this many per tick; the rest wait for the next tick."""

PAGE = 200
"""Workspaces per page of the fleet."""

HALF_MINUTE = 30
"""The schedule fires once a minute; the tick in between is a delayed message."""

MAX_COUNTED = 10_000
"""Counts stop here."""

TTL = "ttl"
"""The actor in events if an idle workspace is lowered."""


@dataclass(frozen=True, slots=True)
class TickReport:
    """Report of a tick. `seeded`: overdue observations that were sent. `lowered`: idle workspaces."""

    seeded: int
    lowered: int
    stats: FleetStats


def tick(effects: ControlEffects) -> TickReport:
    """Run one tick. Raises DependencyUnavailable; the next tick retries."""
    with effects.database.connection() as connection:
        now = store.clock(connection, effects.clock())
        with store.writing(connection, Writer.API):
            lowered = store.lower_idle(connection, TTL, MAX_LOWERED, now)
        with store.writing(connection, Writer.RECONCILER):
            unsettled = store.claim_unsettled(connection, LOST_AFTER_SECONDS, MAX_SEEDED, now)
        stats = store.fleet_stats(connection, MAX_COUNTED, now)
    tick_number = int(now.timestamp()) // OBSERVE_WHEN_STABLE_SECONDS
    effects.observe_queue.send(body_of(ObservePage(0, tick_number)))
    send_all(effects.observe_queue, [body_of(Observe(one)) for one in unsettled])
    return TickReport(len(unsettled), len(lowered), stats)


def observe_fleet_page(page: ObservePage, effects: ControlEffects) -> monitor.PageReport:
    """Observe a page of the fleet; send the next page, and hints for changed ones. Raises PostgresUnavailable."""
    found = monitor.observe_page(
        effects.database,
        effects.provider,
        above=page.above,
        tick_number=page.tick_number,
        limit=PAGE,
        now=effects.clock(),
    )
    if found.last is not None:
        effects.observe_queue.send(body_of(ObservePage(found.last, page.tick_number)))
    send_hints(effects.observe_queue, found.changed)
    return found
