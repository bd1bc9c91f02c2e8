"""What the tickets API is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.tickets.reap import ReapEffects
from dpp.tickets.staleness import ReaperRules
from tickets_api.settings import TicketsApiSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """The database that knows operators and tickets, what the reaper touches, and its rules."""

    database: Database
    reaping: ReapEffects
    rules: ReaperRules


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = TicketsApiSettings.load(os.environ)
    database = Database(settings.database)
    reaping = ReapEffects(database, ObjectStore(settings.reports_bucket), settings.zone)
    return Wiring(database, reaping, settings.rules)
