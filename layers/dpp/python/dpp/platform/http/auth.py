"""Who is asking: the API key of a request (RUN-2)."""

from typing import TYPE_CHECKING

from dpp.platform import api_keys
from dpp.platform.api_keys import Caller
from dpp.platform.http.request import auth_invalid, bearer_token
from dpp.platform.postgres import Database

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent


def authenticate(event: "APIGatewayProxyEvent", database: Database) -> Caller:
    """The caller of a request. Raises ProblemError 401, the same for every reason."""
    token = bearer_token(event)
    with database.connection() as connection:
        caller = api_keys.verify(connection, token)
    if caller is None:
        raise auth_invalid()
    return caller
