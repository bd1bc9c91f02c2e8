"""Authenticates a request by its API key: a tenant's (RUN-2) or an operator's (TIX-5)."""

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
    """The tenant of a request's key. Raises ProblemError 401, the same for every reason."""
    return _authenticated(event, database, api_keys.verify)


def authenticate_operator(event: "APIGatewayProxyEvent", database: Database) -> Operator:
    """The operator of a request's key, which must be an operator's. Raises ProblemError 401, as above."""
    return _authenticated(event, database, operator_keys.verify)


def _authenticated[Identity](
    event: "APIGatewayProxyEvent", database: Database, verify: Callable[[Connection, str], Identity | None]
) -> Identity:
    """Verify the token, with one retry: this is a request's first use of the container's connection, which may have
    died since the last request (a failover)."""
    token = bearer_token(event)

    def look_up() -> Identity | None:
        return database.using(verify, token)

    identity = with_retries(look_up, pauses_seconds=(0.0,))
    if identity is None:
        raise auth_invalid()
    return identity
