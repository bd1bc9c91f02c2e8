"""Migrates the database during a deployment, before any other function changes (RUN-29).

CloudFormation invokes it when the migrations' content hash changes. A failure fails the deployment; all migrations
run in one transaction, so a failure changes nothing. A rollback sends the previous hash: the schema then stays as it
is, since a release's migrations must leave the previous release working (docs/architecture.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from alembic.util import CommandError
from aws_lambda_powertools.utilities.typing import LambdaContext
from sqlalchemy.exc import DBAPIError

from dpp.platform.config import ConfigurationError, PostgresSettings
from dpp.platform.db.postgres import conninfo_of
from dpp.platform.errors import DependencyUnavailable
from dpp.platform.observability.logging import service_logger
from migrate.request import Request, answer
from migrations import runner
from migrations.content import content_hash

logger = service_logger("migrate")

LOCK_SECONDS = 60
"""The wait for another deployment's migration, or for a table in use; then the deployment fails."""
_SECONDS_TO_ANSWER = 30
# SQLSTATE class "syntax error or access rule violation": its messages contain names and no row.
_SAFE_SQLSTATE_CLASS = "42"


class MigrateSettings(PostgresSettings):
    """The database only."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The hash of this function's migrations, and a function that runs them within a number of seconds."""

    content_hash: str
    upgrade: Callable[[int], str | None]


def wiring() -> Wiring:
    """Read the environment for each request: a deployment sends one, and the password may have been rotated."""
    settings = MigrateSettings.load()

    def upgrade(seconds: int) -> str | None:
        patience = runner.Patience(lock_seconds=LOCK_SECONDS, statement_seconds=seconds)
        return runner.upgrade(conninfo_of(settings.database, renewed=True), patience=patience)

    return Wiring(content_hash(), upgrade)


@logger.inject_lambda_context(clear_state=True)
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Answer one request of CloudFormation, whatever happens. Raises OSError if the answer cannot be delivered."""
    request = Request.model_validate(event)
    failed_because = None
    try:
        _carry_out(request, context.get_remaining_time_in_millis() // 1000 - _SECONDS_TO_ANSWER)
    except Exception as error:  # noqa: BLE001 - without an answer CloudFormation waits for its timeout
        failed_because = _reason(error)
        logger.error("migration failed", extra={"reason": failed_because})  # noqa: TRY400 - a traceback may quote a row
    answer(request, failed_because=failed_because)


def _carry_out(request: Request, seconds: int) -> None:
    if request.request_type == "Delete":
        logger.info("schema kept")  # rows are deleted with their database, not with this stack
        return
    wired = wiring()
    if request.properties.content_hash != wired.content_hash:
        logger.warning("schema kept: the request is a rollback to other migrations")
        return
    revision = wired.upgrade(seconds)
    if revision is None:
        logger.warning("schema kept: a later release has migrated this database")
    else:
        logger.info("migrated", extra={"revision": revision})


def _reason(error: Exception) -> str:
    """The reason without data from the database (RUN-31): a message of Postgres may quote a row."""
    if isinstance(error, ConfigurationError | DependencyUnavailable | CommandError):
        return str(error)
    diagnosis = getattr(error.orig, "diag", None) if isinstance(error, DBAPIError) else None
    if diagnosis is None or diagnosis.sqlstate is None:
        return type(error).__name__
    parts = [type(error.__cause__ or error).__name__, diagnosis.sqlstate]
    parts += [name for name in (diagnosis.table_name, diagnosis.constraint_name) if name]
    if diagnosis.sqlstate.startswith(_SAFE_SQLSTATE_CLASS):
        parts.append(diagnosis.message_primary)
    return ": ".join(parts)
