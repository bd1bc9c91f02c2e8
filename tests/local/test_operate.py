"""The operator commands, as an operator types them, on real servers."""

import json
from uuid import UUID, uuid4

import pytest
import redis
from typer.testing import CliRunner, Result

from dpp.money.ledger import Ledger
from dpp.runs.jobs.reap import reap
from dpp_cli.errors import StackError
from dpp_cli.local.servers import ValkeyServer
from dpp_cli.main import app
from tests.support.api import ApiClient
from tests.support.world import World


class Shell:
    """Runs `dpp`."""

    def __init__(self) -> None:
        self._runner = CliRunner()

    def dpp(self, *words: str) -> str:
        """A command that succeeds; its output."""
        result = self._run(words)
        assert result.exit_code == 0, result.output
        return result.output

    def refused(self, *words: str) -> str:
        """A command that ends with a message; the message."""
        result = self._run(words)
        assert isinstance(result.exception, StackError), result.output
        return str(result.exception)

    def printed(self, *words: str) -> tuple[int, str]:
        """A command's exit code and output."""
        result = self._run(words)
        return result.exit_code, result.output

    def _run(self, words: tuple[str, ...]) -> Result:
        return self._runner.invoke(app, list(words))


@pytest.fixture
def shell(database_url: str, valkey_server: ValkeyServer, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """`dpp` with the servers of the tests."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", valkey_server.url)
    return Shell()


def test_a_tenant_is_made_credited_and_given_a_key_that_is_shown_once(shell: Shell) -> None:
    shell.dpp("tenant", "create", "acme-1", "--name", "Acme")
    assert "balance 25.0000 USD" in shell.dpp("ledger", "credit", "acme-1", "25.0000")
    assert shell.dpp("key", "create", "acme-1").startswith("dpp_")
    shown = shell.dpp("ledger", "show", "acme-1")
    assert "25 000 000" in shown
    assert "dpp_" not in shown


def test_a_credit_repeated_with_its_id_counts_once(shell: Shell) -> None:
    shell.dpp("tenant", "create", "acme-2")
    credit = ("ledger", "credit", "acme-2", "1.5", "--credit-id", "8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11")
    assert "balance 1.5000 USD" in shell.dpp(*credit)
    assert "balance 1.5000 USD" in shell.dpp(*credit)
    assert "another tenant or amount" in shell.refused(*credit[:3], "2.5", *credit[4:])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ledger", "credit", "nobody", "5"), "tenant does not exist"),
        (("key", "create", "nobody"), "tenant does not exist"),
        (("ledger", "show", "nobody"), "no tenant nobody"),
        (("ledger", "credit", "nobody", "5e3"), "decimal string"),
        (("ledger", "credit", "nobody", "0"), "must be 1 to"),
        (("tenant", "create", "not an id"), "tenants_tenant_id_check"),
    ],
)
def test_what_can_not_be_is_refused_in_a_sentence(shell: Shell, words: tuple[str, ...], message: str) -> None:
    assert message in shell.refused(*words)


def test_drift_is_reported_by_exit_code_table_and_json_and_mended_by_a_rebuild(
    shell: Shell, valkey_server: ValkeyServer
) -> None:
    """D2: an operator sees which tenant drifts and by how much, and puts it right from Postgres."""
    for tenant in ("drift-1", "drift-2"):
        shell.dpp("tenant", "create", tenant)
        shell.dpp("ledger", "credit", tenant, "1.0000")
    assert "all 2 balanced" in shell.dpp("ledger", "check")

    with redis.Redis.from_url(valkey_server.url) as client:
        client.incrby("budget:drift-2:balance_usd_micros", 7)
    assert shell.printed("ledger", "check", "drift-1") == (0, shell.dpp("ledger", "check", "drift-1"))
    code, table = shell.printed("ledger", "check")
    assert code == 1
    assert "+7 µ" in table
    code, text = shell.printed("ledger", "check", "--json")
    printed = {position["tenant_id"]: position["drift_usd_micros"] for position in json.loads(text)}
    assert (code, printed) == (1, {"drift-1": 0, "drift-2": 7})

    assert "1.0000 USD now" in shell.dpp("ledger", "rebuild", "drift-2")
    (newest, *_) = json.loads(shell.dpp("ledger", "rebuilds", "drift-2", "--json"))
    assert (newest["reason"], newest["before_usd_micros"]) == ("OPERATOR", 1_000_007)
    assert "OPERATOR" in shell.dpp("ledger", "rebuilds")
    assert "OPERATOR" not in shell.dpp("ledger", "rebuilds", "drift-1")
    assert "all 2 balanced" in shell.dpp("ledger", "check")
    assert "no tenant nobody" in shell.refused("ledger", "rebuild", "nobody")
    assert "no tenant nobody" in shell.refused("ledger", "check", "nobody")


def test_money_under_way_is_no_drift_to_an_operator(shell: Shell, valkey_server: ValkeyServer) -> None:
    """D2: a reservation whose run is still to be inserted stands in a column of its own."""
    shell.dpp("tenant", "create", "busy-1")
    shell.dpp("ledger", "credit", "busy-1", "1.0000")
    ledger = Ledger.connect(valkey_server.url)
    ledger.reserve("busy-1", str(uuid4()), 250_000, 0)
    ledger.client.close()
    (printed,) = json.loads(shell.dpp("ledger", "check", "busy-1", "--json"))
    assert (printed["in_flight_usd_micros"], printed["drift_usd_micros"]) == (250_000, 0)
    assert "0.2500" in shell.dpp("ledger", "check", "busy-1")


def test_a_dispute_is_shown_with_its_evidence_and_ended_as_decided(
    shell: Shell, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3: what an operator reads at night, and the one command that follows."""
    monkeypatch.setenv("DPP_RESULTS_BUCKET", world.bucket)
    assert "no disputed runs" in shell.dpp("dispute", "list")
    run = world.leased(world.tenant())
    world.ledger.refund_full(run.tenant_id, run.id)
    reap(world.finalize_effects(), world.new_database(), world.later(seconds=121))

    shown = shell.dpp("dispute", "list")
    assert run.id in shown
    assert "REFUNDED, charged 0.0000 USD" in shown
    (printed,) = json.loads(shell.dpp("dispute", "list", "--json"))
    assert (printed["run_id"], printed["receipt"]["kind"], printed["is_reserved"]) == (run.id, "REFUNDED", False)

    assert "decimal string" in shell.refused("dispute", "settle", run.id, "1e3")
    assert "at most its" in shell.refused("dispute", "settle", run.id, "99.0000")
    assert "FAILED, SETTLED, charged 0.0050 USD" in shell.dpp("dispute", "settle", run.id, "0.0050")
    assert "is not disputed" in shell.refused("dispute", "settle", run.id, "0.0050")
    assert "no disputed runs" in shell.dpp("dispute", "list")


@pytest.mark.parametrize("missing", ["DATABASE_URL", "REDIS_URL"])
def test_half_a_deployment_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Never the rows of one deployment and the ledger of another: that is how money is lost by hand."""
    monkeypatch.delenv(missing)
    assert f"missing: {missing} or" in shell.refused("ledger", "check")


@pytest.mark.parametrize(
    ("variable", "value", "missing"),
    [
        ("DATABASE_HOST", "db.test", "DATABASE_URL or DATABASE_HOST with DATABASE_SECRET_ARN"),
        ("REDIS_SECRET_ARN", "arn:aws:secretsmanager:x", "REDIS_URL or REDIS_HOST with REDIS_SECRET_ARN"),
    ],
)
def test_a_host_without_its_secret_is_half_a_deployment_too(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, missing: str
) -> None:
    monkeypatch.delenv(f"{variable.partition('_')[0]}_URL")
    monkeypatch.setenv(variable, value)
    assert missing in shell.refused("ledger", "check")


def test_keys_are_listed_without_a_secret_and_a_revoked_one_is_refused_at_once(shell: Shell, api: ApiClient) -> None:
    """RUN-2: the next request with it answers 401; the tenant's other key goes on working."""
    shell.dpp("tenant", "create", "acme-3")
    kept = shell.dpp("key", "create", "acme-3", "--label", "[new] key").strip()
    token = shell.dpp("key", "create", "acme-3").strip()
    (_, key_id, secret) = token.split("_")
    asked = {"Authorization": f"Bearer {token}"}
    path = f"/v1/runs/{uuid4()}"
    assert api.call("GET", path, headers=asked).status == 404

    shown = shell.dpp("key", "list", "acme-3")
    assert str(UUID(key_id)) in shown
    assert "[new] key" in shown
    assert secret not in shown
    assert "is revoked" in shell.dpp("key", "revoke", key_id)
    assert api.call("GET", path, headers=asked).status == 401
    assert api.call("GET", path, headers={"Authorization": f"Bearer {kept}"}).status == 404

    assert "is revoked" in shell.dpp("key", "revoke", key_id)  # a repetition finds it so
    printed = {one["key_id"]: one for one in json.loads(shell.dpp("key", "list", "acme-3", "--json"))}
    assert printed[str(UUID(key_id))]["status"] == "REVOKED"
    assert printed[str(UUID(kept.split("_")[1]))]["status"] == "ACTIVE"
    assert secret not in json.dumps(printed)


def test_a_key_or_a_tenant_that_there_is_not_is_said_not_to_be(shell: Shell) -> None:
    assert "key 00000000-" in shell.refused("key", "revoke", "0" * 32)
    assert shell.printed("key", "revoke", "acme")[0] == 2
    assert "does not exist" in shell.dpp("key", "list", "nobody")
