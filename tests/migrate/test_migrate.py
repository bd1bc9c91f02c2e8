"""The migration of a deployment, as CloudFormation asks for it (RUN-29)."""

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from dpp_cli.local.servers import HOST, PostgresServer, free_port
from migrate import handler as function
from migrate.handler import handler
from migrate.request import PHYSICAL_ID, Request, answer
from migrations import content, runner

_CONTEXT: Any = SimpleNamespace(
    function_name="migrate",
    memory_limit_in_mb=512,
    invoked_function_arn="arn",
    aws_request_id="id",
    get_remaining_time_in_millis=lambda: 600_000,
)


@dataclass
class CloudFormation:
    """The receiver of responses, and the request."""

    url: str = ""
    answers: list[dict[str, str]] = field(default_factory=list)
    content_types: list[str | None] = field(default_factory=list)
    refusals: int = 0

    def ask(self, kind: str, content_hash: str | None = None, **more: Any) -> dict[str, str]:
        """Send a request to the function; its answer."""
        properties = {"ServiceToken": "arn", "ContentHash": content_hash or function.wiring().content_hash}
        event = {
            "RequestType": kind,
            "ResponseURL": self.url,
            "StackId": "stack",
            "RequestId": uuid4().hex,
            "LogicalResourceId": "Migrations",
            "ResourceType": "Custom::DatabaseMigrations",
            "ResourceProperties": properties,
            **more,
        }
        handler(event, _CONTEXT)
        last = self.answers[-1]
        assert last["RequestId"] == event["RequestId"]
        return last


@pytest.fixture
def cloudformation() -> Iterator[CloudFormation]:
    """Its bucket, on loopback."""
    made = CloudFormation()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            refused = made.refusals > 0
            if refused:
                made.refusals -= 1
            else:
                made.answers.append(json.loads(body))
                made.content_types.append(self.headers["Content-Type"])
            self.send_response(503 if refused else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((HOST, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made.url = f"http://{HOST}:{server.server_port}/answer?Signature=hunter2"
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture
def empty_database(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """As RDS makes it, and the function's environment names it."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        url = postgres_server.url(name)
        monkeypatch.setenv("DATABASE_URL", url)
        yield url
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The migrations of a release with one more, which a test writes; in a folder of its own."""
    folder = tmp_path / "migrations"
    shutil.copytree(content.FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(runner, "FOLDER", folder)
    monkeypatch.setattr(function, "content_hash", lambda: content.content_hash(folder))
    return folder


def add_migration(folder: Path, statement: str) -> None:
    head = sorted(path.stem[:4] for path in (folder / "versions").glob("0*.py"))[-1]
    (folder / "versions" / "9999_next.py").write_text(
        "from alembic import op\n"
        f"revision, down_revision, branch_labels, depends_on = '9999', {head!r}, None, None\n"
        f"def upgrade():\n    op.execute('CREATE TABLE half_done (id int)')\n    op.execute({statement!r})\n"
        "def downgrade():\n    op.execute('DROP TABLE half_done')\n"
    )


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        return {name for (name,) in rows}


def revision(url: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        assert row is not None
        return str(row[0])


def test_the_first_deployment_makes_the_schema_and_the_second_changes_nothing(
    cloudformation: CloudFormation, empty_database: str
) -> None:
    """RUN-29."""
    made = cloudformation.ask("Create")
    assert made["Status"] == "SUCCESS", made
    assert made["PhysicalResourceId"] == PHYSICAL_ID
    assert {"runs", "tenants", "budget_credits"} <= tables(empty_database)
    before = revision(empty_database)
    again = cloudformation.ask("Update", PhysicalResourceId=PHYSICAL_ID, OldResourceProperties={})
    assert (again["Status"], again["PhysicalResourceId"]) == ("SUCCESS", PHYSICAL_ID)
    assert revision(empty_database) == before


def test_the_answer_is_put_as_its_url_was_signed(cloudformation: CloudFormation, empty_database: str) -> None:
    """Without a content type: with one, S3 answers 403, and CloudFormation waits in vain."""
    cloudformation.ask("Create")
    assert cloudformation.content_types == [""]


def test_a_migration_that_fails_fails_the_deployment_and_changes_nothing(
    cloudformation: CloudFormation, empty_database: str, next_release: Path
) -> None:
    """RUN-29: its first statement is undone with its second."""
    cloudformation.ask("Create")
    before = (tables(empty_database), revision(empty_database))
    add_migration(next_release, "ALTER TABLE nowhere ADD COLUMN a int")
    failed = cloudformation.ask("Update", PhysicalResourceId=PHYSICAL_ID)
    assert failed["Status"] == "FAILED"
    assert 'relation "nowhere" does not exist' in failed["Reason"]
    assert (tables(empty_database), revision(empty_database)) == before


def test_a_failure_that_quotes_a_row_is_reported_without_it(
    cloudformation: CloudFormation, empty_database: str, next_release: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """RUN-31: the reason is shown to everyone who may see the stack."""
    cloudformation.ask("Create")
    add_migration(next_release, "INSERT INTO half_done SELECT 'hunter2'::text::int")
    failed = cloudformation.ask("Update", PhysicalResourceId=PHYSICAL_ID)
    assert failed["Status"] == "FAILED"
    assert failed["Reason"] == "InvalidTextRepresentation: 22P02"
    assert "hunter2" not in caplog.text


def test_a_rollback_keeps_the_schema_and_succeeds_whichever_code_is_there(
    cloudformation: CloudFormation, empty_database: str, next_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rollback that fails leaves a stack that nobody can update (UPDATE_ROLLBACK_FAILED)."""
    old_hash = content.content_hash()
    cloudformation.ask("Create", old_hash)
    add_migration(next_release, "SELECT 1")
    assert cloudformation.ask("Update", PhysicalResourceId=PHYSICAL_ID)["Status"] == "SUCCESS"
    assert revision(empty_database) == "9999"
    with_new_code = cloudformation.ask("Update", old_hash, PhysicalResourceId=PHYSICAL_ID)
    monkeypatch.setattr(runner, "FOLDER", content.FOLDER)
    monkeypatch.setattr(function, "content_hash", content.content_hash)
    with_old_code = cloudformation.ask("Update", old_hash, PhysicalResourceId=PHYSICAL_ID)
    assert [with_new_code["Status"], with_old_code["Status"]] == ["SUCCESS", "SUCCESS"]
    assert revision(empty_database) == "9999"


def test_a_rollback_of_a_failed_migration_does_not_try_it_again(
    cloudformation: CloudFormation, empty_database: str, next_release: Path
) -> None:
    """CloudFormation asks with the hash of before while the new code is still there."""
    old_hash = content.content_hash(next_release)
    cloudformation.ask("Create", old_hash)
    add_migration(next_release, "ALTER TABLE nowhere ADD COLUMN a int")
    assert cloudformation.ask("Update", PhysicalResourceId=PHYSICAL_ID)["Status"] == "FAILED"
    assert cloudformation.ask("Update", old_hash, PhysicalResourceId=PHYSICAL_ID)["Status"] == "SUCCESS"


def test_deleting_the_stack_deletes_no_row(cloudformation: CloudFormation, empty_database: str) -> None:
    """Rows go with their database."""
    cloudformation.ask("Create")
    before = tables(empty_database)
    assert cloudformation.ask("Delete", PhysicalResourceId=PHYSICAL_ID)["Status"] == "SUCCESS"
    assert tables(empty_database) == before


def test_another_deployments_migration_is_waited_for_so_long_and_no_longer(
    cloudformation: CloudFormation, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at once: the second fails by name, and its deployment is repeated."""
    monkeypatch.setattr(function, "LOCK_SECONDS", 1)
    with psycopg.connect(empty_database) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (runner._LOCK_KEY,))
        waited = cloudformation.ask("Create")
    assert (waited["Status"], waited["Reason"]) == ("FAILED", "LockNotAvailable: 55P03")
    assert cloudformation.ask("Create")["Status"] == "SUCCESS"


def test_a_database_that_is_down_fails_the_deployment_without_its_password(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-31."""
    monkeypatch.setenv("DATABASE_URL", f"postgresql://dpp:hunter2@{HOST}:{free_port()}/dpp")
    failed = cloudformation.ask("Create")
    assert (failed["Status"], failed["Reason"]) == ("FAILED", "OperationalError")


def test_a_missing_variable_fails_the_deployment_by_name(
    cloudformation: CloudFormation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Conventions, "Configuration"."""
    monkeypatch.delenv("DATABASE_URL", raising=False)
    assert "DATABASE_URL" in cloudformation.ask("Create", "0" * 64)["Reason"]


def test_an_answer_that_is_not_taken_is_given_again(cloudformation: CloudFormation) -> None:
    """Without one CloudFormation waits to the end of its patience."""
    event = {
        "RequestType": "Delete",
        "ResponseURL": cloudformation.url,
        "StackId": "stack",
        "RequestId": "one",
        "LogicalResourceId": "Migrations",
        "ResourceProperties": {"ContentHash": "0" * 64},
    }
    request = Request.model_validate(event)
    assert "hunter2" not in repr(request)
    cloudformation.refusals = 2
    pauses: list[float] = []
    answer(request, failed_because=None, sleep=pauses.append)
    assert [given["RequestId"] for given in cloudformation.answers] == ["one"]
    assert pauses == [1.0, 5.0]
    cloudformation.refusals = 9
    with pytest.raises(OSError, match="answered 503") as refused:
        answer(request, failed_because=None, sleep=pauses.append)
    assert "hunter2" not in str(refused.value)


def test_the_hash_follows_every_source_file_and_nothing_else(tmp_path: Path) -> None:
    """The template's hash and the function's are of two copies, one of them compiled."""
    copy = tmp_path / "migrations"
    shutil.copytree(content.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert content.content_hash(copy) == content.content_hash()
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "env.pyc").touch()
    assert content.content_hash(copy) == content.content_hash()
    file = next((copy / "sql").glob("*.sql"))
    file.write_text(file.read_text() + "\n")
    assert content.content_hash(copy) != content.content_hash()
