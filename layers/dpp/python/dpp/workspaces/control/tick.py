"""Twice a minute: seed the looks (D10), lower what nobody uses (003 §3), and measure the fleet (WS-5, WS-6).

Each part stands alone and may be done twice. What a crash leaves out, the next beat does.
"""

from dataclasses import dataclass

from dpp.workspaces import store
from dpp.workspaces.control import monitor
from dpp.workspaces.control.hints import hint, send_all
from dpp.workspaces.control.message import Fleet, Look, body_of
from dpp.workspaces.control.observe import ControlEffects
from dpp.workspaces.control.planner import LOOK_WHEN_STABLE_SECONDS
from dpp.workspaces.store import Measures, Writer

LOST_AFTER_SECONDS = 15
"""A look that is overdue by so much is sent again."""

MAX_SEEDED = 500
MAX_LOWERED = 500
"""So many a beat: one that has more goes on with the next."""

PAGE = 200
"""So many workspaces a page of the fleet."""

HALF_MINUTE = 30
"""The clock fires once a minute; the beat in between is a delayed message."""

COUNTED_TO = 10_000
"""Where counts stop."""

TTL = "ttl"
"""Who lowers what nobody uses, as events name it."""


@dataclass(frozen=True, slots=True)
class BeatReport:
    """What a beat did."""

    seeded: int
    lowered: int
    measures: Measures


def beat(effects: ControlEffects) -> BeatReport:
    """One beat. Raises DependencyUnavailable, after which the next one does it."""
    with effects.database.connection() as connection:
        now = store.clock(connection, effects.clock())
        with store.writing(connection, Writer.API):
            lowered = store.lower_idle(connection, TTL, MAX_LOWERED, now)
        with store.writing(connection, Writer.RECONCILER):
            unsettled = store.claim_unsettled(connection, LOST_AFTER_SECONDS, MAX_SEEDED, now)
        measures = store.measures(connection, COUNTED_TO, now)
    turn = int(now.timestamp()) // LOOK_WHEN_STABLE_SECONDS
    effects.looks.send(body_of(Fleet(0, turn)))
    send_all(effects.looks, [body_of(Look(one)) for one in unsettled])
    return BeatReport(len(unsettled), len(lowered), measures)


def look_at_fleet(page: Fleet, effects: ControlEffects) -> monitor.FleetPage:
    """Observe a page of the fleet, pass the next on, have looked at what changed. Raises PostgresUnavailable."""
    found = monitor.look_at_page(
        effects.database,
        effects.provider,
        above=page.above,
        turn=page.turn,
        limit=PAGE,
        now=effects.clock(),
    )
    if found.last is not None:
        effects.looks.send(body_of(Fleet(found.last, page.turn)))
    hint(effects.looks, found.changed)
    return found
