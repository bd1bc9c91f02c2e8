"""Passwords by reference, and their rotation under a warm container (PLAT-2; issue 4: a rotated password)."""

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3
import psycopg
import pytest
from botocore.exceptions import EndpointConnectionError
from psycopg import sql
from redis import Redis, SSLConnection

from dpp.money.ledger import Ledger
from dpp.platform.aws import secrets
from dpp.platform.aws.clients import secrets_client
from dpp.platform.aws.secrets import Secret
from dpp.platform.config import ConfigurationError, DatabaseBySecret, RedisBySecret
from dpp.platform.db.postgres import Database
from dpp.platform.db.redis import _Token, connect
from dpp.platform.errors import PostgresNotReached, RedisUnavailable, SecretUnavailable
from dpp_cli.local.servers import HOST, PostgresServer, ValkeyServer, free_port


@dataclass
class Stored:
    """A secret in Secrets Manager with a count of its fetches."""

    arn: str
    client: Any
    asked: list[str] = field(default_factory=list)

    def put(self, **fields: str) -> None:
        """Rotate it: the new value is the current one from now on."""
        self.client.put_secret_value(SecretId=self.arn, SecretString=json.dumps(fields))


@pytest.fixture
def stored(aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stored]:
    """This test's secret."""
    client = boto3.client("secretsmanager")
    made = client.create_secret(Name=f"test/{uuid4().hex}", SecretString="{}")
    secret = Stored(made["ARN"], client)
    genuine = secrets_client

    def counted() -> Any:
        secret.asked.append(secret.arn)
        return genuine()

    monkeypatch.setattr(secrets, "secrets_client", counted)
    # A rotation and the broken connection are usually days apart; in this test less than a second.
    monkeypatch.setattr(secrets, "_MIN_AGE_SECONDS", 0.0)
    yield secret
    secrets.shared.cache_clear()


@pytest.fixture
def unreachable(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Arguments for `setattr` that make Secrets Manager unreachable."""

    def nobody() -> Any:
        raise EndpointConnectionError(endpoint_url="https://secretsmanager")

    with monkeypatch.context() as patch:
        patch.setattr(secrets, "secrets_client", nobody)
        yield patch


@pytest.fixture(scope="module")
def guarded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A Postgres that requires a password from every role except its owner."""
    with PostgresServer.start(tmp_path_factory.mktemp("guarded") / "data", outlives_starter=False) as server:
        hba = server.data_dir / "pg_hba.conf"
        hba.write_text("host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n")
        with psycopg.connect(server.url(), autocommit=True) as owner:
            owner.execute("SELECT pg_reload_conf()")
            owner.execute("CREATE ROLE dpp_app LOGIN PASSWORD 'never used'")
        yield server


@dataclass
class Guarded:
    """That server with RDS's rotation: database and secret change, the database first."""

    server: PostgresServer
    stored: Stored

    @property
    def address(self) -> DatabaseBySecret:
        """The address from a function's settings, without TLS, which this server does not have."""
        return DatabaseBySecret(HOST, self.server.port, "postgres", "prefer", self.stored.arn)

    def change_password(self, password: str) -> None:
        """Change the password in the database only."""
        with psycopg.connect(self.server.url(), autocommit=True) as owner:
            owner.execute(sql.SQL("ALTER ROLE dpp_app PASSWORD {}").format(sql.Literal(password)))

    def rotate(self, password: str) -> None:
        """Change the password in the database and the secret."""
        self.change_password(password)
        self.stored.put(username="dpp_app", password=password)

    def kill(self, pid: int) -> None:
        """Terminate a backend, as a failover does."""
        with psycopg.connect(self.server.url(), autocommit=True) as owner:
            assert owner.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,)).fetchone() == (True,)


@pytest.fixture
def guarded(guarded_server: PostgresServer, stored: Stored) -> Guarded:
    """The server with a first password."""
    made = Guarded(guarded_server, stored)
    made.rotate("first's pass=word \\ with @:/ signs")
    return made


class _Clock:
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self) -> float:
        return self.seconds


def _pid(database: Database) -> int:
    with database.connection() as connection:
        return connection.info.backend_pid


class TestPostgres:
    def test_a_warm_container_reconnects_with_the_rotated_password(self, guarded: Guarded) -> None:
        """Issue 4: the open connection keeps working; after its loss, the next use fetches the new password."""
        clock = _Clock()
        database = Database(guarded.address, wall_clock=clock)
        first = _pid(database)
        guarded.rotate("second")
        assert _pid(database) == first
        assert len(guarded.stored.asked) == 1
        guarded.kill(first)
        clock.seconds += 60
        assert _pid(database) != first
        assert len(guarded.stored.asked) == 2
        database.close()

    def test_connections_of_one_container_fetch_the_secret_once(self, guarded: Guarded) -> None:
        """A cold start makes one call."""
        several = [Database(guarded.address) for _ in range(3)]
        for database in several:
            _pid(database)
            database.close()
        assert len(guarded.stored.asked) == 1

    def test_between_the_two_steps_of_a_rotation_postgres_is_not_reached(self, guarded: Guarded) -> None:
        """The database already has the new password, Secrets Manager not yet; the caller retries."""
        database = Database(guarded.address)
        guarded.change_password("third")
        with pytest.raises(PostgresNotReached) as refused:
            _pid(database)
        assert "first's" not in str(refused.value)
        guarded.stored.put(username="dpp_app", password="third")
        assert _pid(database)
        database.close()

    def test_an_unreachable_server_causes_no_fetch_of_the_password(self, stored: Stored) -> None:
        """An outage of Postgres must not cause load on Secrets Manager."""
        stored.put(username="dpp_app", password="any")
        database = Database(DatabaseBySecret(HOST, free_port(), "postgres", "prefer", stored.arn))
        for _ in range(3):
            with pytest.raises(PostgresNotReached):
                _pid(database)
        assert len(stored.asked) == 1

    def test_without_secrets_manager_postgres_is_not_reached(self, guarded: Guarded, unreachable: object) -> None:
        """A typed error: a submit answers 503, and a job leaves the run to its next tick."""
        with pytest.raises(PostgresNotReached, match="SecretUnavailable"):
            _pid(Database(guarded.address))

    def test_an_unverified_certificate_is_refused_before_the_password_is_sent(self, guarded: Guarded) -> None:
        """PLAT-2: `verify-full` is the default; this server has no certificate at all."""
        address = DatabaseBySecret(HOST, guarded.server.port, "postgres", "verify-full", guarded.stored.arn)
        with pytest.raises(PostgresNotReached):
            _pid(Database(address))


class TestRedis:
    def test_a_new_connection_uses_the_current_token(
        self, valkey_server: ValkeyServer, stored: Stored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Issue 4: after a rotation and a loss of all connections the next command succeeds."""
        user = f"guarded-{uuid4().hex}"
        admin: Any = Redis.from_url(valkey_server.url)
        monkeypatch.setattr("dpp.platform.db.redis._SCHEME", "redis")  # this server has no TLS

        def rotate(token: str) -> None:
            admin.execute_command("ACL", "SETUSER", user, "resetpass", f">{token}", "on", "~*", "+@all")
            stored.put(username=user, auth_token=token)

        rotate("first")
        client = connect(RedisBySecret(HOST, valkey_server.port, stored.arn))
        assert client.ping()
        rotate("second")
        assert client.ping()
        admin.client_kill_filter(user=user)
        assert client.ping()
        assert len(stored.asked) == 2
        client.close()
        admin.execute_command("ACL", "DELUSER", user)
        admin.close()

    def test_a_token_is_sent_only_over_tls_to_a_verified_host(self, stored: Stored) -> None:
        """PLAT-2."""
        client: Any = connect(RedisBySecret("cache.test", 6379, stored.arn))
        made = client.connection_pool.make_connection()
        assert isinstance(made, SSLConnection)
        assert (made.cert_reqs, made.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert stored.asked == []

    def test_a_secret_without_a_user_gives_only_a_token(self, stored: Stored) -> None:
        """ElastiCache's AUTH has no user."""
        stored.put(auth_token="token")
        assert _Token(stored.arn).get_credentials() == ("token",)

    def test_without_secrets_manager_redis_is_unavailable(self, stored: Stored, unreachable: object) -> None:
        """A typed error, as for every failure of Redis."""
        ledger = Ledger.connect(RedisBySecret(HOST, free_port(), stored.arn))
        with pytest.raises(RedisUnavailable):
            ledger.reserve("t_1", "run", 1_000, 0)


class TestSecret:
    def test_the_last_known_value_is_used_while_secrets_manager_is_down(
        self, stored: Stored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An outage of Secrets Manager does not affect containers that have the password."""
        stored.put(password="known")
        secret = Secret(stored.arn)
        assert secret.current() == {"password": "known"}
        with monkeypatch.context() as patch:
            patch.setattr(secrets, "secrets_client", _Away)
            assert secret.renewed() == {"password": "known"}
        stored.put(password="new")
        assert secret.current() == {"password": "known"}
        assert secret.renewed() == {"password": "new"}

    def test_refusals_in_a_loop_fetch_at_most_once_a_second(
        self, stored: Stored, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A database that refuses every connection must not cause a loop of fetches."""
        monkeypatch.setattr(secrets, "_MIN_AGE_SECONDS", 1.0)
        clock = _Clock()
        secret = Secret(stored.arn, wall_clock=clock)
        for _ in range(5):
            secret.renewed()
        assert len(stored.asked) == 1
        clock.seconds += 1
        secret.renewed()
        assert len(stored.asked) == 2

    def test_an_unknown_secret_is_unavailable_by_class_and_not_by_name(self, stored: Stored) -> None:
        """RUN-31."""
        with pytest.raises(SecretUnavailable) as unknown:
            Secret("arn:aws:secretsmanager:us-east-1:123456789012:secret:nowhere").current()
        assert "nowhere" not in str(unknown.value)

    @pytest.mark.parametrize("text", ["hunter2", '"hunter2"', '["hunter2"]'])
    def test_a_malformed_secret_is_reported_without_its_value(self, stored: Stored, text: str) -> None:
        """RUN-31: the error at the first use says what is wrong."""
        stored.client.put_secret_value(SecretId=stored.arn, SecretString=text)
        with pytest.raises(ConfigurationError) as wrong:
            Secret(stored.arn).current()
        assert "hunter2" not in str(wrong.value)

    def test_a_missing_field_is_named(self, stored: Stored) -> None:
        """No other field's value is quoted."""
        with pytest.raises(ConfigurationError, match="no field password") as lacking:
            secrets.field({"username": "hunter2"}, "password")
        assert "hunter2" not in str(lacking.value)

    def test_a_url_needs_no_boto3(self, database_url: str) -> None:
        """Design, Dependencies: this saves the local stack and the tests 185 ms."""
        program = (
            "import sys; from dpp.platform.db.postgres import Database; from dpp.platform.db.redis import connect\n"
            f"with Database({database_url!r}).connection() as c: c.execute('SELECT 1')\n"
            "connect('redis://127.0.0.1:1/0')\n"
            "print([name for name in sys.modules if name.split('.')[0] in ('boto3', 'certifi')"
            " or name == 'dpp.platform.aws.secrets'])"
        )
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
        assert ran.stdout.strip() == "[]"


class _Away:
    def get_secret_value(self, **_: str) -> object:
        raise EndpointConnectionError(endpoint_url="https://secretsmanager")
