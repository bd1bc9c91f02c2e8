"""What the read function is made of, built once a container."""

import os
from dataclasses import dataclass
from functools import cache

from dpp.money.ledger import Ledger
from dpp.platform.postgres import Database
from dpp.platform.signing import Signer, assumed_role, own_keys
from dpp.platform.storage import ObjectStore
from dpp.runs.read import ReadEffects
from runs_read.settings import RunsReadSettings


@dataclass(frozen=True, slots=True)
class Wiring:
    """The effects of a read, and the database that knows the callers."""

    database: Database
    effects: ReadEffects


@cache
def wiring() -> Wiring:
    """Read the environment and build; connections open at their first use."""
    settings = RunsReadSettings.load(os.environ)
    database = Database(settings.database)
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    role_arn = settings.signing_role_arn
    signer = Signer(assumed_role(role_arn) if role_arn else own_keys)
    return Wiring(
        database, ReadEffects(database, ledger, ObjectStore(settings.results_bucket, signer=signer))
    )
