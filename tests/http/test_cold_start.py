"""What a cold start pays for (design, Dependencies): the API functions import only what a request needs."""

import os
import subprocess
import sys

import pytest

UNWANTED = ("alembic", "sqlalchemy", "boto3.resources", "httpx", "selectolax", "aws_cdk", "moto", "mcp.")
PACKS = ("dpp.packs.decision", "dpp.packs.url", "dpp.packs.executor", "dpp.packs.child", "dpp.packs.process")


FUNCTIONS = (
    "runs_submit",
    "runs_read",
    "runs_mcp",
    "health",
    "api_docs",
    "tickets_api",
    "auth_errors_api",
    "workspaces_api",
    "lifecycle_webhook",
)


def said_after_import(function: str, expression: str) -> list[str]:
    """The lines that a fresh process prints after it imported a function's handler."""
    program = f"import gc, sys, {function}.handler; print({expression})"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.splitlines()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_api_function_imports_no_pack_and_no_tool(function: str) -> None:
    """RUN-2, D6: boto3 is not imported before it is needed, a pack never, and nothing reads the environment."""
    loaded = said_after_import(function, "'\\n'.join(sys.modules)")
    # Powertools names botocore's version in its user agent, which imports the package and none of its modules.
    unwanted = (*UNWANTED, *PACKS, "boto3", "botocore.")
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "dpp.platform.http.api" in loaded


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_the_mcp_endpoint_loads_the_protocol_s_models(function: str) -> None:
    """RUN-33: a tenth of a second, of which the others have no use; and of the SDK nothing but the models."""
    loaded = said_after_import(function, "'\\n'.join(sys.modules)")
    assert ("mcp_types" in loaded) is (function == "runs_mcp")
    assert {"mcp", "starlette", "uvicorn", "jwt"}.isdisjoint(loaded)


def test_health_loads_nothing_of_a_run_but_its_errors() -> None:
    """It answers with the problems and headers of every function, and with no run."""
    loaded = said_after_import("health", "'\\n'.join(sys.modules)")
    of_runs = {name for name in loaded if name.startswith(("dpp.runs.", "dpp.packs.", "dpp.money."))}
    assert "dpp.runs.api.problems" in of_runs
    assert of_runs.isdisjoint(
        {
            "dpp.runs.api.http",
            "dpp.runs.api.contract",
            "dpp.runs.submit",
            "dpp.runs.read",
            "dpp.packs.registry",
        }
    )


def test_the_api_of_workspaces_loads_nothing_that_does_what_it_asks_for() -> None:
    """It writes what is wanted and sends a hint; looking, acting and packing homes are others'."""
    loaded = said_after_import("workspaces_api", "'\\n'.join(sys.modules)")
    unwanted = (
        *(
            "dpp.workspaces.providers",
            "dpp.workspaces.ports",
            "dpp.workspaces.control.observe",
            "dpp.workspaces.control.act",
        ),
        *(
            "dpp.workspaces.control.reconcile",
            "dpp.workspaces.control.monitor",
            "dpp.runs",
            "zstandard",
            "tarfile",
        ),
    )
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "dpp.workspaces.control.hints" in loaded


def test_the_webhooks_load_nothing_of_what_becomes_of_a_delivery() -> None:
    """They take in what comes and wake a role; the roles, and the way to the outside, are others'."""
    loaded = said_after_import("lifecycle_webhook", "'\\n'.join(sys.modules)")
    of_flow = ("intake.poller", "dispatcher", "runner", "notifier", "outside", "egress", "slack", "prompts")
    unwanted = (
        *(f"dpp.lifecycle.flow.{name}" for name in of_flow),
        *("dpp.lifecycle.retention.cleaner", "dpp.platform.aws.secrets", "dpp.runs"),
    )
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "dpp.lifecycle.flow.intake.deliveries" in loaded


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_api_function_is_imported_without_collections_of_garbage_and_then_has_them(function: str) -> None:
    """Off for good would let a container grow without end; on all the time costs a tenth of the init."""
    asked = (
        "sum(one['collections'] for one in gc.get_stats()), gc.isenabled(), gc.get_freeze_count() > 10_000"
    )
    collections, enabled, frozen = said_after_import(function, f"{asked}, sep='\\n'")
    assert (enabled, frozen) == ("True", "True")
    assert (
        int(collections) < 20
    )  # of the interpreter's own start, and since; otherwise there are several times that
