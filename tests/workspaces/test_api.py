"""The API of workspaces (WS-6, WS-8): every route, every refusal, who may ask, and what is kept."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urljoin
from uuid import UUID, uuid4

import pytest

from dpp.platform.db import postgres
from dpp.platform.db.postgres import Database
from dpp.platform.keys import api_keys, operator_keys
from dpp.workspaces.api.create import NewWorkspace, create
from dpp.workspaces.api.owner import MAX_EVENTS
from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from tests.support.api import Answer
from tests.support.proxy import Fault, Proxy
from tests.workspaces.api import ROOT, WorkspacesApi
from tests.workspaces.environment import LOOKS, TENANT, Environment
from tests.workspaces.memory_provider import MemoryProvider

YEAR_SECONDS = 365 * 24 * 3600
AN_ID = "fd4888b3-0000-4000-8000-00000000beef"
OF_ONE = [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/events"), ("POST", "/connect")]
ROUTES = [("POST", ""), ("GET", ""), *((method, f"/{AN_ID}{below}") for method, below in OF_ONE)]


@pytest.fixture
def client(env: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspacesApi]:
    """The API on the desk, whose queues are its own, too."""
    with closing(WorkspacesApi(env.database, env.url, monkeypatch, env.sqs)) as made:
        yield made


@pytest.fixture
def refusing(shared_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkspacesApi]:
    """The API for what is refused, which leaves neither a workspace nor a hint."""
    with (
        closing(Database(shared_database)) as database,
        closing(WorkspacesApi(database, shared_database, monkeypatch)) as made,
    ):
        yield made
        with database.connection() as connection:
            assert connection.execute("SELECT count(*) FROM workspaces").fetchone() == (0,)
        assert made.hinted == []


def refused(answer: Answer, status: int, reason_code: str) -> dict[str, Any]:
    """The problem document of an answer that is one."""
    body: dict[str, Any] = answer.body
    assert (answer.status, body.get("reason_code")) == (status, reason_code), answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert body["type"] == f"urn:dpp:problem:{reason_code.lower().replace('_', '-')}"
    assert body["trace_id"] == answer.headers["X-Trace-Id"]
    assert None not in body.values()
    return body


def pointers(answer: Answer) -> list[str]:
    """Where a body doesn't fit."""
    return [fault["pointer"] for fault in refused(answer, 422, "VALIDATION_FAILED")["errors"]]


def without_ids(answer: Answer) -> tuple[int, dict[str, str], dict[str, Any]]:
    """An answer without what must differ: the trace id and the path."""
    headers = {name: value for name, value in answer.headers.items() if name != "X-Trace-Id"}
    return answer.status, headers, {k: v for k, v in answer.body.items() if k not in {"trace_id", "instance"}}


def under_way(client: WorkspacesApi, env: Environment) -> str:
    """A workspace whose PROVISIONING is under way: nobody does the long work."""
    found = client.created()
    env.observe(UUID(found), does_long_work=False)
    body = client.read(found).body
    assert (body["phase"], body["operation"]) == ("PENDING", "PROVISIONING")
    return found


class TestWhoMayAsk:
    """Tenants with a key of their own; nobody else."""

    @pytest.mark.parametrize(("method", "below"), ROUTES)
    def test_every_bad_key_is_one_401(self, refusing: WorkspacesApi, method: str, below: str) -> None:
        with refusing.database.connection() as connection:
            operators, gone = operator_keys.mint(), api_keys.mint()
            operator_keys.store(connection, operators, f"kim-{uuid4().hex[:8]}")
            api_keys.store(connection, gone, TENANT)
            api_keys.revoke(connection, gone.key_id)
        told = set()
        for token in (operators.token, gone.token, api_keys.mint().token, "x", refusing.owner.upper(), ""):
            answer = refusing.call(method, below, token=token, body="{}")
            refused(answer, 401, "AUTH_INVALID")
            assert answer.headers["WWW-Authenticate"] == 'Bearer realm="dpp"'
            told.add(json.dumps(answer.body | {"trace_id": ""}))
        assert len(told) == 1

    @pytest.mark.parametrize(
        ("below", "allowed"),
        [
            ("", "POST, GET"),
            (f"/{AN_ID}", "GET, PATCH, DELETE"),
            (f"/{AN_ID}/events", "GET"),
            (f"/{AN_ID}/connect", "POST"),
        ],
    )
    def test_other_methods_are_a_405_that_names_the_right_ones(
        self, refusing: WorkspacesApi, below: str, allowed: str
    ) -> None:
        for method in ("PUT", "OPTIONS", "HEAD"):
            answer = refusing.call(method, below)
            refused(answer, 405, "METHOD_NOT_ALLOWED")
            assert answer.headers["Allow"] == allowed


class TestCreating:
    """POST /v1/workspaces."""

    def test_what_is_left_out_is_running_and_for_ever(self, client: WorkspacesApi) -> None:
        answer = client.create({"name": "home"})
        assert answer.status == 201
        body = answer.body
        assert set(body) == {
            *("workspace_id", "name", "desired_state", "phase", "operation", "conditions"),
            *("last_access_at", "created_at", "next_step"),
        }
        told = (body["name"], body["desired_state"], body["phase"], body["operation"], body["conditions"])
        assert told == ("home", "RUNNING", "PENDING", "NONE", {})
        assert body["next_step"]
        assert datetime.fromisoformat(body["created_at"]).utcoffset() == timedelta(0)
        assert answer.headers["Cache-Control"] == "no-store"
        assert client.hinted == [body["workspace_id"]]

    def test_what_is_asked_for_is_kept(self, client: WorkspacesApi) -> None:
        asked = {
            "name": "Kim's 연구실 🧪",
            "desired_state": "ARCHIVED",
            "standby_ttl_seconds": 60,
            "archive_ttl_seconds": YEAR_SECONDS,
        }
        made = client.create(asked).body
        assert made == made | asked
        assert client.read(made["workspace_id"]).body == made

    def test_the_location_leads_to_it(self, client: WorkspacesApi) -> None:
        answer = client.create()
        where = urljoin(f"https://api.example{ROOT}", answer.headers["Location"])
        assert where == f"https://api.example{ROOT}/{answer.body['workspace_id']}"
        below = where.removeprefix(f"https://api.example{ROOT}")
        assert client.call("GET", below).body == answer.body

    def test_the_same_key_finds_the_first_result_as_it_stands_by_now(
        self, client: WorkspacesApi, env: Environment
    ) -> None:
        body = {"name": " home ", "standby_ttl_seconds": None}
        first = client.create(body, key="a-key-of-mine")
        found = first.body["workspace_id"]
        client.hinted  # noqa: B018 - forget the first
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
    def test_another_body_under_its_key_is_409_and_makes_nothing(
        self, client: WorkspacesApi, env: Environment, other: dict[str, Any]
    ) -> None:
        client.create({"name": "home"}, key="a-key-of-mine")
        refused(client.create(other, key="a-key-of-mine"), 409, "IDEMPOTENCY_CONFLICT")
        assert env.rows("SELECT name, desired_state FROM workspaces") == [("home", "RUNNING")]

    def test_the_same_key_of_another_tenant_is_its_own(self, client: WorkspacesApi) -> None:
        mine = client.create(key="a-key-of-mine")
        theirs = client.create(key="a-key-of-mine", token=client.stranger)
        assert (mine.status, theirs.status) == (201, 201)
        assert mine.body["workspace_id"] != theirs.body["workspace_id"]

    @pytest.mark.parametrize("key", [None, "", "short", "x" * 65, "a b c d e", "schlüssel-1", '"half-quoted'])
    def test_no_fit_key_is_400(self, refusing: WorkspacesApi, key: str | None) -> None:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = refusing.call("POST", headers=headers, body='{"name": "home"}')
        assert "Idempotency-Key" in refused(answer, 400, "MALFORMED_REQUEST")["detail"]

    def test_two_keys_are_400(self, refusing: WorkspacesApi) -> None:
        answer = refusing.call(
            "POST", headers={"Idempotency-Key": ["a-key-of-mine", "another-key"]}, body='{"name": "home"}'
        )
        refused(answer, 400, "MALFORMED_REQUEST")

    def test_there_are_as_many_as_a_tenant_may_have(self, client: WorkspacesApi, env: Environment) -> None:
        """Those of another tenant and those that are deleted don't count; a key that was used still answers."""
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

    def test_a_key_whose_first_request_makes_the_last_one_finds_it(self, env: Environment) -> None:
        """Two requests with one key at once: the second waits, and is not told that there are too many."""
        asked: dict[str, Any] = {
            "tenant_id": TENANT,
            "request_key": "a-key-of-mine",
            "limit": 1,
            "observe_queue": env.queue(LOOKS),
        }
        made: list[bool] = []

        def second() -> None:
            with closing(Database(env.url)) as database:
                made.append(create(NewWorkspace("home"), database=database, **asked).is_new)

        waiting = threading.Thread(target=second)
        with env.database.connection() as connection, connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('workspaces of t_owner', 0))")
            waiting.start()
            await_waiter(env)
            made.append(create(NewWorkspace("home"), database=env.database, **asked).is_new)
        waiting.join(20)
        assert made == [True, False]

    def test_a_queue_that_is_away_fails_no_request(self, client: WorkspacesApi, env: Environment) -> None:
        """WS-5: the beat looks."""
        env.sqs.is_away = True
        found = client.created(desired_state="STANDBY")
        assert client.change(found, {"desired_state": "RUNNING"}).status == 200
        assert client.connect(found).status == 200
        env.sqs.is_away = False
        assert client.hinted == []
        env.run_ticks(rounds=6)
        assert client.read(found).body["phase"] == "RUNNING"

    def test_a_hint_that_is_refused_alone_fails_no_request(
        self, client: WorkspacesApi, env: Environment
    ) -> None:
        env.sqs.refused = {"look": "InternalError"}
        assert client.create().status == 201

    def test_a_workspace_whose_answer_was_lost_is_found_under_its_key(
        self, client: WorkspacesApi, env: Environment
    ) -> None:
        """WS-6: the connection is cut as the row is committed, and just after; nothing is there by halves, or twice."""
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
        env.run_ticks(rounds=6)  # the hint was lost with the answer, and the beat looks
        assert env.get(UUID(again.body["workspace_id"])).phase == "RUNNING"

    def test_a_repetition_is_not_counted_as_another(
        self, client: WorkspacesApi, capfd: pytest.CaptureFixture[str]
    ) -> None:
        for _ in range(3):
            client.create(key="a-key-of-mine")
        assert capfd.readouterr().out.count('"WorkspacesCreated":[1.0]') == 1

    def test_postgres_that_is_away_is_a_503_that_says_when_to_ask_again(self, client: WorkspacesApi) -> None:
        client.rewire(DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
        for method, below in ROUTES:
            headers = {"Idempotency-Key": "a-key-of-mine"}
            answer = client.call(method, below, headers=headers, body='{"name": "home"}')
            refused(answer, 503, "DEPENDENCY_UNAVAILABLE")
            assert answer.headers["Retry-After"] == "1"


def await_waiter(env: Environment) -> None:
    """Until somebody waits for a lock in this database."""
    deadline = datetime.now(UTC) + timedelta(seconds=20)
    while datetime.now(UTC) < deadline:
        if env.rows(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ):
            return
    raise AssertionError("nobody waits")


class TestBadInput:
    """What doesn't fit is refused at its place, and leaves nothing."""

    @pytest.mark.parametrize(
        ("changes", "pointer"),
        [
            ({"name": ""}, "/name"),
            ({"name": "  \t "}, "/name"),
            ({"name": "\u3000\u00a0"}, "/name"),
            ({"name": "x" * 101}, "/name"),
            ({"name": "a\nb"}, "/name"),
            ({"name": "a\x1b[2Jb"}, "/name"),
            ({"name": "a\x7fb"}, "/name"),
            ({"name": "a\x9b2Jb"}, "/name"),
            ({"name": "a\u2028b"}, "/name"),
            ({"name": 7}, "/name"),
            ({"name": ["home"]}, "/name"),
            ({"name": None}, "/name"),
            ({"desired_state": "DELETED"}, "/desired_state"),
            ({"desired_state": "ERROR"}, "/desired_state"),
            ({"desired_state": "running"}, "/desired_state"),
            ({"desired_state": ""}, "/desired_state"),
            ({"desired_state": 20}, "/desired_state"),
            ({"desired_state": None}, "/desired_state"),
            ({"desired_state": {"a": []}}, "/desired_state"),
            ({"standby_ttl_seconds": 59}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": 0}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": -60}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": YEAR_SECONDS + 1}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": 2**53 - 1}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": 60.5}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": "60"}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": True}, "/standby_ttl_seconds"),
            ({"standby_ttl_seconds": [60]}, "/standby_ttl_seconds"),
            ({"archive_ttl_seconds": 59}, "/archive_ttl_seconds"),
            ({"archive_ttl_seconds": YEAR_SECONDS + 1}, "/archive_ttl_seconds"),
            ({"archive_ttl_seconds": False}, "/archive_ttl_seconds"),
            ({"phase": "RUNNING"}, "/phase"),
            ({"tenant_id": "t_stranger"}, "/tenant_id"),
            ({"Name": "x"}, "/Name"),
            ({"a/b~": 1}, "/a~1b~0"),
        ],
    )
    def test_what_does_not_fit_is_422_at_its_place(
        self, refusing: WorkspacesApi, changes: dict[str, Any], pointer: str
    ) -> None:
        """Of a change the same as of a new one; unknown members, too."""
        assert pointers(refusing.create({"name": "home"} | changes)) == [pointer]
        assert pointers(refusing.change(AN_ID, changes)) == [pointer]

    def test_deleted_is_refused_with_the_way_to_delete(self, refusing: WorkspacesApi) -> None:
        """WS-8."""
        for answer in (
            refusing.create({"name": "home", "desired_state": "DELETED"}),
            refusing.change(AN_ID, {"desired_state": "DELETED"}),
        ):
            [fault] = answer.body["errors"]
            assert fault["detail"] == (
                "must be one of PENDING, ARCHIVED, STANDBY, RUNNING; to delete the workspace, use DELETE"
            )

    @pytest.mark.parametrize(
        "raw",
        [
            *("", "{", "NaN", '{"name": NaN}', '{"name": Infinity}', b"\xff", b'{"name": "\xed\xa0\x80"}'),
            *(
                '{"name": "a", "name": "b"}',
                '{"name": "a\\u0000b"}',
                '{"name": "a\\ud800"}',
                '{"name": "\\udc00a"}',
            ),
            '{"name": "a", "standby_ttl_seconds": 9007199254740992}',
            '{"name": "a", "standby_ttl_seconds": 1e999}',
            '{"name": ' + "[" * 65 + "]" * 65 + "}",
        ],
    )
    def test_what_is_no_json_that_can_be_taken_is_400(
        self, refusing: WorkspacesApi, raw: str | bytes
    ) -> None:
        """D12."""
        refused(refusing.create(raw=raw), 400, "MALFORMED_REQUEST")
        answer = refusing.call("PATCH", f"/{AN_ID}", headers={"Content-Type": "application/json"}, body=raw)
        refused(answer, 400, "MALFORMED_REQUEST")

    @pytest.mark.parametrize("raw", ["[]", "null", "7", '"home"', "[{}]"])
    def test_what_is_no_object_is_422(self, refusing: WorkspacesApi, raw: str) -> None:
        assert pointers(refusing.create(raw=raw)) == [""]
        assert pointers(refusing.change(AN_ID, raw=raw)) == [""]

    def test_a_body_above_a_mebibyte_is_413(self, refusing: WorkspacesApi) -> None:
        refused(refusing.create(raw=" " * 2**20 + "{}"), 413, "PAYLOAD_TOO_LARGE")
        refused(refusing.change(AN_ID, raw=" " * 2**20 + "{}"), 413, "PAYLOAD_TOO_LARGE")

    @pytest.mark.parametrize("media", ["text/plain", "application/merge-patch+json", ""])
    def test_another_media_type_is_415(self, refusing: WorkspacesApi, media: str) -> None:
        for method, below in (("POST", ""), ("PATCH", f"/{AN_ID}")):
            headers = {"Content-Type": media, "Idempotency-Key": "a-key-of-mine"}
            answer = refusing.call(method, below, headers=headers, body='{"name": "home"}')
            refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")

    def test_no_refusal_repeats_what_was_sent(self, refusing: WorkspacesApi) -> None:
        body = {"name": "s3cret\n", "desired_state": "s3cret", "standby_ttl_seconds": "s3cret"}
        for answer in (refusing.create(body | {"name": "s3\ncret"}), refusing.change(AN_ID, body)):
            refused(answer, 422, "VALIDATION_FAILED")
            assert "s3cret" not in answer.text

    def test_a_name_is_trimmed_and_may_be_as_long_as_it_may(self, client: WorkspacesApi) -> None:
        assert client.create({"name": "\n x\u3000"}).body["name"] == "x"
        longest = "\U0001f9ea" * 100
        assert client.create({"name": longest}).body["name"] == longest
        refused(client.create({"name": longest + "x"}), 422, "VALIDATION_FAILED")

    def test_a_whole_number_is_one_however_it_is_written(self, client: WorkspacesApi) -> None:
        """JSON has one kind of number."""
        answer = client.create(raw='{"name": "x", "standby_ttl_seconds": 6e1, "archive_ttl_seconds": 60.0}')
        assert (answer.body["standby_ttl_seconds"], answer.body["archive_ttl_seconds"]) == (60, 60)


class TestListing:
    """GET /v1/workspaces."""

    def test_pages_by_cursor_are_all_of_them_the_newest_first(self, client: WorkspacesApi) -> None:
        made = [client.created(name=f"home {number}") for number in range(5)]
        client.create(token=client.stranger)
        pages: list[list[str]] = []
        query: dict[str, Any] = {"limit": "2"}
        while True:
            body = client.pages(**query).body
            pages.append([one["workspace_id"] for one in body["workspaces"]])
            if "next_cursor" not in body:
                break
            query["cursor"] = body["next_cursor"]
        assert pages == [made[:2:-1], made[2:0:-1], made[:1]]

    def test_a_full_last_page_has_no_cursor(self, client: WorkspacesApi) -> None:
        client.created()
        client.created()
        assert "next_cursor" not in client.pages(limit="2").body
        assert client.pages(cursor="0").body == {"workspaces": []}

    def test_one_in_a_list_is_the_one_that_is_read(self, client: WorkspacesApi) -> None:
        found = client.created(standby_ttl_seconds=60)
        assert client.pages().body == {"workspaces": [client.read(found).body]}

    def test_only_those_of_a_phase(self, client: WorkspacesApi, env: Environment) -> None:
        archived = str(env.create_in("ARCHIVED"))
        pending = client.created()
        for phase, found in (("ARCHIVED", [archived]), ("PENDING", [pending]), ("RUNNING", [])):
            listed = client.pages(phase=phase).body["workspaces"]
            assert [one["workspace_id"] for one in listed] == found

    def test_what_is_deleted_is_not_listed_and_can_be_read(self, client: WorkspacesApi) -> None:
        found = client.created()
        client.delete(found)
        assert client.pages().body == client.pages(phase="DELETED").body == {"workspaces": []}
        assert "deleted_at" in client.read(found).body

    @pytest.mark.parametrize(
        ("query", "pointer"),
        [
            *(({"limit": bad}, "/limit") for bad in ("0", "101", "-1", "1.0", "x", "", " 1", "٣", "1000")),
            *(({"cursor": bad}, "/cursor") for bad in ("", "x", "-1", "1 ", "٣", "1" * 19, "1.0")),
            *(({"phase": bad}, "/phase") for bad in ("", "running", "NONE", "RUNNING,PENDING")),
            ({"tenant_id": "t_stranger"}, "/tenant_id"),
        ],
    )
    def test_a_query_that_does_not_fit_is_422(
        self, refusing: WorkspacesApi, query: dict[str, str], pointer: str
    ) -> None:
        assert pointers(refusing.pages(**query)) == [pointer]

    def test_a_parameter_twice_is_400(self, refusing: WorkspacesApi) -> None:
        refused(refusing.pages(limit=["1", "2"]), 400, "MALFORMED_REQUEST")


class TestReading:
    """GET /v1/workspaces/{workspace_id}."""

    def test_what_was_seen_is_told(self, client: WorkspacesApi, env: Environment) -> None:
        """WS-2, WS-3."""
        found = env.create_in("RUNNING")
        body = client.read(found).body
        assert (body["phase"], body["operation"]) == ("RUNNING", "NONE")
        assert set(body["conditions"]) == {
            *(
                "infra.memory.container_ready",
                "storage.volume_ready",
                "storage.archive_ready",
                "policy.healthy",
            )
        }
        for one in body["conditions"].values():
            assert set(one) == {"status", "reason", "message", "last_transition_time"}
            assert one["status"] is True
        assert body["observed_at"] > body["created_at"]
        assert "as desired" in body["next_step"]
        assert "error" not in body

    def test_an_error_is_told_and_waits_for_a_person(
        self, client: WorkspacesApi, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-14: of one that may be tried again, and of one that may not; nobody is told to ask again of that."""
        found = env.create_in("STANDBY")

        def breaks(call: str) -> None:
            if call == "containers.start":
                raise OperationFailed("NoRoom", "There is no room.")

        fleet.faults.before = breaks
        client.change(found, {"desired_state": "RUNNING"})
        env.observe(found)
        told = client.read(found)
        while told.body["phase"] != "ERROR":
            error = told.body.get("error")
            assert error is None or error == {
                "reason": "NoRoom",
                "message": "There is no room.",
                "is_terminal": False,
                "retry_count": error["retry_count"],
            }
            assert "Retry-After" in told.headers
            env.pass_time(20)
            env.observe(found)
            told = client.read(found)
        assert told.body["error"]["is_terminal"] is True
        assert told.body["next_step"] == "NoRoom: There is no room."
        assert "Retry-After" not in told.headers
        deleted = client.delete(found)
        assert (deleted.status, deleted.headers["Retry-After"]) == (202, "2")

    def test_retry_after_stands_there_until_it_is_where_it_is_wanted(
        self, client: WorkspacesApi, env: Environment
    ) -> None:
        answer = client.create({"name": "home", "desired_state": "RUNNING"})
        found = UUID(answer.body["workspace_id"])
        assert answer.headers["Retry-After"] == client.read(found).headers["Retry-After"] == "2"
        env.drive_to(found, "RUNNING")
        assert "Retry-After" not in client.read(found).headers
        assert client.change(found, {"desired_state": "STANDBY"}).headers["Retry-After"] == "2"
        env.drive_to(found, "STANDBY")
        assert "Retry-After" not in client.read(found).headers
        assert client.connect(found).headers["Retry-After"] == "2"

    def test_one_that_is_about_to_leave_is_not_where_it_is_wanted(
        self, client: WorkspacesApi, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-7: STOPPING isn't taken back, so RUNNING doesn't last."""
        found = env.create_in("RUNNING")
        client.change(found, {"desired_state": "STANDBY"})

        def away(call: str) -> None:
            if call == "containers.stop":
                raise ProviderUnavailable

        fleet.faults.before = away
        env.observe(found)
        answer = client.change(found, {"desired_state": "RUNNING"})
        told = answer.body["phase"], answer.body["desired_state"], answer.body["operation"]
        assert told == ("RUNNING", "RUNNING", "STOPPING")
        assert answer.headers["Retry-After"] == "2"

    def test_one_that_wants_to_be_where_it_is_says_nothing_of_asking_again(
        self, client: WorkspacesApi
    ) -> None:
        assert "Retry-After" not in client.create({"name": "x", "desired_state": "PENDING"}).headers


class TestChanging:
    """PATCH /v1/workspaces/{workspace_id} (RFC 7396)."""

    @pytest.mark.parametrize(
        "change",
        [
            {"name": "another"},
            {"desired_state": "PENDING"},
            {"standby_ttl_seconds": 90},
            {"archive_ttl_seconds": 31_536_000},
            {
                "name": "another",
                "desired_state": "STANDBY",
                "standby_ttl_seconds": 60,
                "archive_ttl_seconds": 60,
            },
        ],
    )
    def test_what_is_left_out_stays(self, client: WorkspacesApi, change: dict[str, Any]) -> None:
        found = client.created(standby_ttl_seconds=600, archive_ttl_seconds=1_200)
        client.hinted  # noqa: B018 - forget the first
        before = client.read(found).body
        after = client.change(found, change)
        assert after.status == 200
        of_use = {"last_access_at", "next_step"}
        stays = {name: value for name, value in (before | change).items() if name not in of_use}
        assert after.body == after.body | stays
        assert set(after.body) == set(before)
        assert client.read(found).body == after.body
        assert client.hinted == [found]

    def test_use_alone_says_nothing_of_who_wanted_it_there(
        self, client: WorkspacesApi, env: Environment
    ) -> None:
        """What the clock lowered was asked for by the clock, until somebody asks for something else."""
        found = env.create("RUNNING", standby_ttl_seconds=60)
        env.pass_time(120)
        env.tick()
        for change, by in (
            ({}, "ttl"),
            ({"standby_ttl_seconds": 90}, "ttl"),
            ({"desired_state": "STANDBY"}, "owner"),
        ):
            assert client.change(found, change).body["desired_state"] == "STANDBY"
            assert env.get(found).desired_by == by

    def test_null_for_a_time_to_live_is_for_ever(self, client: WorkspacesApi, env: Environment) -> None:
        found = client.created(standby_ttl_seconds=600, archive_ttl_seconds=1_200)
        assert client.change(found, {"standby_ttl_seconds": None}).body.get("archive_ttl_seconds") == 1_200
        body = client.change(found, {"archive_ttl_seconds": None}).body
        assert not {"standby_ttl_seconds", "archive_ttl_seconds"} & set(body)
        assert env.rows("SELECT idle_at FROM workspaces") == [(None,)]

    def test_an_empty_change_is_use(self, client: WorkspacesApi) -> None:
        found = client.created(standby_ttl_seconds=600)
        before = client.read(found).body
        after = client.change(found, {}).body
        assert after["last_access_at"] > before["last_access_at"]
        assert after == before | {"last_access_at": after["last_access_at"]}
        kinds = [one["kind"] for one in client.events(found).body["events"]]
        assert kinds == ["CREATED"]

    @pytest.mark.parametrize("name", ["name", "desired_state"])
    def test_null_is_refused_where_there_must_be_something(self, client: WorkspacesApi, name: str) -> None:
        found = client.created()
        before = client.read(found).body
        answer = client.change(found, {name: None, "standby_ttl_seconds": 60})
        assert pointers(answer) == [f"/{name}"]
        if name == "name":
            assert answer.body["errors"][0]["detail"] == "must not be null; leave it out to keep the value"
        assert client.read(found).body == before

    def test_it_gets_there_one_neighbour_after_another(self, client: WorkspacesApi, env: Environment) -> None:
        """WS-8: RUNNING → PENDING never at once."""
        found = env.create_in("RUNNING")
        assert client.change(found, {"desired_state": "PENDING"}).body["phase"] == "RUNNING"
        env.drive_to(found, "PENDING")
        events = client.events(found).body["events"]
        phases = [one["to_value"] for one in events if one["kind"] == "PHASE"]
        assert phases[:3] == ["PENDING", "ARCHIVED", "STANDBY"]

    def test_a_change_of_what_is_deleted_is_410(self, client: WorkspacesApi) -> None:
        found = client.created()
        client.delete(found)
        before = client.read(found).body
        for answer in (
            client.change(found, {}),
            client.change(found, {"desired_state": "RUNNING"}),
            client.connect(found),
        ):
            refused(answer, 410, "WORKSPACE_DELETED")
        assert client.read(found).body == before


class TestDeleting:
    """DELETE /v1/workspaces/{workspace_id} (WS-8)."""

    @pytest.mark.parametrize("phase", ["PENDING", "ARCHIVED"])
    def test_it_is_accepted_and_accepted_again(
        self, client: WorkspacesApi, env: Environment, phase: str
    ) -> None:
        found = env.create_in(phase)
        client.hinted  # noqa: B018 - forget the first
        first = client.delete(found)
        assert (first.status, first.headers["Retry-After"]) == (202, "2")
        assert first.body["desired_state"] == "DELETED"
        assert client.hinted == [str(found)]
        again = client.delete(found)
        assert (again.status, again.body["deleted_at"]) == (202, first.body["deleted_at"])
        for _ in range(5):
            env.observe(found)
            env.pass_time(20)
        last = client.delete(found)
        assert (last.status, last.body["phase"], last.body["operation"]) == (202, "DELETED", "NONE")
        assert "Retry-After" not in last.headers
        assert last.body["next_step"] == "The workspace is deleted, and nothing of it is left."
        events = client.events(found).body["events"]
        assert [one["kind"] for one in events].count("DESIRED") == 1

    @pytest.mark.parametrize("phase", ["RUNNING", "STANDBY"])
    def test_from_elsewhere_it_is_409_that_says_where_it_stands(
        self, client: WorkspacesApi, env: Environment, phase: str
    ) -> None:
        found = env.create_in(phase)
        before = client.read(found).body
        body = refused(client.delete(found), 409, "WORKSPACE_NOT_DELETABLE")
        assert (body["phase"], body["operation"]) == (phase, "NONE")
        assert body["detail"] == (
            f"The workspace is {phase}: set desired_state to PENDING or ARCHIVED, and delete it once it is there."
        )
        assert client.read(found).body == before

    def test_while_something_is_under_way_it_is_409_that_says_what(
        self, client: WorkspacesApi, env: Environment
    ) -> None:
        found = under_way(client, env)
        body = refused(client.delete(found), 409, "WORKSPACE_NOT_DELETABLE")
        assert (body["phase"], body["operation"]) == ("PENDING", "PROVISIONING")
        assert (
            body["detail"] == "The workspace is PENDING, and PROVISIONING is under way: wait until it ends."
        )
        assert "deleted_at" not in client.read(found).body


class TestEvents:
    """GET /v1/workspaces/{workspace_id}/events."""

    def test_what_happened_is_told_the_newest_first(self, client: WorkspacesApi) -> None:
        found = client.created()
        client.change(found, {"name": "another", "desired_state": "ARCHIVED"})
        answer = client.events(found)
        assert answer.status == 200
        told = [
            {name: value for name, value in one.items() if name != "happened_at"}
            for one in answer.body["events"]
        ]
        assert told == [
            {"actor": "owner", "kind": "DESIRED", "from_value": "RUNNING", "to_value": "ARCHIVED"},
            {"actor": "owner", "kind": "RENAMED", "from_value": "home", "to_value": "another"},
            {"actor": "owner", "kind": "CREATED", "to_value": "RUNNING"},
        ]

    def test_the_last_hundred_are_told(self, client: WorkspacesApi, env: Environment) -> None:
        found = client.created()
        for number in range(MAX_EVENTS + 5):
            client.change(found, {"name": f"home {number}"})
        told = [one["to_value"] for one in client.events(found).body["events"]]
        assert told == [f"home {number}" for number in range(MAX_EVENTS + 4, 4, -1)]
        assert env.rows("SELECT count(*) FROM workspace_events") == [(MAX_EVENTS + 6,)]


class TestConnecting:
    """POST /v1/workspaces/{workspace_id}/connect (WS-6: waking goes through the API)."""

    def test_one_that_runs_is_used_and_nothing_more(self, client: WorkspacesApi, env: Environment) -> None:
        found = env.create_in("RUNNING")
        client.hinted  # noqa: B018 - forget the first
        before = client.read(found).body
        answer = client.connect(found)
        assert (answer.status, client.hinted) == (200, [])
        assert answer.body["last_access_at"] > before["last_access_at"]
        assert answer.body["phase"] == "RUNNING"
        assert "Retry-After" not in answer.headers

    @pytest.mark.parametrize("phase", ["STANDBY", "ARCHIVED", "PENDING"])
    def test_one_that_does_not_run_is_woken(
        self, client: WorkspacesApi, env: Environment, phase: str
    ) -> None:
        found = env.create_in(phase)
        client.hinted  # noqa: B018 - forget the first
        answer = client.connect(found)
        told = answer.status, answer.body["desired_state"], answer.headers["Retry-After"]
        assert told == (200, "RUNNING", "2")
        assert client.hinted == [str(found)]
        [wish] = [one for one in client.events(found).body["events"] if one["kind"] == "DESIRED"]
        assert (wish["actor"], wish["to_value"]) == ("connect", "RUNNING")
        env.drive_to(found, "RUNNING")

    def test_a_body_is_not_looked_at(self, client: WorkspacesApi) -> None:
        found = client.created()
        assert client.call("POST", f"/{found}/connect", body="{").status == 200


class TestStealth:
    """What is not the caller's does not exist (D13)."""

    MALFORMED = (
        *("1", "x", "null", "-1", "..", "%2e%2e", "%00", "열쇠", "urn:uuid:{ID}", " {ID}", "{ID} ", "{ID}0"),
        *("{ID}%00", "' OR '1'='1", "*", "%F0%9F", "%zz", "%", "a b", "x" * 10_000, "0" * 36, "g" * 36, "％"),
        *(
            "{HEX}",
            "{{ID}}",
            "{ID},{ID}",
            "{ID};x=1",
            "{ID}%2fevents",
            "\x00",
            "a\nb",
            "\u2028",
            "😀",
            "\ud800",
        ),
        *("{ID}\n", "{ID}\x00", "?", "#", '"', "\\", "`"),
    )
    NO_ROUTE = ("../workspaces", "{ID}//events", "{ID}/../{MINE}", "./{ID}", "{ID}/EVENTS", "{ID}/archives")

    @pytest.mark.parametrize(("method", "below"), OF_ONE)
    def test_unknown_foreign_and_malformed_ids_are_told_apart_by_nothing(
        self, client: WorkspacesApi, method: str, below: str
    ) -> None:
        theirs = client.create(token=client.stranger).body["workspace_id"]
        client.hinted  # noqa: B018 - forget the first
        before = client.read(theirs, client.stranger).body
        body = None if method != "PATCH" else '{"name": "mine"}'
        unknown = without_ids(client.call(method, f"/{uuid4()}{below}", body=body))
        assert (unknown[0], unknown[2]["reason_code"]) == (404, "WORKSPACE_NOT_FOUND")
        malformed = [
            one.replace("{ID}", theirs).replace("{HEX}", theirs.replace("-", "")) for one in self.MALFORMED
        ]
        for asked in (theirs, theirs.upper(), *malformed):
            assert without_ids(client.call(method, f"/{asked}{below}", body=body)) == unknown, asked
        for asked in malformed:  # its owner learns no more of what is no id
            answer = client.call(method, f"/{asked}{below}", token=client.stranger, body=body)
            assert without_ids(answer) == unknown, asked
        assert client.hinted == []
        assert client.read(theirs, client.stranger).body == before

    def test_a_404_costs_the_same_whatever_the_reason(
        self, client: WorkspacesApi, env: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As many bytes go to Postgres, so that timing tells nothing."""
        theirs = client.create(token=client.stranger).body["workspace_id"]
        monkeypatch.setattr(postgres, "_PING_AFTER_IDLE_SECONDS", 3_600.0)
        costs: dict[tuple[str, str], set[int]] = {}
        with Proxy(env.url) as proxy:
            client.rewire(DATABASE_URL=proxy.url)
            client.read(uuid4())  # connects
            for method, below in OF_ONE:
                for asked in (str(uuid4()), theirs, "x", "\x00", "x" * 10_000):
                    before = proxy.bytes_sent
                    assert client.call(method, f"/{asked}{below}", body="{}").status == 404
                    costs.setdefault((method, below), set()).add(proxy.bytes_sent - before)
            client.close()
        assert [len(found) for found in costs.values()] == [1] * len(OF_ONE)
        assert all(min(found) > 0 for found in costs.values())

    def test_what_is_no_route_is_the_same_404_to_everybody(self, client: WorkspacesApi) -> None:
        theirs = client.create(token=client.stranger).body["workspace_id"]
        mine = client.created()
        unknown = without_ids(client.call("GET", "/a/b"))
        assert (unknown[0], unknown[2]["reason_code"]) == (404, "NOT_FOUND")
        for text in self.NO_ROUTE:
            asked = text.replace("{ID}", theirs).replace("{MINE}", mine)
            for token in (client.owner, client.stranger):
                assert without_ids(client.call("GET", f"/{asked}", token=token)) == unknown, asked

    def test_a_body_is_judged_before_the_id_is(self, client: WorkspacesApi) -> None:
        """So that a refusal of a body tells nothing of whose it is."""
        theirs = client.create(token=client.stranger).body["workspace_id"]
        told = [
            without_ids(client.change(one, {"name": ""}))
            for one in (theirs, str(uuid4()), "x", client.created())
        ]
        assert told == [told[0]] * 4
        assert told[0][0] == 422

    def test_what_is_deleted_of_another_is_the_same_404(self, client: WorkspacesApi) -> None:
        theirs = client.create(token=client.stranger).body["workspace_id"]
        client.delete(theirs, client.stranger)
        unknown = without_ids(client.change(uuid4(), {}))
        assert without_ids(client.change(theirs, {})) == unknown
        assert without_ids(client.connect(theirs)) == unknown
        assert without_ids(client.delete(theirs)) == unknown

    def test_an_id_in_capitals_is_the_same_id(self, client: WorkspacesApi) -> None:
        found = client.created()
        assert client.read(found.upper()).body == client.read(found).body


def test_no_log_line_holds_what_was_sent(
    client: WorkspacesApi, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """RUN-31: neither a name nor a key, of a refused request neither."""
    caplog.set_level("DEBUG", "dpp")
    found = client.created(name="home-s3cret")
    client.create({"name": "home-s3cret"}, key="key-s3cret-1")
    client.create({"name": "other-s3cret"}, key="key-s3cret-1")
    client.change(found, {"name": "s3cret"})
    client.change(found, {"desired_state": "s3cret"})
    client.change(found, raw='{"s3cret"')
    client.read("s3cret")
    client.pages(cursor="s3cret")
    told = capfd.readouterr()
    logged = told.out + told.err + caplog.text + str([record.__dict__ for record in caplog.records])
    assert "refused" in logged
    assert "s3cret" not in logged
    assert client.owner.split("_")[2] not in logged
