"""Cold starts (design, Dependencies): the API functions import only the modules that a request needs."""

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


def printed_after_import(function: str, expression: str) -> list[str]:
    """The lines that a new process prints after it has imported a function's handler."""
    program = f"import gc, sys, {function}.handler; print({expression})"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.splitlines()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_an_api_function_imports_no_pack_and_no_tool(function: str) -> None:
    """RUN-2, D6: boto3 is imported at its first use, a pack never, and nothing reads the environment."""
    loaded = printed_after_import(function, "'\\n'.join(sys.modules)")
    # Powertools has botocore's version in its user agent, so it imports the package, but none of its modules.
    unwanted = (*UNWANTED, *PACKS, "boto3", "botocore.")
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "dpp.platform.http.api" in loaded


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_the_mcp_endpoint_imports_the_models_of_the_protocol(function: str) -> None:
    """RUN-33: they take 0.1 s; nothing else of the SDK is imported."""
    loaded = printed_after_import(function, "'\\n'.join(sys.modules)")
    assert ("mcp_types" in loaded) is (function == "runs_mcp")
    assert {"mcp", "starlette", "uvicorn", "jwt"}.isdisjoint(loaded)


def test_health_imports_only_the_errors_of_runs() -> None:
    """It uses the problems and headers of every function, and no run."""
    loaded = printed_after_import("health", "'\\n'.join(sys.modules)")
    of_runs = {name for name in loaded if name.startswith(("dpp.runs.", "dpp.packs.", "dpp.money."))}
    assert "dpp.runs.api.problems" in of_runs
    assert of_runs.isdisjoint(
        {"dpp.runs.api.http", "dpp.runs.api.contract", "dpp.runs.submit", "dpp.runs.read", "dpp.packs.registry"}
    )


def test_the_api_of_workspaces_imports_no_monitor_reconciler_or_provider() -> None:
    """It writes the desired state and sends a hint; other functions observe and act."""
    loaded = printed_after_import("workspaces_api", "'\\n'.join(sys.modules)")
    unwanted = (
        *(
            "dpp.workspaces.providers",
            "dpp.workspaces.ports",
            "dpp.workspaces.control.observe",
            "dpp.workspaces.control.act",
        ),
        *("dpp.workspaces.control.reconcile", "dpp.workspaces.control.monitor", "dpp.runs", "zstandard", "tarfile"),
    )
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "dpp.workspaces.control.hints" in loaded


def test_the_webhooks_import_no_role() -> None:
    """They store a delivery and wake a role; roles and providers are in other functions."""
    loaded = printed_after_import("lifecycle_webhook", "'\\n'.join(sys.modules)")
    of_flow = ("intake.poller", "dispatcher", "runner", "notifier", "outside", "egress", "slack", "prompts")
    unwanted = (
        *(f"dpp.lifecycle.flow.{name}" for name in of_flow),
        *("dpp.lifecycle.retention.cleaner", "dpp.platform.aws.secrets", "dpp.runs"),
    )
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "dpp.lifecycle.flow.intake.deliveries" in loaded


@pytest.mark.parametrize("function", FUNCTIONS)
def test_garbage_collection_is_off_during_the_import_of_an_api_function_only(function: str) -> None:
    """Always off, a container would grow without limit; always on, the init takes 10 % longer."""
    asked = "sum(one['collections'] for one in gc.get_stats()), gc.isenabled(), gc.get_freeze_count() > 10_000"
    collections, enabled, frozen = printed_after_import(function, f"{asked}, sep='\\n'")
    assert (enabled, frozen) == ("True", "True")
    assert int(collections) < 20  # since the start of the interpreter; with collections there are several times as many
