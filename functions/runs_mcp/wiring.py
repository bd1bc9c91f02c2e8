"""What the function of the MCP endpoint is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.money.ledger import Ledger
from dpp.platform.postgres import Database
from dpp.platform.queue import Queue
from dpp.runs.submit import SubmitEffects
from runs_mcp.settings import RunsMcpSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """The effects of a submit, and the database that knows the callers."""

    database: Database
    effects: SubmitEffects


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = RunsMcpSettings.load(os.environ)
    database = Database(settings.database)
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    return Wiring(database, SubmitEffects(database, ledger, Queue(settings.run_queue_url)))
