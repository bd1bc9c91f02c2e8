"""The operators' API (TIX-5): routes, rejections and authentication."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from dpp.money.credits import create_tenant
from dpp.platform.keys import api_keys, operator_keys
from dpp.tickets import stop
from tests.support.operator_api import OperatorApi
from tests.tickets.environment import A_DAY, Environment

AN_ID = "fd4888b3-0000-4000-8000-00000000beef"
ROUTES = [
    ("POST", "/api/tickets"),
    ("GET", "/api/tickets"),
    ("GET", "/api/tickets/counters"),
    ("GET", "/api/tickets/reaper/latest"),
    ("GET", "/api/tickets/reaper/snapshots/reaper_20260123_210000.json"),
    ("POST", "/api/tickets/reaper/run"),
    ("GET", f"/api/tickets/{AN_ID}"),
    ("GET", "/api/ops/emergency-stop"),
    ("PUT", "/api/ops/emergency-stop"),
    ("GET", "/api/ops/cycle/latest"),
]


@pytest.fixture
def client(env: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorApi]:
    with closing(OperatorApi(env.database, env.environ(), monkeypatch)) as made:
        yield made


@pytest.fixture
def refusing(shared_env: Environment, monkeypatch: pytest.MonkeyPatch) -> Iterator[OperatorApi]:
    """A client for rejected requests on one shared database: no test writes anything."""
    with closing(OperatorApi(shared_env.database, shared_env.environ(), monkeypatch)) as made:
        yield made


def a_credit(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "request_id": str(uuid4()),
        "request_type": "BUDGET_CREDIT",
        "params": {"tenant_id": "t_acme", "amount_usd": "5.0000"},
        "reason": "a month's budget",
    }
    return body | changes


class TestAuthentication:
    """Only operators' keys are accepted."""

    @pytest.mark.parametrize(("method", "path"), ROUTES)
    def test_other_keys_get_the_same_401_on_every_route(
        self, refusing: OperatorApi, shared_env: Environment, method: str, path: str
    ) -> None:
        """A tenant's valid key is not accepted either."""
        with shared_env.database.connection() as connection:
            create_tenant(connection, "t_acme", "Acme")
            tenants = api_keys.mint()
            api_keys.store(connection, tenants, "t_acme")
            revoked = operator_keys.mint()
            operator_keys.store(connection, revoked, "lee")
            operator_keys.revoke(connection, revoked.key_id)
        unknown = operator_keys.mint().token
        seen = set()
        for token in (tenants.token, unknown, revoked.token, refusing.token[:-1], refusing.token.upper(), "x"):
            answer = refusing.send(method, path, {}, token=token)
            body = answer.body | {"trace_id": ""}
            seen.add((answer.status, json.dumps(body)))
        (only,) = seen
        assert only[0] == 401

    def test_operator_key_is_rejected_by_tenant_routes(self, client: OperatorApi, env: Environment) -> None:
        assert env.using(api_keys.verify, client.token) is None

    def test_stored_rows_name_the_operator(self, client: OperatorApi) -> None:
        filed = client.send("POST", "/api/tickets", a_credit()).body
        assert filed["requested_by"] == "kim"


class TestFiling:
    """POST and GET /api/tickets."""

    def test_repeated_ticket_is_created_once(self, client: OperatorApi) -> None:
        body = a_credit()
        first = client.send("POST", "/api/tickets", body)
        again = client.send("POST", "/api/tickets", body)
        assert (first.status, again.status) == (201, 200)
        assert first.body == again.body
        assert first.headers["Location"] == f"tickets/{body['request_id']}"
        read = client.send("GET", f"/api/tickets/{body['request_id']}").body
        assert read | first.body == read
        assert [one["to_status"] for one in read["transitions"]] == ["OPEN"]
        assert "result" not in read

    def test_different_request_with_the_same_id_is_409(self, client: OperatorApi) -> None:
        body = a_credit()
        client.send("POST", "/api/tickets", body)
        answer = client.send("POST", "/api/tickets", body | {"reason": "another"})
        assert (answer.status, answer.body["reason_code"]) == (409, "TICKET_CONFLICT")

    @pytest.mark.parametrize(
        "body",
        [
            a_credit(params={"tenant_id": "t_acme", "amount_usd": "0.0001"}),
            {**a_credit(), "request_type": "EXECUTION_DISABLE", "params": {"pack_type": "ocr"}},
            {**a_credit(), "request_type": "EXECUTION_ENABLE", "params": {}},
            {**a_credit(), "request_type": "DLQ_REDRIVE", "params": {"run_ids": [str(uuid4())], "limit": 7}},
            {k: v for k, v in a_credit(request_type="DLQ_REDRIVE").items() if k != "params"},
        ],
    )
    def test_each_type_accepts_its_params(self, client: OperatorApi, body: dict[str, Any]) -> None:
        answer = client.send("POST", "/api/tickets", body)
        assert answer.status == 201
        assert client.send("POST", "/api/tickets", body).status == 200

    @pytest.mark.parametrize(
        ("changes", "pointer"),
        [
            ({"request_id": "fd4888b3"}, "/request_id"),
            ({"request_id": "{fd4888b3-0000-4000-8000-000000000000}"}, "/request_id"),
            ({"request_id": 7}, "/request_id"),
            ({"request_id": None}, "/request_id"),
            ({"request_type": "ORDER_PIZZA"}, "/request_type"),
            ({"reason": ""}, "/reason"),
            ({"reason": "   "}, "/reason"),
            ({"reason": "x" * 501}, "/reason"),
            ({"reason": 7}, "/reason"),
            ({"params": []}, "/params"),
            ({"params": {"tenant_id": "t_acme"}}, "/params/amount_usd"),
            ({"params": {"tenant_id": "t acme", "amount_usd": "1"}}, "/params/tenant_id"),
            ({"params": {"tenant_id": "t_acme", "amount_usd": 5.0}}, "/params/amount_usd"),
            ({"params": {"tenant_id": "t_acme", "amount_usd": "5.00001"}}, "/params/amount_usd"),
            ({"params": {"tenant_id": "t_acme", "amount_usd": "0"}}, "/params/amount_usd"),
            ({"params": {"tenant_id": "t_acme", "amount_usd": "-1"}}, "/params/amount_usd"),
            ({"params": {"tenant_id": "t_acme", "amount_usd": "NaN"}}, "/params/amount_usd"),
            ({"params": {"tenant_id": "t_acme", "amount_usd": "1", "more": 1}}, "/params/more"),
            ({"request_type": "EXECUTION_DISABLE", "params": {"pack_type": "pdf"}}, "/params/pack_type"),
            ({"request_type": "DLQ_REDRIVE", "params": {"limit": 0}}, "/params/limit"),
            ({"request_type": "DLQ_REDRIVE", "params": {"limit": "7"}}, "/params/limit"),
            ({"request_type": "DLQ_REDRIVE", "params": {"run_ids": []}}, "/params/run_ids"),
            ({"request_type": "DLQ_REDRIVE", "params": {"run_ids": ["x"]}}, "/params/run_ids/0"),
            ({"requested_by": "lee"}, "/requested_by"),
        ],
    )
    def test_invalid_field_is_422_with_its_pointer(
        self, refusing: OperatorApi, changes: dict[str, Any], pointer: str
    ) -> None:
        answer = refusing.send("POST", "/api/tickets", a_credit(**changes))
        assert (answer.status, answer.body["reason_code"]) == (422, "VALIDATION_FAILED")
        assert [fault["pointer"] for fault in answer.body["errors"]] == [pointer]

    @pytest.mark.parametrize(
        "raw", ["", "{", "[]", '{"a": NaN}', '"\\u0000"', b"\xff", '{"reason": "a", "reason": "b"}']
    )
    def test_body_must_be_a_json_object(self, refusing: OperatorApi, raw: str | bytes) -> None:
        assert refusing.send("POST", "/api/tickets", raw=raw or " ").status in (400, 422)

    @pytest.mark.parametrize("request_id", ["x", "%00", "../latest", "0" * 1_000, AN_ID])
    def test_unknown_and_invalid_ids_are_404(self, refusing: OperatorApi, request_id: str) -> None:
        assert refusing.send("GET", f"/api/tickets/{request_id}").status == 404

    def test_pages_continue_by_cursor(self, client: OperatorApi) -> None:
        filed = [client.send("POST", "/api/tickets", a_credit()).body["request_id"] for _ in range(5)]
        shown: list[str] = []
        query: dict[str, str | list[str]] = {"limit": "2", "status": "OPEN", "request_type": "BUDGET_CREDIT"}
        while True:
            page = client.send("GET", "/api/tickets", query=query).body
            shown += [ticket["request_id"] for ticket in page["tickets"]]
            if "next_cursor" not in page:
                break
            query["cursor"] = page["next_cursor"]
        assert shown == filed[::-1]

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            ({"limit": "0"}, 422),
            ({"limit": "101"}, 422),
            ({"limit": "x"}, 422),
            ({"limit": "5.0"}, 422),
            ({"limit": "1_0"}, 422),
            ({"limit": " 5 "}, 422),
            ({"limit": "NaN"}, 422),
            ({"status": "CLOSED"}, 422),
            ({"request_type": "ORDER_PIZZA"}, 422),
            ({"cursor": "-1"}, 422),
            ({"cursor": "9" * 30}, 422),
            ({"cursor": "\u0660"}, 422),
            ({"color": "red"}, 422),
            ({"status": ["OPEN", "DONE"]}, 400),
        ],
    )
    def test_invalid_query_is_rejected(
        self, refusing: OperatorApi, query: dict[str, str | list[str]], status: int
    ) -> None:
        assert refusing.send("GET", "/api/tickets", query=query).status == status


class TestReaper:
    """GET …/reaper/latest and POST …/reaper/run (000 §5)."""

    def test_there_is_no_report_before_the_first_run(self, client: OperatorApi) -> None:
        answer = client.send("GET", "/api/tickets/reaper/latest")
        assert (answer.status, answer.body["reason_code"]) == (404, "NO_REPORT_YET")

    @pytest.mark.parametrize("raw", [None, "{}"])
    def test_run_without_a_body_uses_the_deployments_rules(
        self, client: OperatorApi, env: Environment, raw: str | None
    ) -> None:
        env.stale()
        answer = client.send("POST", "/api/tickets/reaper/run", raw=raw)
        assert answer.status == 200
        assert next(iter(answer.body)) == "schema"  # with the field names of the contract
        assert (answer.body["threshold_seconds"], answer.body["cleaned_count"]) == (A_DAY, 1)
        (evidence,) = answer.body["evidence_refs"]
        assert answer.headers["Location"] == f"snapshots/{evidence.rpartition('/')[2]}"
        assert answer.headers["X-DPP-Reaper-Breaker"] == "CLOSED"
        latest = client.send("GET", "/api/tickets/reaper/latest")
        assert latest.body == answer.body
        snapshot = client.send("GET", f"/api/tickets/reaper/{answer.headers['Location']}")
        assert (snapshot.status, snapshot.body) == (200, answer.body)

    def test_run_names_its_operator(self, client: OperatorApi, env: Environment) -> None:
        client.send("POST", "/api/tickets/reaper/run")
        assert env.rows("SELECT actor FROM ticket_reaper_reports") == [("kim",)]

    def test_run_with_threshold_and_limit(self, client: OperatorApi, env: Environment) -> None:
        for _ in range(2):
            env.stale(hours=1)
        answer = client.send("POST", "/api/tickets/reaper/run", {"threshold_seconds": 1_800, "max_clean": 1})
        assert (answer.body["threshold_seconds"], answer.body["stale_count"]) == (1_800, 2)
        assert answer.body["cleaned_count"] == 1

    @pytest.mark.parametrize("field", ["threshold_seconds", "max_clean"])
    @pytest.mark.parametrize("value", ["0", "-1", "1000000000", '"300"', "300.5", "true", "null", "[]"])
    def test_values_out_of_range_are_422_with_their_pointer(
        self, refusing: OperatorApi, field: str, value: str
    ) -> None:
        answer = refusing.send("POST", "/api/tickets/reaper/run", raw=f'{{"{field}": {value}}}')
        if value == "null":
            assert answer.status == 200  # as if omitted
            return
        assert answer.status == 422
        (fault,) = answer.body["errors"]
        assert fault["pointer"] == f"/{field}"
        assert answer.body["detail"]

    @pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "9" * 40])
    def test_invalid_json_numbers_are_400(self, refusing: OperatorApi, value: str) -> None:
        answer = refusing.send("POST", "/api/tickets/reaper/run", raw=f'{{"threshold_seconds": {value}}}')
        assert (answer.status, answer.body["reason_code"]) == (400, "MALFORMED_REQUEST")

    def test_dry_run_has_no_location(self, client: OperatorApi, env: Environment) -> None:
        env.stale()
        answer = client.send("POST", "/api/tickets/reaper/run", {"dry_run": True})
        assert (answer.status, answer.body["stale_count"], answer.body["cleaned_count"]) == (200, 1, 0)
        assert "Location" not in answer.headers
        assert client.send("GET", "/api/tickets/reaper/latest").status == 404

    def test_concurrent_run_is_409_with_the_start_time(self, client: OperatorApi, env: Environment) -> None:
        env.rows(
            "INSERT INTO exclusive_leases VALUES ('TICKET_REAPER', gen_random_uuid(), 'lee',"
            " '2036-01-01T00:00:00Z', '2037-01-01T00:00:00Z') RETURNING 1"
        )
        answer = client.send("POST", "/api/tickets/reaper/run")
        assert (answer.status, answer.body["reason_code"]) == (409, "REAPER_RUNNING")
        assert answer.body["started_at"].startswith("2036-01-01T00:00:00")
        assert answer.body["actor"] == "lee"
        assert answer.headers["Retry-After"] == "10"

    def test_breaker_is_reported_and_confirmed(self, env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
        environ = env.environ() | {"DPP_TICKET_REAPER_BREAKER_COUNT": "1"}
        with closing(OperatorApi(env.database, environ, monkeypatch)) as client:
            for _ in range(2):
                env.stale()
            answer = client.send("POST", "/api/tickets/reaper/run")
            assert (answer.status, answer.body["decision"]) == (200, "NONE")
            assert answer.headers["X-DPP-Reaper-Breaker"] == "TRIPPED"
            answer = client.send("POST", "/api/tickets/reaper/run", {"confirm_stale_count": 2})
            assert answer.body["cleaned_count"] == 2

    @pytest.mark.parametrize("name", ["x", "..%2f..%2fetc", "reaper_20260123_210000.json", "a" * 300])
    def test_unknown_snapshot_is_404(self, refusing: OperatorApi, name: str) -> None:
        answer = refusing.send("GET", f"/api/tickets/reaper/snapshots/{name}")
        assert (answer.status, answer.body["reason_code"]) == (404, "SNAPSHOT_NOT_FOUND")


class TestOpsCycle:
    """The emergency stop, the counters and the receipt."""

    def test_stop_is_set_and_cleared_with_a_reason(self, client: OperatorApi, env: Environment) -> None:
        assert client.send("GET", "/api/ops/emergency-stop").body["stopped"] is False
        answer = client.send("PUT", "/api/ops/emergency-stop", {"stopped": True, "reason": "a bad release"})
        assert (answer.status, answer.body["stopped"], answer.body["actor"]) == (200, True, "kim")
        refused = client.send("POST", "/api/tickets/reaper/run")
        assert (refused.status, refused.body["reason_code"]) == (409, "EMERGENCY_STOP_SET")
        assert client.send("POST", "/api/tickets", a_credit()).status == 201  # reading is no change
        client.send("PUT", "/api/ops/emergency-stop", {"stopped": False, "reason": "taken back"})
        assert [one.stopped for one in env.using(stop.changes, 5)] == [False, True]

    @pytest.mark.parametrize("body", [{}, {"stopped": True}, {"stopped": "yes", "reason": "x"}, {"reason": "x"}])
    def test_stop_without_a_reason_is_422(self, refusing: OperatorApi, body: object) -> None:
        assert refusing.send("PUT", "/api/ops/emergency-stop", body).status == 422

    def test_counters(self, client: OperatorApi, env: Environment) -> None:
        env.stale()
        client.send("POST", "/api/tickets", a_credit())
        body = client.send("GET", "/api/tickets/counters").body
        assert body["total"]["stale"]["count"] == 1
        assert body["total"]["open"]["count"] == 1
        assert body["by_type"]["BUDGET_CREDIT"]["open"]["count"] == 1
        assert body["asof"].endswith("+09:00")

    def test_newest_receipt(self, client: OperatorApi, env: Environment) -> None:
        answer = client.send("GET", "/api/ops/cycle/latest")
        assert (answer.status, answer.body["reason_code"]) == (404, "NO_RECEIPT_YET")
        env.cycle()
        body = client.send("GET", "/api/ops/cycle/latest").body
        assert (body["outcome"], body["ticket_reaper"]["decision"]) == ("COMPLETED", "NONE")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/api/tickets", "POST, GET"),
        ("PUT", f"/api/tickets/{AN_ID}", "GET"),
        ("POST", "/api/ops/cycle/latest", "GET"),
        ("GET", "/api/tickets/reaper/run", "POST"),
    ],
)
def test_unsupported_method_is_405(refusing: OperatorApi, method: str, path: str, allow: str) -> None:
    answer = refusing.send(method, path)
    assert (answer.status, answer.headers["Allow"]) == (405, allow)


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/tickets/reaper", "/api/tickets/a/b", "/api/ops"])
def test_unknown_path_is_404(refusing: OperatorApi, path: str) -> None:
    assert refusing.send("GET", path).status == 404


def test_no_cost_headers_where_nothing_costs(refusing: OperatorApi) -> None:
    assert not [name for name in refusing.send("GET", "/api/tickets").headers if name.startswith("X-DPP-Cost")]
