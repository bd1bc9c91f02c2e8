"""GET /v1/runs/{run_id}: poll a run (RUN-10)."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from functools import cache

from aws_lambda_powertools.event_handler import Response

from dpp.money.ledger import Ledger
from dpp.platform.aws.signing import Signer, assumed_role, own_keys
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings, RedisSettings, SigningSettings, StorageSettings
from dpp.platform.db.postgres import Database
from dpp.platform.http.api import Api
from dpp.platform.http.auth import authenticate
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.runs.api.http import view
from dpp.runs.api.problems import PROBLEMS, error_headers
from dpp.runs.read import ReadEffects, read

cold_start.imported()
logger = service_logger("api")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


class RunsReadSettings(PostgresSettings, RedisSettings, StorageSettings, SigningSettings):
    """Rows, budgets, the results bucket and the role that signs its URLs."""


@cache
def wiring() -> ReadEffects:
    """Read the environment and build; connections open at their first use."""
    settings = RunsReadSettings.load()
    ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
    role_arn = settings.signing_role_arn
    signer = Signer(assumed_role(role_arn) if role_arn else own_keys)
    return ReadEffects(Database(settings.database), ledger, ObjectStore(settings.results_bucket, signer=signer))


# None: every path that the gateway routes here, so that the characters of an id make no difference.
@api.route("GET", None)
def read_run() -> Response[str]:
    """The run with its costs and, when completed, where its result is."""
    effects = wiring()
    caller = authenticate(api.event, effects.database)
    logger.append_keys(tenant_id=caller.tenant_id, trace_id=api.trace_id)
    found = read(api.path_parameter("run_id"), caller, effects)
    return api.json(200, view(found), {**found.costs.headers(), **found.rate.headers()})


handler = invocation(logger, meter)(api.answer)
