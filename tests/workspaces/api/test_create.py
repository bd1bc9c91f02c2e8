"""Authentication, and creation of workspaces (WS-6)."""

import json
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urljoin
from uuid import UUID, uuid4

import pytest

from dpp.platform.db.postgres import Database
from dpp.platform.keys import api_keys, operator_keys
from dpp.workspaces.api.create import NewWorkspace, create
from tests.support.proxy import Fault, Proxy
from tests.workspaces.api.client import AN_ID, ROOT, ROUTES, YEAR_SECONDS, WorkspacesApi, refused
from tests.workspaces.environment import LOOKS, TENANT, Environment


class TestAuthentication:
    @pytest.mark.parametrize(("method", "below"), ROUTES)
    def test_invalid_keys_get_the_same_401(self, refusing: WorkspacesApi, method: str, below: str) -> None:
        with refusing.database.connection() as connection:
            operators, gone = operator_keys.mint(), api_keys.mint()
            operator_keys.store(connection, operators, f"kim-{uuid4().hex[:8]}")
            api_keys.store(connection, gone, TENANT)
            api_keys.revoke(connection, gone.key_id)
        bodies = set()
        for token in (operators.token, gone.token, api_keys.mint().token, "x", refusing.owner.upper(), ""):
            answer = refusing.call(method, below, token=token, body="{}")
            refused(answer, 401, "AUTH_INVALID")
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dpp"'
            bodies.add(json.dumps(answer.body | {"trace_id": ""}))
        assert len(bodies) == 1

    @pytest.mark.parametrize(
        ("below", "allowed"),
        [
            ("", "POST, GET"),
            (f"/{AN_ID}", "GET, PATCH, DELETE"),
            (f"/{AN_ID}/events", "GET"),
            (f"/{AN_ID}/connect", "POST"),
        ],
    )
    def test_other_methods_get_405_with_allow(self, refusing: WorkspacesApi, below: str, allowed: str) -> None:
        for method in ("PUT", "OPTIONS", "HEAD"):
            answer = refusing.call(method, below)
            refused(answer, 405, "METHOD_NOT_ALLOWED")
            assert answer.headers["Allow"] == allowed


class TestCreating:
    """POST /v1/workspaces."""

    def test_defaults_are_running_and_no_ttl(self, client: WorkspacesApi) -> None:
        answer = client.create({"name": "home"})
        assert answer.status == 201
        body = answer.body
        assert set(body) == {
            *("workspace_id", "name", "desired_state", "phase", "operation", "conditions"),
            *("last_access_at", "created_at", "next_step"),
        }
        values = (body["name"], body["desired_state"], body["phase"], body["operation"], body["conditions"])
        assert values == ("home", "RUNNING", "PENDING", "NONE", {})
        assert body["next_step"]
        assert datetime.fromisoformat(body["created_at"]).utcoffset() == timedelta(0)
        assert answer.headers["Cache-Control"] == "no-store"
        assert client.hinted == [body["workspace_id"]]

    def test_requested_values_are_stored(self, client: WorkspacesApi) -> None:
        requested = {
            "name": "Kim's 연구실 🧪",
            "desired_state": "ARCHIVED",
            "standby_ttl_seconds": 60,
            "archive_ttl_seconds": YEAR_SECONDS,
        }
        made = client.create(requested).body
        assert made == made | requested
        assert client.read(made["workspace_id"]).body == made

    def test_location_leads_to_the_workspace(self, client: WorkspacesApi) -> None:
        answer = client.create()
        where = urljoin(f"https://api.example{ROOT}", answer.headers["Location"])
        assert where == f"https://api.example{ROOT}/{answer.body['workspace_id']}"
        below = where.removeprefix(f"https://api.example{ROOT}")
        assert client.call("GET", below).body == answer.body

    def test_same_key_returns_the_workspace_as_it_is_now(self, client: WorkspacesApi, env: Environment) -> None:
        body = {"name": " home ", "standby_ttl_seconds": None}
        first = client.create(body, key="a-key-of-mine")
        found = first.body["workspace_id"]
        client.forget_hints()
        again = client.create({"name": "home", "desired_state": "RUNNING"}, key="a-key-of-mine")
        quoted = client.create(body, key='"a-key-of-mine"')
        assert (first.status, again.status, quoted.status) == (201, 200, 200)
        assert first.body == again.body == quoted.body
        assert first.headers["Location"] == again.headers["Location"]
        assert client.hinted == []
        client.change(found, {"name": "renamed"})
        assert client.create(body, key="a-key-of-mine").body["name"] == "renamed"
        client.delete(found)
        gone = client.create(body, key="a-key-of-mine")
        assert (gone.status, gone.body["workspace_id"]) == (200, found)
        assert "deleted_at" in gone.body
        assert env.rows("SELECT count(*) FROM workspaces") == [(1,)]

    @pytest.mark.parametrize(
        "other",
        [
            {"name": "another"},
            {"name": "home", "desired_state": "STANDBY"},
            {"name": "home", "standby_ttl_seconds": 60},
            {"name": "home", "archive_ttl_seconds": 60},
        ],
    )
    def test_same_key_with_another_body_is_409(
        self, client: WorkspacesApi, env: Environment, other: dict[str, Any]
    ) -> None:
        client.create({"name": "home"}, key="a-key-of-mine")
        refused(client.create(other, key="a-key-of-mine"), 409, "IDEMPOTENCY_CONFLICT")
        assert env.rows("SELECT name, desired_state FROM workspaces") == [("home", "RUNNING")]

    def test_same_key_of_another_tenant_is_independent(self, client: WorkspacesApi) -> None:
        mine = client.create(key="a-key-of-mine")
        theirs = client.create(key="a-key-of-mine", token=client.stranger)
        assert (mine.status, theirs.status) == (201, 201)
        assert mine.body["workspace_id"] != theirs.body["workspace_id"]

    @pytest.mark.parametrize("key", [None, "", "short", "x" * 65, "a b c d e", "schlüssel-1", '"half-quoted'])
    def test_invalid_key_is_400(self, refusing: WorkspacesApi, key: str | None) -> None:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = refusing.call("POST", headers=headers, body='{"name": "home"}')
        assert "Idempotency-Key" in refused(answer, 400, "MALFORMED_REQUEST")["detail"]

    def test_two_keys_are_400(self, refusing: WorkspacesApi) -> None:
        answer = refusing.call(
            "POST", headers={"Idempotency-Key": ["a-key-of-mine", "another-key"]}, body='{"name": "home"}'
        )
        refused(answer, 400, "MALFORMED_REQUEST")

    def test_limit_of_workspaces_per_tenant(self, client: WorkspacesApi, env: Environment) -> None:
        """Workspaces of other tenants and deleted ones do not count; a used key still answers."""
        client.rewire(DPP_WORKSPACES_PER_TENANT="2")
        client.create(token=client.stranger)
        first = client.create(key="the-first-of-two").body["workspace_id"]
        client.create(key="the-second-of-two")
        body = refused(client.create(key="one-too-many"), 409, "TOO_MANY_WORKSPACES")
        assert body["limit"] == 2
        assert client.create(key="the-first-of-two").status == 200
        refused(client.create({"name": "other"}, key="the-first-of-two"), 409, "IDEMPOTENCY_CONFLICT")
        assert client.delete(first).status == 202
        assert client.create(key="one-too-many").status == 201
        assert env.rows("SELECT count(*) FROM workspaces") == [(4,)]

    def test_concurrent_requests_with_one_key_get_one_workspace(self, env: Environment) -> None:
        """The second waits, and is not refused by the limit that the first reaches."""
        params: dict[str, Any] = {
            "tenant_id": TENANT,
            "request_key": "a-key-of-mine",
            "limit": 1,
            "observe_queue": env.queue(LOOKS),
        }
        made: list[bool] = []

        def second() -> None:
            with closing(Database(env.url)) as database:
                made.append(create(NewWorkspace("home"), database=database, **params).is_new)

        waiting = threading.Thread(target=second)
        with env.database.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('workspaces of t_owner', 0))")
            waiting.start()
            await_waiter(env)
            made.append(create(NewWorkspace("home"), database=env.database, **params).is_new)
        waiting.join(20)
        assert made == [True, False]

    def test_unavailable_queue_fails_no_request(self, client: WorkspacesApi, env: Environment) -> None:
        """WS-5: a tick sends the observation."""
        env.sqs.is_away = True
        found = client.created(desired_state="STANDBY")
        assert client.change(found, {"desired_state": "RUNNING"}).status == 200
        assert client.connect(found).status == 200
        env.sqs.is_away = False
        assert client.hinted == []
        env.run_ticks(rounds=6)
        assert client.read(found).body["phase"] == "RUNNING"

    def test_refused_hint_fails_no_request(self, client: WorkspacesApi, env: Environment) -> None:
        env.sqs.refused = {"look": "InternalError"}
        assert client.create().status == 201

    def test_workspace_is_found_by_its_key_after_a_lost_answer(self, client: WorkspacesApi, env: Environment) -> None:
        """WS-6: the connection is cut during the commit, and just after it; there is no half or second workspace."""
        with Proxy(env.url) as proxy:
            client.rewire(DATABASE_URL=proxy.url)
            for fault, kept in ((Fault.CUT, 0), (Fault.SWALLOW_REPLY, 1)):
                proxy.arm(fault, b"COMMIT")
                refused(client.create(key="a-key-of-mine"), 503, "DEPENDENCY_UNAVAILABLE")
                assert proxy.tripped.is_set()
                proxy.heal()
                assert env.rows("SELECT count(*) FROM workspaces") == [(kept,)]
            again = client.create(key="a-key-of-mine")
            client.close()
        assert (again.status, client.hinted) == (200, [])
        env.run_ticks(rounds=6)  # the hint was lost with the answer; a tick sends the observation
        assert env.get(UUID(again.body["workspace_id"])).phase == "RUNNING"

    def test_repeated_request_is_counted_once(self, client: WorkspacesApi, capfd: pytest.CaptureFixture[str]) -> None:
        for _ in range(3):
            client.create(key="a-key-of-mine")
        assert capfd.readouterr().out.count('"WorkspacesCreated":[1.0]') == 1

    def test_unavailable_postgres_is_503_with_retry_after(self, client: WorkspacesApi) -> None:
        client.rewire(DATABASE_URL="postgresql://none@127.0.0.1:1/none")
        for method, below in ROUTES:
            headers = {"Idempotency-Key": "a-key-of-mine"}
            answer = client.call(method, below, headers=headers, body='{"name": "home"}')
            refused(answer, 503, "DEPENDENCY_UNAVAILABLE")
            assert answer.headers["Retry-After"] == "1"


def await_waiter(env: Environment) -> None:
    """Return once a session of this database waits for a lock."""
    deadline = datetime.now(UTC) + timedelta(seconds=20)
    while datetime.now(UTC) < deadline:
        if env.rows("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"):
            return
    raise AssertionError("no session waits for a lock")
