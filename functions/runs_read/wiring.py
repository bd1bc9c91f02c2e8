"""What the read function is made of, built once a container."""

import os
from functools import cache

from dpp.money.ledger import Ledger
from dpp.platform.aws.signing import Signer, assumed_role, own_keys
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.runs.read import ReadEffects
from runs_read.settings import RunsReadSettings


@cache
def wiring() -> ReadEffects:
    """Read the environment and build; connections open at their first use."""
    settings = RunsReadSettings.load(os.environ)
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    role_arn = settings.signing_role_arn
    signer = Signer(assumed_role(role_arn) if role_arn else own_keys)
    return ReadEffects(
        Database(settings.database), ledger, ObjectStore(settings.results_bucket, signer=signer)
    )
