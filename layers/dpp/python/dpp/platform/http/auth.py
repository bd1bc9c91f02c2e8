"""Who is asking: the API key of a request (RUN-2)."""

from typing import TYPE_CHECKING

from dpp.platform import api_keys
from dpp.platform.api_keys import Caller
from dpp.platform.http.request import auth_invalid, bearer_token
from dpp.platform.postgres import Database
from dpp.platform.retry import patiently

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent


def authenticate(event: "APIGatewayProxyEvent", database: Database) -> Caller:
    """The caller of a request. Raises ProblemError 401, the same for every reason.

    This is a request's first use of the container's connection, which may have died since the last one (a
    failover). To ask twice harms nothing, so the client need not notice.
    """
    token = bearer_token(event)

    def verify() -> Caller | None:
        with database.connection() as connection:
            return api_keys.verify(connection, token)

    caller = patiently(verify, pauses_seconds=(0.0,))
    if caller is None:
        raise auth_invalid()
    return caller
