"""Who is asking: the API key of a request, a tenant's (RUN-2) or an operator's (TIX-5)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpp.platform.db.postgres import Connection, Database
from dpp.platform.http.request import auth_invalid, bearer_token
from dpp.platform.keys import api_keys, operator_keys
from dpp.platform.keys.api_keys import Caller
from dpp.platform.keys.operator_keys import Operator
from dpp.platform.retry import with_retries

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent


def authenticate(event: "APIGatewayProxyEvent", database: Database) -> Caller:
    """The tenant whose key a request shows. Raises ProblemError 401, the same for every reason."""
    return _shown(event, database, api_keys.verify)


def authenticate_operator(event: "APIGatewayProxyEvent", database: Database) -> Operator:
    """The operator whose key a request shows; a tenant's key is none. Raises ProblemError 401, as above."""
    return _shown(event, database, operator_keys.verify)


def _shown[Who](
    event: "APIGatewayProxyEvent", database: Database, verify: Callable[[Connection, str], Who | None]
) -> Who:
    """This is a request's first use of the container's connection, which may have died since the last one (a
    failover). To ask twice harms nothing, so the client need not notice.
    """
    token = bearer_token(event)

    def ask() -> Who | None:
        with database.connection() as connection:
            return verify(connection, token)

    who = with_retries(ask, pauses_seconds=(0.0,))
    if who is None:
        raise auth_invalid()
    return who
