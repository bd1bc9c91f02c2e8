"""What the workspaces API is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from workspaces_api.settings import WorkspacesApiSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """The database that knows keys and workspaces, the queue of looks, and how many a tenant may have."""

    database: Database
    looks: Queue
    limit: int


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = WorkspacesApiSettings.load(os.environ)
    return Wiring(Database(settings.database), Queue(settings.look_queue_url), settings.workspaces_per_tenant)
