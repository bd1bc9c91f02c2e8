"""Every handler is wrapped by the edge, which controls what leaves a function (RUN-31)."""

import ast
import logging
from typing import Any

import pytest

from dpp.platform.config import ConfigurationError
from dpp.platform.errors import PostgresNotReached
from dpp.platform.observability.invocation import InvocationFailed, invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import TICKS
from dpp.platform.scheduled_job import scheduled_job
from dpp_cli.paths import FUNCTIONS
from tests.observability.emf import totals
from tests.support.api import lambda_context

HANDLERS = sorted(FUNCTIONS.glob("*/handler.py"))
# It answers CloudFormation whatever happens, and gets no request of a client.
WITHOUT = {"migrate"}


def _invocation(error: Exception) -> Any:
    @invocation(service_logger("test"), Meter())
    def handler(_event: dict[str, Any], _context: object) -> None:
        raise error

    return handler


def _scheduled_job(error: Exception) -> Any:
    @scheduled_job(service_logger("test"), Meter(), already_running=(LookupError,))
    def handler() -> dict[str, Any]:
        raise error

    return handler


EDGES = pytest.mark.parametrize("raising", [_invocation, _scheduled_job])


@pytest.mark.parametrize("path", HANDLERS, ids=lambda path: path.parent.name)
def test_every_handler_is_wrapped_by_the_edge(path: Any) -> None:
    """RUN-31: decorated, or made of the API's method or of the work on a message, by one of the three wrappers."""
    wrappers: list[ast.expr] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name="handler", decorator_list=decorators):
                wrappers += decorators
            case ast.Assign(targets=[ast.Name(id="handler")], value=ast.Call(func=wrapper)):
                wrappers.append(wrapper)
    [wrapped] = wrappers
    wrapped_by = ast.unparse(wrapped).partition("(logger, meter")[0]
    assert (wrapped_by in {"invocation", "scheduled_job", "batch_handler"}) is (path.parent.name not in WITHOUT)


@EDGES
def test_a_foreign_error_leaves_as_its_class_without_a_cause(raising: Any) -> None:
    """D8: Lambda logs the message of the error that leaves the handler."""
    with pytest.raises(InvocationFailed, match=r"^builtins\.ValueError$") as raised:
        raising(ValueError("what the client said"))({}, lambda_context())
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@EDGES
@pytest.mark.parametrize("error", [PostgresNotReached("OperationalError"), ConfigurationError("REDIS_URL: required")])
def test_an_error_that_names_a_dependency_or_a_variable_leaves_unchanged(raising: Any, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        raising(error)({}, lambda_context())


def test_a_job_that_is_already_running_elsewhere_reports_so_and_counts_no_tick(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert _scheduled_job(KeyError("busy"))({}, lambda_context()) == {"outcome": "ANOTHER_IS_RUNNING"}
    assert totals(capsys.readouterr().out, TICKS.name) == {}


def test_lambdas_log_level_does_not_reach_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS_LAMBDA_LOG_LEVEL=DEBUG sets the root logger; botocore would then log bodies and signatures."""
    monkeypatch.setattr(logging.getLogger(), "level", logging.DEBUG)
    service_logger("test")
    for name in ("botocore.endpoint", "urllib3.connectionpool", "httpcore.http11", "psycopg.pool"):
        assert logging.getLogger(name).getEffectiveLevel() == logging.WARNING
