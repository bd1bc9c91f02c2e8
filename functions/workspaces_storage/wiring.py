"""What the storage of workspaces is made of, built once a container."""

import os
from functools import cache

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.workspaces.control.observe import ControlEffects
from dpp.workspaces.providers.build import provider_of
from workspaces_storage.settings import WorkspacesStorageSettings


@cache
def wiring() -> ControlEffects:
    """Read the environment and build; connections open at their first use."""
    settings = WorkspacesStorageSettings.load(os.environ)
    return ControlEffects(
        Database(settings.database),
        provider_of(settings),
        Queue(settings.look_queue_url),
        Queue(settings.work_queue_url),
    )
