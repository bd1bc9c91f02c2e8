"""The API of authentication errors (AUTH-1, AUTH-11): routes, rejections, authentication, and stored values."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from dpp.auth_errors.outbox import tables
from dpp.platform.db.postgres import Database
from dpp.platform.keys import api_keys, operator_keys
from tests.auth_errors.api import TRACE, AuthErrorsApi, Machinery, Queues, a_report

AN_ID = "fd4888b3-0000-4000-8000-00000000beef"
OPERATORS_ROUTES = [
    ("GET", "/api/auth-errors"),
    ("GET", "/api/auth-errors/clusters"),
    ("GET", f"/api/auth-errors/clusters/{AN_ID}"),
    ("POST", f"/api/auth-errors/clusters/{AN_ID}/decisions"),
    ("GET", f"/api/auth-errors/{AN_ID}"),
    ("POST", f"/api/auth-errors/{AN_ID}/decisions"),
]
ROUTES = [("POST", "/api/auth-errors"), *OPERATORS_ROUTES]
ASTRAL = "\U0001f510"
A_KEPT_FIELD = {
    "exceptionMessage": "exception_message",
    "rootCauseMessage": "root_cause_message",
    "stacktrace": "stacktrace",
    "requestPath": "request_path",
}


@pytest.fixture
def queues(aws: None) -> Queues:
    return Queues.made()


@pytest.fixture
def client(database_url: str, queues: Queues, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthErrorsApi]:
    environ = {"DATABASE_URL": database_url, "DPP_AUTH_ERROR_WAKE_QUEUE_URL": queues.wake}
    with closing(Database(database_url)) as database, closing(AuthErrorsApi(database, environ, monkeypatch)) as made:
        yield made


@pytest.fixture
def machinery(client: AuthErrorsApi, queues: Queues) -> Machinery:
    return Machinery(client.database, queues)


@pytest.fixture
def refusing(shared_database: str, aws: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[AuthErrorsApi]:
    environ = {"DATABASE_URL": shared_database, "DPP_AUTH_ERROR_WAKE_QUEUE_URL": "http://127.0.0.1:1/none"}
    with closing(Database(shared_database)) as database, closing(AuthErrorsApi(database, environ, monkeypatch)) as made:
        yield made
        assert made.sql("SELECT count(*) FROM auth_error") == [(0,)]
        assert made.sql("SELECT count(*) FROM outbox_message") == [(0,)]


def stored(client: AuthErrorsApi, field: str, **changes: Any) -> str | None:
    """A field of a new error, as stored."""
    found = client.reported(**changes)
    [(value,)] = client.sql(f"SELECT {A_KEPT_FIELD[field]} FROM auth_error WHERE auth_error_id = %s", (found,))
    return None if value is None else str(value)


class TestAuthentication:
    """Services report with a tenant's key; operators read and decide with theirs (AUTH-1, AUTH-11)."""

    @pytest.mark.parametrize(("method", "path"), ROUTES)
    def test_wrong_kind_of_key_gets_the_same_401_as_no_key(
        self, refusing: AuthErrorsApi, method: str, path: str
    ) -> None:
        with refusing.database.connection() as connection:
            revoked, gone = operator_keys.mint(), api_keys.mint()
            operator_keys.store(connection, revoked, "lee")
            operator_keys.revoke(connection, revoked.key_id)
            api_keys.store(connection, gone, refusing.tenant_id)
            api_keys.revoke(connection, gone.key_id)
        wrong_kind = refusing.tenant if (method, path) in OPERATORS_ROUTES else refusing.operator
        tokens = [wrong_kind, revoked.token, gone.token, api_keys.mint().token, "x", wrong_kind.upper(), None]
        seen = set()
        for token in tokens:
            answer = refusing.call(method, path, token=token, body=json.dumps(a_report()))
            seen.add((answer.status, json.dumps(answer.body | {"trace_id": ""})))
        [(status, _)] = seen
        assert status == 401

    def test_keys_identify_reporter_and_operator(self, client: AuthErrorsApi) -> None:
        found = client.reported()
        client.decide(f"/{found}", {"decisionId": AN_ID, "decisionType": "IGNORE", "reason": "noise"})
        whole = client.ask(f"/{found}").body
        assert whole["reportedBy"] == client.tenant_id
        assert [one["actor"] for one in whole["transitions"]] == [client.tenant_id, "kim"]


class TestReporting:
    """POST /api/auth-errors (AUTH-1, AUTH-2)."""

    def test_report_records_error_and_event_and_wakes_the_publisher(
        self, client: AuthErrorsApi, queues: Queues
    ) -> None:
        answer = client.report(a_report(requestId="req-1"))
        assert answer.status == 201
        assert set(answer.body) == {"authErrorId", "requestId", "status", "createdAt"}
        assert (answer.body["requestId"], answer.body["status"]) == ("req-1", "NEW")
        found = answer.body["authErrorId"]
        assert answer.headers["Location"] == f"auth-errors/{found}"
        [(payload, key)] = client.sql("SELECT payload, idempotency_key FROM outbox_message")
        assert key == f"auth_error:recorded:{found}"
        assert (payload["authErrorId"], payload["requestId"]) == (found, "req-1")
        assert [message["Body"] for message in queues.waiting(queues.wake)] == ["wake"]

    @pytest.mark.parametrize("field", ["requestId", "occurredAt", "httpStatus", "exceptionClass", "stacktrace"])
    @pytest.mark.parametrize("value", [..., None, []])
    def test_missing_required_field_is_422(self, refusing: AuthErrorsApi, field: str, value: object) -> None:
        answer = refusing.report(a_report(**{field: value}))
        assert (answer.status, answer.body["reason_code"]) == (422, "VALIDATION_FAILED")
        assert [fault["pointer"] for fault in answer.body["errors"]] == [f"/{field}"]

    @pytest.mark.parametrize(
        ("changes", "pointer"),
        [
            ({"occurredAt": "2026-02-13T09:30:00"}, "/occurredAt"),  # naive
            ({"occurredAt": "2026-02-13"}, "/occurredAt"),
            ({"occurredAt": "2026-02-13 09:30:00+09:00"}, "/occurredAt"),
            ({"occurredAt": "2026-02-30T09:30:00Z"}, "/occurredAt"),
            ({"occurredAt": "2026-02-13T24:30:00Z"}, "/occurredAt"),
            ({"occurredAt": "2026-02-13T09:30:00+25:00"}, "/occurredAt"),
            ({"occurredAt": "2026-02-13T09:30:00+0900"}, "/occurredAt"),
            ({"occurredAt": "1999-12-31T23:59:59Z"}, "/occurredAt"),
            ({"occurredAt": "0001-01-01T00:00:00+14:00"}, "/occurredAt"),
            ({"occurredAt": "9999-12-31T23:59:59-14:00"}, "/occurredAt"),
            ({"occurredAt": "\u0662\u0660\u0662\u0666-02-13T09:30:00Z"}, "/occurredAt"),
            ({"occurredAt": 1_770_000_000}, "/occurredAt"),
            ({"httpStatus": "401"}, "/httpStatus"),
            ({"httpStatus": 99}, "/httpStatus"),
            ({"httpStatus": 600}, "/httpStatus"),
            ({"httpStatus": True}, "/httpStatus"),
            ({"httpStatus": 401.5}, "/httpStatus"),
            ({"requestId": "  "}, "/requestId"),
            ({"requestId": "x" * 201}, "/requestId"),
            ({"requestId": "a\nb"}, "/requestId"),
            ({"requestId": 7}, "/requestId"),
            ({"exceptionClass": "x" * 301}, "/exceptionClass"),
            ({"exceptionClass": " "}, "/exceptionClass"),
            ({"stacktrace": ""}, "/stacktrace"),
            ({"stacktrace": " \r\n\t "}, "/stacktrace"),
            ({"stacktrace": ["a"]}, "/stacktrace"),
            ({"exceptionMessage": 7}, "/exceptionMessage"),
            ({"service": "a b"}, "/service"),
            ({"service": "x" * 65}, "/service"),
            ({"httpMethod": "get"}, "/httpMethod"),
            ({"requestPath": {}}, "/requestPath"),
            ({"request_id": "x"}, "/request_id"),
            ({"reportedBy": "another"}, "/reportedBy"),
            ({"status": "RESOLVED"}, "/status"),
        ],
    )
    def test_what_does_not_fit_is_422_at_its_place(
        self, refusing: AuthErrorsApi, changes: dict[str, Any], pointer: str
    ) -> None:
        """Unknown fields too."""
        answer = refusing.report(a_report(**changes))
        assert (answer.status, answer.body["reason_code"]) == (422, "VALIDATION_FAILED"), answer.text
        assert [fault["pointer"] for fault in answer.body["errors"]] == [pointer]

    @pytest.mark.parametrize("escape", [r"\u0000", r"\ud800", r"\udfff\ud83d"])
    @pytest.mark.parametrize("field", ["stacktrace", "requestId", "exceptionMessage"])
    def test_unstorable_text_is_400_and_stores_nothing(self, refusing: AuthErrorsApi, field: str, escape: str) -> None:
        """NUL and lone surrogates (D12)."""
        raw = json.dumps(a_report(**{field: "MARK"})).replace("MARK", f"a{escape}b")
        answer = refusing.report(raw=raw)
        assert (answer.status, answer.body["reason_code"]) == (400, "MALFORMED_REQUEST")

    @pytest.mark.parametrize("raw", ["{", "NaN", b"\xff", '{"requestId": "a", "requestId": "b"}'])
    def test_invalid_json_is_400(self, refusing: AuthErrorsApi, raw: str | bytes) -> None:
        assert refusing.report(raw=raw).status == 400

    def test_other_media_type_is_415(self, refusing: AuthErrorsApi) -> None:
        headers = {"Content-Type": "text/plain"}
        answer = refusing.call(
            "POST", "/api/auth-errors", token=refusing.tenant, headers=headers, body=json.dumps(a_report())
        )
        assert answer.status == 415

    def test_rejections_do_not_repeat_the_input(self, refusing: AuthErrorsApi) -> None:
        answer = refusing.report(a_report(httpStatus="s3cret", stacktrace="", service="s3cret !"))
        assert answer.status == 422
        assert "s3cret" not in answer.text


class TestSanitization:
    """The stored text of a report (AUTH-1)."""

    @pytest.mark.parametrize(
        ("field", "bound"),
        [("exceptionMessage", 1_000), ("rootCauseMessage", 1_000), ("requestPath", 1_000), ("stacktrace", 8_000)],
    )
    @pytest.mark.parametrize(("last", "after"), [("z", "y"), (ASTRAL, "y"), ("z", ASTRAL), (ASTRAL, ASTRAL)])
    def test_text_is_cut_at_code_points(
        self, client: AuthErrorsApi, field: str, bound: int, last: str, after: str
    ) -> None:
        whole = "x" * (bound - 1) + last
        assert stored(client, field, **{field: whole}) == whole
        assert stored(client, field, **{field: whole + after}) == whole

    def test_line_ends_are_normalised_and_text_is_trimmed(self, client: AuthErrorsApi) -> None:
        text = "\r\n  a\r\nb\rc\n\n\td \r\n"
        assert stored(client, "stacktrace", stacktrace=text) == "a\nb\nc\n\n\td"
        assert stored(client, "exceptionMessage", exceptionMessage=text) == "a\nb\nc\n\n\td"

    def test_line_ends_are_normalised_before_the_cut(self, client: AuthErrorsApi) -> None:
        """AUTH-1: a CRLF is one of the 8,000 characters."""
        found = stored(client, "stacktrace", stacktrace="x\r\n" * 5_000)
        assert found == ("x\n" * 4_000).rstrip()

    def test_text_is_trimmed_again_after_the_cut(self, client: AuthErrorsApi) -> None:
        assert stored(client, "exceptionMessage", exceptionMessage="x" + " " * 2_000 + "y") == "x"

    @pytest.mark.parametrize("empty", ["", "   ", "\r\n\t", None])
    @pytest.mark.parametrize("field", ["exceptionMessage", "rootCauseMessage", "requestPath"])
    def test_empty_text_is_absent(self, client: AuthErrorsApi, field: str, empty: str | None) -> None:
        found = client.reported(**{field: empty})
        assert field not in client.ask(f"/{found}").body

    @pytest.mark.parametrize(
        "path", ["/login?code=s3cret", "/login#s3cret", "/login?a=1#s3cret?x", " /login?s3cret ", "/login"]
    )
    def test_path_is_stored_without_query(self, client: AuthErrorsApi, path: str) -> None:
        found = client.reported(requestPath=path)
        assert client.ask(f"/{found}").body["requestPath"] == "/login"
        [(row,)] = client.sql("SELECT auth_error::text FROM auth_error")
        assert "s3cret" not in row

    def test_path_with_only_a_query_is_absent(self, client: AuthErrorsApi) -> None:
        assert stored(client, "requestPath", requestPath="?code=1") is None

    def test_stack_trace_of_two_megabytes_is_cut(self, client: AuthErrorsApi) -> None:
        found = stored(client, "stacktrace", stacktrace="x" * 2 * 2**20)
        assert found == "x" * 8_000

    def test_body_above_four_mebibytes_is_413(self, client: AuthErrorsApi) -> None:
        room = 4 * 2**20 - len(json.dumps(a_report(requestId="r", stacktrace="")))
        assert client.report(a_report(requestId="r", stacktrace="x" * room)).status == 201
        answer = client.report(a_report(requestId="s", stacktrace="x" * (room + 1)))
        assert (answer.status, answer.body["reason_code"]) == (413, "PAYLOAD_TOO_LARGE")
        assert client.sql("SELECT dedup_key FROM auth_error") == [("r",)]

    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            ("2026-02-13T09:30:00+09:00", "2026-02-13T00:30:00Z"),
            ("2026-02-13T09:30+09:00", "2026-02-13T00:30:00Z"),
            ("2026-02-12t19:30:00.5-05:00", "2026-02-13T00:30:00.500000Z"),
            ("2026-02-13T00:30:00.123456789z", "2026-02-13T00:30:00.123456Z"),
            ("2026-02-29T00:00:00Z", None),
            ("2028-02-29T23:59:59Z", "2028-02-29T23:59:59Z"),
        ],
    )
    def test_times_are_stored_as_instants(self, client: AuthErrorsApi, written: str, expected: str | None) -> None:
        answer = client.report(a_report(occurredAt=written))
        if expected is None:
            assert answer.status == 422
            return
        assert client.ask(f"/{answer.body['authErrorId']}").body["occurredAt"] == expected


class TestDuplicates:
    """One error per reporter and requestId (AUTH-1)."""

    def test_repeated_report_returns_the_first_result(self, client: AuthErrorsApi, queues: Queues) -> None:
        body = a_report()
        first = client.report(body)
        again = client.report(body)
        assert (first.status, again.status) == (201, 200)
        assert first.body == again.body
        assert first.headers["Location"] == again.headers["Location"]
        assert client.sql("SELECT count(*) FROM outbox_message") == [(1,)]
        assert len(queues.waiting(queues.wake)) == 1

    def test_repeated_report_returns_the_current_status(self, client: AuthErrorsApi, machinery: Machinery) -> None:
        body = a_report()
        client.report(body)
        machinery.run()
        assert client.report(body).body["status"] == "ANALYSIS_COMPLETED"

    @pytest.mark.parametrize(
        "changes",
        [
            {"occurredAt": "2026-02-13T00:30:00Z"},
            {"occurredAt": "2026-02-12T19:30:00.000-05:00"},
            {"stacktrace": f"  {TRACE}\r\n".replace("\n\t", "\r\n\t")},
            {"exceptionMessage": " "},
            {"rootCauseClass": None},
            {"exceptionClass": " java.lang.IllegalStateException "},
        ],
    )
    def test_reports_with_equal_stored_values_are_the_same(
        self, client: AuthErrorsApi, changes: dict[str, Any]
    ) -> None:
        """The same instant with another offset, other line ends, an empty message."""
        body = a_report()
        first = client.report(body)
        again = client.report(body | changes)
        assert (again.status, again.body) == (200, first.body)

    def test_cut_text_does_not_make_a_different_report(self, client: AuthErrorsApi) -> None:
        body = a_report(stacktrace="x" * 8_000)
        client.report(body)
        assert client.report(body | {"stacktrace": "x" * 9_000}).status == 200

    @pytest.mark.parametrize(
        "changes",
        [
            {"stacktrace": "another"},
            {"httpStatus": 403},
            {"occurredAt": "2026-02-13T09:30:00.000001+09:00"},
            {"service": "web"},
            {"requestPath": "/login"},
            {"exceptionMessage": "no"},
        ],
    )
    def test_different_report_with_the_same_id_is_409_and_changes_nothing(
        self, client: AuthErrorsApi, changes: dict[str, Any]
    ) -> None:
        body = a_report()
        client.report(body)
        every = "SELECT a::text, (SELECT count(*) FROM outbox_message) FROM auth_error a"
        before = client.sql(every)
        answer = client.report(body | changes)
        assert (answer.status, answer.body["reason_code"]) == (409, "AUTH_ERROR_CONFLICT")
        assert client.sql(every) == before

    def test_same_id_of_another_tenant_is_a_different_error(self, client: AuthErrorsApi) -> None:
        body = a_report()
        first = client.report(body)
        other = client.report(body | {"stacktrace": "another"}, token=client.key_of("t_other"))
        assert (first.status, other.status) == (201, 201)
        assert first.body["authErrorId"] != other.body["authErrorId"]


class TestWakeQueue:
    """The publisher is woken; a failed wake delays an event by a minute at most (AUTH-2)."""

    def test_report_succeeds_if_the_wake_fails(
        self, database_url: str, aws: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        nowhere = "https://sqs.us-east-1.amazonaws.com/123456789012/gone"
        environ = {"DATABASE_URL": database_url, "DPP_AUTH_ERROR_WAKE_QUEUE_URL": nowhere}
        with (
            closing(Database(database_url)) as database,
            closing(AuthErrorsApi(database, environ, monkeypatch)) as client,
        ):
            assert client.report().status == 201
            assert database.using(tables.lag).unpublished == 1
        assert "publisher not woken" in caplog.text


def test_logs_hold_nothing_of_a_report(
    client: AuthErrorsApi, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """RUN-31: no trace, message, path or key, also of rejected reports."""
    caplog.set_level("DEBUG", "dpp")
    words = {name: f"{name}-s3cret" for name in ("exceptionMessage", "rootCauseMessage", "stacktrace", "requestPath")}
    body = a_report(**words)
    client.report(body)
    client.report(body)
    client.report(body | {"httpStatus": 500})
    client.report(body | {"httpStatus": "s3cret"})
    client.report(raw=json.dumps(body) + "s3cret")
    seen = capfd.readouterr()
    logged = seen.out + seen.err + caplog.text + str([record.__dict__ for record in caplog.records])
    assert "authentication error recorded" in logged
    assert "s3cret" not in logged
    assert client.tenant.split("_")[2] not in logged
