"""An operator without a way to the servers: `dpp --stage local …`, by the deployed function `operate` alone."""

import json
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from dpp.platform.keys.api_keys import Caller
from dpp_cli.errors import StackError
from dpp_cli.main import app
from tests.e2e.conftest import E2eTenant, Platform

pytestmark = pytest.mark.e2e


def dpp(*words: str) -> str:
    """A command on the deployment that succeeds; what it prints."""
    result = CliRunner().invoke(app, ["--stage", "local", *words])
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.stdout


def test_a_tenant_is_made_paid_for_and_checked_by_the_function_and_its_key_works_until_it_is_revoked(
    platform: Platform,
) -> None:
    """RUN-2, D2: what docs/deploy.md does in an account, done in the local one."""
    tenant_id = f"e2e_{uuid4().hex[:12]}"
    assert dpp("tenant", "create", tenant_id, "--name", "By the function") == f"tenant {tenant_id}\n"
    assert "balance 25.0000 USD" in dpp("ledger", "credit", tenant_id, "25.0000")
    token = dpp("key", "create", tenant_id, "--label", "first").strip()
    (listed,) = json.loads(dpp("key", "list", tenant_id, "--json"))
    assert token.split("_")[1] == listed["key_id"].replace("-", "")

    tenant = E2eTenant(tenant_id, token, Caller(tenant_id, listed["key_id"], 60))
    body = {
        "pack_type": "decision",
        "inputs": {"question": "What does moving cost?", "context": "Moving costs two monthly rents."},
        "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 30, "min_reliability_score": 0.5},
    }
    accepted = platform.submit(tenant, body)
    assert accepted.status_code == 202, accepted.text
    assert platform.finished(tenant, accepted.json()["run_id"])["status"] == "COMPLETED"
    (books,) = json.loads(dpp("ledger", "check", tenant_id, "--json"))
    assert (books["credits_usd_micros"], books["drift_usd_micros"]) == (25_000_000, 0)
    assert books["charges_usd_micros"] > 0

    dpp("key", "revoke", listed["key_id"])
    assert platform.submit(tenant, body).status_code == 401


def test_queues_and_disputes_are_reached_by_the_function_and_its_refusals_come_through(platform: Platform) -> None:
    """RUN-15, D3."""
    json.loads(dpp("dlq", "list", "--json"))
    json.loads(dpp("dispute", "list", "--json"))
    refused = CliRunner().invoke(app, ["--stage", "local", "ledger", "show", "nobody"])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "no tenant nobody" in refused.stderr
    kept = CliRunner().invoke(app, ["--stage", "local", "local", "down"])
    assert isinstance(kept.exception, StackError)
