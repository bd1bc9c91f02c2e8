"""schemathesis asks the deployed API whatever the document allows, and much that it doesn't, with all its checks.

In process, where nothing else is asked meanwhile, tests/http/openapi does the same with more examples, of every
state and with signatures. Here it comes over the wire, as the committed document describes it to anybody.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpp.platform.keys import operator_keys
from dpp_cli.paths import ROOT
from tests.e2e.conftest import Platform

pytestmark = pytest.mark.e2e

SECONDS = 45
_CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.timeout(180)
def test_schemathesis_runs_clean_with_all_its_checks(platform: Platform, tmp_path: Path) -> None:
    """RUN-9, RUN-10, TIX-5, AUTH-1, WS-8: statuses, headers, types, schemas, methods, keys; no 5xx."""
    tenant = platform.tenant(credit_usd_micros=1_000_000)
    operator = operator_keys.mint()
    operator_keys.store(platform.database, operator, "schemathesis")
    keys = {"DPP_E2E_TENANT_KEY": tenant.token, "DPP_E2E_OPERATOR_KEY": operator.token}
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(_CONFIGURATION), "run"]
    where = [str(ROOT / "docs" / "openapi.json"), "--url", platform.state.api_base_url]
    ran = subprocess.run(
        [*command, *where, "--checks", "all", "--workers", "2", "--max-time", str(SECONDS), "--no-color"],
        cwd=tmp_path,  # where it keeps a cache
        env={**os.environ, **keys},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [generated] = re.findall(r"([\d,]+) generated", ran.stdout)
    assert int(generated.replace(",", "")) > 200, ran.stdout
    for key in keys.values():
        assert key not in ran.stdout
    assert platform.position(tenant).balance_usd_micros is not None
