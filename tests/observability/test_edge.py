"""Every function passes through the one edge, and what the edge lets out."""

import ast
import logging
from typing import Any

import pytest

from dpp.platform.config import ConfigurationError
from dpp.platform.errors import PostgresNotReached
from dpp.platform.observability.invocation import InvocationFailed, invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp_cli.paths import FUNCTIONS
from tests.support.api import lambda_context

HANDLERS = sorted(FUNCTIONS.glob("*/handler.py"))
# It answers CloudFormation whatever happens, and meets no request of a client's.
WITHOUT = {"migrate"}


def _raising(error: BaseException) -> Any:
    @invocation(service_logger("test"), Meter())
    def handler(_event: dict[str, Any], _context: object) -> None:
        raise error

    return handler


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.parent.name)
def test_every_function_passes_through_the_edge(path: Any) -> None:
    """RUN-31."""
    [handler] = [
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name == "handler"
    ]
    decorated = [ast.unparse(one) for one in handler.decorator_list] == ["invocation(logger, meter)"]
    assert decorated is (path.parent.name not in WITHOUT)


def test_what_is_not_ours_leaves_as_its_class_without_a_cause() -> None:
    """D8: Lambda writes the message of what leaves."""
    with pytest.raises(InvocationFailed, match=r"^builtins\.ValueError$") as raised:
        _raising(ValueError("what the client said"))({}, lambda_context())
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    "error", [PostgresNotReached("OperationalError"), ConfigurationError("REDIS_URL: required")]
)
def test_what_names_a_dependency_or_a_variable_leaves_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        _raising(error)({}, lambda_context())


def test_no_level_of_lambdas_makes_a_library_talk(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_LAMBDA_LOG_LEVEL=DEBUG sets the root; botocore would then write bodies and signatures."""
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    service_logger("test")
    for name in ("botocore.endpoint", "urllib3.connectionpool", "httpcore.http11", "psycopg.pool"):
        assert logging.getLogger(name).getEffectiveLevel() == logging.WARNING
