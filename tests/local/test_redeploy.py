"""A release's effect on running functions, on a LocalStack of this module's own (PLAT-5, RUN-29).

The stack is three functions and the migration between them, made by the platform's own constructs and deployed by the
pinned CDK: what is asked is the order of things and what a failure leaves, and a deployment of the whole platform takes
a minute or two. Each test goes on from the one before, from the first release to the end of the stack. Not shown here,
since LocalStack does neither: traffic shifted by CodeDeploy, and updates of an API's stage in place
(`dpp_cli.local.deploy.shape_changed`); templates are held to both in tests/cdk. Nor does it roll back an update that
failed: it leaves what it had changed as it is (`dpp_localstack.failed_updates`).
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import psycopg
import pytest
from botocore.exceptions import ClientError

from dpp.money.credits import create_tenant
from dpp.platform.keys import api_keys
from dpp_cli.deploy.cdk import build_layers, cdk
from dpp_cli.deploy.toolchain import ToolError
from dpp_cli.layers.packages import machine_architecture
from dpp_cli.local.deploy import bootstrap
from dpp_cli.local.localstack import REGION, LocalStackServer, client_environment, endpoint_url, function_log_dir
from dpp_cli.local.processes import marked
from dpp_cli.local.servers import PostgresServer, ValkeyServer, free_port
from dpp_cli.local.state import StateStore
from dpp_cli.paths import FUNCTIONS, MIGRATIONS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # each deployment synthesizes and uploads

APP = Path(__file__).with_name("redeployed_app.py")
STACK, FUNCTION, READER = "Redeployed", "dpp-redeployed-health", "dpp-redeployed-runs_read"
REVISION = """
revision = "{revision}"
down_revision = "{before}"
branch_labels = None
depends_on = None

def upgrade() -> None:
    from alembic import op
    op.execute("{sql}")
"""


@dataclass(frozen=True)
class Release:
    """A checkout that is changed and deployed again and again."""

    folder: Path
    environment: dict[str, str]
    database_url: str
    migrate_log: Path

    def client(self, service: Any) -> Any:
        """A boto3 client of this LocalStack."""
        session = boto3.Session(
            self.environment["AWS_ACCESS_KEY_ID"], self.environment["AWS_SECRET_ACCESS_KEY"], region_name=REGION
        )
        return session.client(service, endpoint_url=self.environment["AWS_ENDPOINT_URL"])

    def run(self, *words: str) -> str:
        """`cdk` on the checkout's app; what it said. Raises ToolError."""
        where = ["--app", f"{sys.executable} -P {APP} {self.folder}", "--output", str(self.folder / "cdk.out")]
        return cdk([*words, STACK, *where], self.environment, self.folder / "cdk.log")

    def deploy(self) -> str:
        """`cdk deploy`, likewise."""
        self.run("deploy", "--require-approval", "never", "--method", "direct", "--progress", "events")
        return (self.folder / "cdk.log").read_text()

    def answers(self, status: str, *, instead_of: str = "ok") -> None:
        """Have the function of this checkout answer so."""
        path = self.folder / "functions" / "health" / "handler.py"
        before = path.read_text()
        after = before.replace(f'{{"status": "{instead_of}"}}', f'{{"status": "{status}"}}')
        assert after != before
        path.write_text(after)

    def asked(self) -> str:
        """Return the deployed function's response."""
        answer = self.invoke(FUNCTION, "/healthz", {})
        assert answer.get("statusCode") == 200, answer
        return str(json.loads(answer["body"])["status"])

    def refused(self, token: str) -> str:
        """With which `reason_code` the deployed function that reads runs refuses to read one that isn't there."""
        answer = self.invoke(READER, f"/v1/runs/{uuid4()}", {"Authorization": f"Bearer {token}"})
        return str(json.loads(answer["body"])["reason_code"])

    def invoke(self, function: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
        """Return a deployed function's response to a GET."""
        event = {
            "httpMethod": "GET",
            "path": path,
            "resource": path,
            "pathParameters": {"run_id": path.rpartition("/")[2]},
            "headers": headers,
            "requestContext": {"requestId": "asked", "stage": "redeployed"},
        }
        answer = self.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event))
        return dict(json.loads(answer["Payload"].read()))

    def migration(self, revision: str, before: str, sql: str) -> Path:
        """Write a revision, both where it is hashed and where it is shipped; the first of the two."""
        text = REVISION.format(revision=revision, before=before, sql=sql)
        paths = [
            folder / "versions" / f"{revision}.py"
            for folder in (self.folder / "migrations", self.folder / "layers" / "migrations" / "python" / "migrations")
        ]
        for path in paths:
            path.write_text(text)
        return paths[0]

    def key(self) -> str:
        """A new tenant's API key."""
        minted = api_keys.mint()
        with psycopg.connect(self.database_url) as connection:
            create_tenant(connection, "redeployed", "Redeployed")
            api_keys.store(connection, minted, "redeployed")
        return minted.token

    def schema(self) -> tuple[str, set[str]]:
        """The database's revision, and its tables."""
        with psycopg.connect(self.database_url) as connection:
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
            ).fetchall()
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        assert row
        return str(row[0]), {str(name) for (name,) in tables}

    def deployed(self) -> dict[str, Any]:
        """Everything that a deployment could have changed: the stack's last change, and the functions'."""
        (stack,) = self.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        functions = self.client("lambda").list_functions()["Functions"]
        return {
            "stack": (stack["StackStatus"], str(stack.get("LastUpdatedTime"))),
            **{f["FunctionName"]: (f["CodeSha256"], f["LastModified"], f["RevisionId"]) for f in functions},
        }


@pytest.fixture(scope="module")
def release(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, valkey_server: ValkeyServer
) -> Iterator[Release]:
    """The first release, deployed; gone with all its processes afterwards."""
    state_dir, folder = tmp_path_factory.mktemp("stack"), tmp_path_factory.mktemp("checkout")
    _check_out(folder)
    with psycopg.connect(postgres_server.url(), autocommit=True) as admin:
        admin.execute("CREATE DATABASE redeployed")
    server = LocalStackServer.start(state_dir, free_port())
    try:
        endpoint = endpoint_url(server.port)
        store = StateStore(state_dir)
        store.set(aws_endpoint_url=endpoint)
        bootstrap(store)
        made = Release(
            folder,
            {
                **{k: v for k, v in os.environ.items() if k not in ("AWS_PROFILE", "AWS_SESSION_TOKEN")},
                **client_environment(endpoint),
                "ARCHITECTURE": machine_architecture(),
                "DATABASE_URL": postgres_server.url("redeployed"),
                "REDIS_URL": valkey_server.url,
            },
            postgres_server.url("redeployed"),
            function_log_dir(state_dir) / "dpp-redeployed-migrate.log",
        )
        made.deploy()
        yield made
    finally:
        server.stop()
        for stray in marked(state_dir):
            stray.end(signal.SIGKILL)


def _check_out(folder: Path) -> None:
    """The inputs of a release: copies of files that the tests change, the rest as links. What was there goes."""
    no_cache = shutil.ignore_patterns("__pycache__")
    for made in ("functions", "migrations", "layers"):
        shutil.rmtree(folder / made, ignore_errors=True)
    shutil.copytree(FUNCTIONS, folder / "functions", ignore=no_cache)
    shutil.copytree(MIGRATIONS, folder / "migrations", ignore=no_cache)
    built = build_layers(machine_architecture())
    layers = folder / "layers"
    layers.mkdir()
    (layers / "deps").symlink_to(built["packages"])
    (layers / "dpp").symlink_to(built["domain"])
    shutil.copytree(built["migrations"], layers / "migrations", ignore=no_cache)
    (layers / "none" / "python").mkdir(parents=True)  # in the place of those that no function has
    (layers / "none" / "python" / "none.py").touch()


@pytest.fixture
def head(release: Release) -> str:
    """The revision that the database is at."""
    return release.schema()[0]


def test_a_second_deployment_without_changes_changes_nothing(release: Release) -> None:
    before, schema = release.deployed(), release.schema()
    assert "runs" in schema[1]
    assert "no changes" in release.deploy()
    assert (release.deployed(), release.schema()) == (before, schema)


def test_a_changed_function_answers_anew(release: Release) -> None:
    assert release.asked() == "ok"
    before = release.deployed()
    release.answers("changed")
    release.deploy()
    assert release.asked() == "changed"
    after = release.deployed()
    assert {name for name in after if after[name] != before[name]} == {"stack", FUNCTION}


def test_a_new_migration_runs_with_the_deployment(release: Release, head: str) -> None:
    before = release.schema()[1]
    expand = "CREATE TABLE added_by_a_release (id integer); ALTER TABLE tenants ADD COLUMN added integer"
    release.migration("added", head, expand)
    release.deploy()
    assert release.schema() == ("added", before | {"added_by_a_release"})


def test_a_failing_migration_changes_neither_the_schema_nor_a_function_behind_it(release: Release, head: str) -> None:
    """Not the schema, of which the first statement would have gone well, and not the function that waits for it."""
    schema, answer = release.schema(), release.asked()
    release.answers("too early", instead_of=answer)
    release.migration("failing", head, "CREATE TABLE half_way (id integer); SELECT 1 / 0")
    with pytest.raises(ToolError):
        release.deploy()
    assert "migration failed" in release.migrate_log.read_text()
    assert (release.schema(), release.asked()) == (schema, answer)


def test_the_release_before_is_deployed_again_and_works_on_the_schema_of_the_later_one(release: Release) -> None:
    """As docs/deploy.md takes a release back: by its checkout, whose migrations find that they know too little."""
    schema = release.schema()
    assert (schema[0], release.asked()) == ("added", "changed")
    _check_out(release.folder)
    release.deploy()
    assert "a later release has migrated this database" in release.migrate_log.read_text()
    assert (release.schema(), release.asked()) == (schema, "ok")
    assert release.refused(release.key()) == "NOT_FOUND"  # not AUTH_INVALID: it found the key, and looked for the run


def test_destroy_leaves_nothing_but_the_rows(release: Release) -> None:
    """The database is not the stack's here, and the migration's end must not touch it."""
    schema = release.schema()
    release.run("destroy", "--force")
    with pytest.raises(ClientError, match="does not exist"):
        release.deployed()
    assert release.client("lambda").list_functions()["Functions"] == []
    assert release.client("logs").describe_log_groups(logGroupNamePrefix="/aws/lambda")["logGroups"] == []
    assert release.schema() == schema
