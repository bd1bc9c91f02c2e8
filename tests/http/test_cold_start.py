"""What a cold start pays for (design, Dependencies): the API functions import only what a request needs."""

import os
import subprocess
import sys

import pytest

UNWANTED = ("alembic", "sqlalchemy", "boto3.resources", "httpx", "selectolax", "aws_cdk", "moto", "mcp")
PACKS = ("dpp.packs.decision", "dpp.packs.url", "dpp.packs.executor", "dpp.packs.child", "dpp.packs.process")


@pytest.mark.parametrize("function", ["runs_submit", "runs_read", "health", "tickets_api"])
def test_an_api_function_imports_no_pack_and_no_tool(function: str) -> None:
    """RUN-2, D6: boto3 is not imported before it is needed, a pack never, and nothing reads the environment."""
    program = f"import sys, {function}.handler; print('\\n'.join(sys.modules))"
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = ran.stdout.splitlines()
    # Powertools names botocore's version in its user agent, which imports the package and none of its modules.
    unwanted = (*UNWANTED, *PACKS, "boto3", "botocore.")
    assert [name for name in loaded if name.startswith(unwanted)] == []
    assert "dpp.platform.http.api" in loaded
