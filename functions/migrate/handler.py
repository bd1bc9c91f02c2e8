"""Migrates the database during a deployment, before any other function changes (RUN-29).

CloudFormation asks when the migrations' content hash changes. A failure fails the deployment, and since all
migrations run in one transaction it has changed nothing. A rollback asks with the hash of before: the schema
stays, since a release's migrations must leave the release before them working (docs/architecture.md).
"""

from typing import Any

from alembic.util import CommandError
from aws_lambda_powertools.utilities.typing import LambdaContext
from sqlalchemy.exc import DBAPIError

from dpp.platform.config import ConfigurationError
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.observability.logging import service_logger
from migrate.request import Request, answer
from migrate.wiring import wiring

logger = service_logger("migrate")

_SECONDS_TO_ANSWER = 30
_ABOUT_NAMES = (
    "42"  # SQLSTATE class "syntax error or access rule violation": its messages hold names, no rows
)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Answer one request of CloudFormation's, whatever happens. Raises OSError when the answer can't be given."""
    request = Request.model_validate(event)
    failed_because = None
    try:
        _carry_out(request, context.get_remaining_time_in_millis() // 1000 - _SECONDS_TO_ANSWER)
    except Exception as error:  # noqa: BLE001 - the outermost edge: without an answer CloudFormation waits on
        failed_because = _told(error)
        logger.error("migration failed", extra={"reason": failed_because})  # noqa: TRY400 - a traceback may quote a row
    answer(request, failed_because=failed_because)


def _carry_out(request: Request, seconds: int) -> None:
    if request.request_type == "Delete":
        logger.info("schema kept")  # rows go with their database, not with a stack that used it
        return
    wired = wiring()
    if request.properties.content_hash != wired.content_hash:
        logger.warning("schema kept: a rollback asks for migrations that are not these")
        return
    revision = wired.upgrade(seconds)
    if revision is None:
        logger.warning("schema kept: a later release has migrated this database")
    else:
        logger.info("migrated", extra={"revision": revision})


def _told(error: Exception) -> str:
    """Why, without a row of the database in it (RUN-31): a message of Postgres may quote one."""
    if isinstance(error, ConfigurationError | DependencyUnavailable | CommandError):
        return str(error)
    diagnosis = getattr(error.orig, "diag", None) if isinstance(error, DBAPIError) else None
    if diagnosis is None or diagnosis.sqlstate is None:
        return type(error).__name__
    told = [type(error.__cause__ or error).__name__, diagnosis.sqlstate]
    told += [name for name in (diagnosis.table_name, diagnosis.constraint_name) if name]
    if diagnosis.sqlstate.startswith(_ABOUT_NAMES):
        told.append(diagnosis.message_primary)
    return ": ".join(told)
