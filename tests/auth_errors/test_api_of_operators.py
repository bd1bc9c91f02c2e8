"""The API of authentication errors for operators (AUTH-11): pages, details, clusters, decisions."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from dpp.auth_errors.decisions.decide import decide_cluster
from tests.auth_errors.api import AuthErrorsApi, Machinery, a_report
from tests.auth_errors.test_api import AN_ID, client, machinery, queues, refusing

__all__ = ["client", "machinery", "queues", "refusing"]  # fixtures of the same API

NOON = datetime(2026, 2, 13, 12, tzinfo=UTC)
EVERY_DECISION = ["PROCESS", "RESOLVE", "IGNORE", "FAIL", "ESCALATE"]


def a_decision(**changes: Any) -> dict[str, Any]:
    body = {"decisionId": str(uuid4()), "decisionType": "RESOLVE", "reason": "the key was renewed"}
    return body | changes


def ids(body: dict[str, Any]) -> list[str]:
    return [one["authErrorId"] for one in body["authErrors"]]


def all_pages(client: AuthErrorsApi, limit: int, **query: str) -> list[str]:
    """The ids of all pages, by cursor."""
    found: list[str] = []
    while True:
        body = client.ask(limit=str(limit), **query).body
        assert len(body["authErrors"]) <= limit
        found += ids(body)
        if "nextCursor" not in body:
            return found
        query["cursor"] = body["nextCursor"]


class TestPages:
    """GET /api/auth-errors."""

    def test_pages_continue_over_equal_times(self, client: AuthErrorsApi) -> None:
        """The newest occurrence first; at the same instant, the one that was recorded last."""
        same = [client.reported(occurredAt=NOON.isoformat()) for _ in range(5)]
        early = client.reported(occurredAt=(NOON - timedelta(seconds=1)).isoformat())
        late = client.reported(occurredAt=(NOON + timedelta(microseconds=1)).isoformat())
        expected = [late, *reversed(same), early]
        for limit in (1, 2, 3, 7, 100):
            assert all_pages(client, limit) == expected

    def test_full_last_page_has_no_cursor(self, client: AuthErrorsApi) -> None:
        for _ in range(2):
            client.reported()
        assert "nextCursor" not in client.ask(limit="2").body

    def test_empty_list_is_returned(self, client: AuthErrorsApi) -> None:
        assert client.ask().body == {"authErrors": []}

    def test_filter_by_status_and_class(self, client: AuthErrorsApi, machinery: Machinery) -> None:
        analysed = client.reported(exceptionClass="a.B")
        machinery.run()
        new = client.reported(exceptionClass="a.B")
        other = client.reported(exceptionClass="a.C")
        assert ids(client.ask(status="ANALYSIS_COMPLETED").body) == [analysed]
        assert ids(client.ask(status="NEW").body) == [other, new]
        assert ids(client.ask(exceptionClass="a.B").body) == [new, analysed]
        assert ids(client.ask(exceptionClass="a.B", status="NEW").body) == [new]
        assert ids(client.ask(exceptionClass="a").body) == []

    def test_filter_by_cluster(self, client: AuthErrorsApi, machinery: Machinery) -> None:
        mine = [client.reported() for _ in range(3)]
        client.reported(exceptionClass="a.C")
        machinery.run()
        [cluster] = machinery.clusters_of(mine[0])
        assert all_pages(client, 2, clusterId=str(cluster)) == mine[::-1]
        assert ids(client.ask(clusterId=str(cluster), status="NEW").body) == []
        assert ids(client.ask(clusterId=AN_ID).body) == []

    def test_filter_by_time(self, client: AuthErrorsApi) -> None:
        """`occurredSince` is inclusive, `occurredBefore` is exclusive, and a cursor respects both."""
        found = [client.reported(occurredAt=(NOON + timedelta(hours=n)).isoformat()) for n in range(5)]
        at = [(NOON + timedelta(hours=n)).isoformat() for n in range(5)]
        assert ids(client.ask(occurredSince=at[3]).body) == [found[4], found[3]]
        assert ids(client.ask(occurredBefore=at[1]).body) == [found[0]]
        assert all_pages(client, 1, occurredSince=at[1], occurredBefore=at[4]) == found[3:0:-1]
        assert ids(client.ask(occurredSince=at[3], occurredBefore=at[3]).body) == []

    @pytest.mark.parametrize(
        ("query", "status"),
        [
            ({"limit": "0"}, 422),
            ({"limit": "101"}, 422),
            ({"limit": "x"}, 422),
            ({"limit": "5.0"}, 422),
            ({"limit": "1_0"}, 422),
            ({"limit": " 5 "}, 422),
            ({"limit": "\u0665"}, 422),
            ({"status": "CLOSED"}, 422),
            ({"status": "new"}, 422),
            ({"exceptionClass": ""}, 422),
            ({"exceptionClass": "a\x00"}, 422),
            ({"clusterId": "x"}, 422),
            ({"clusterId": f"{{{AN_ID}}}"}, 422),
            ({"occurredSince": "2026-02-13T09:30:00"}, 422),
            ({"occurredBefore": "yesterday"}, 422),
            ({"cursor": "1"}, 422),
            ({"cursor": "1_-1"}, 422),
            ({"cursor": "\u0661_1"}, 422),
            ({"cursor": f"{'9' * 18}_1"}, 422),
            ({"cursor": f"1_{'9' * 19}"}, 422),
            ({"color": "red"}, 422),
            ({"exception_class": "x"}, 422),
            ({"status": ["NEW", "RETRY"]}, 400),
        ],
    )
    def test_invalid_query_is_rejected(
        self, refusing: AuthErrorsApi, query: dict[str, str | list[str]], status: int
    ) -> None:
        assert refusing.ask(**query).status == status  # type: ignore[arg-type]

    @pytest.mark.parametrize("cursor", [f"{'9' * 17}_1", f"1_{'9' * 18}", "0_0", "00_00"])
    def test_forged_cursor_is_no_server_error(self, refusing: AuthErrorsApi, cursor: str) -> None:
        assert refusing.ask(cursor=cursor).status in {200, 422}


class TestDetails:
    """GET /api/auth-errors/{authErrorId}."""

    @pytest.mark.parametrize("path", ["", "/decisions"])
    @pytest.mark.parametrize("place", ["", "/clusters"])
    def test_unknown_and_invalid_ids_get_the_same_404(self, refusing: AuthErrorsApi, place: str, path: str) -> None:
        seen = set()
        for named in (AN_ID, "x", "%00", "0" * 1_000, AN_ID.replace("-", ""), f"{{{AN_ID}}}"):
            body = a_decision() if not place else {"decisionType": "IGNORE", "reason": "x"}
            where = f"{place}/{named}"
            answer = refusing.decide(where, body) if path else refusing.ask(where)
            seen.add((answer.status, answer.body["reason_code"], answer.body["detail"]))
        code = "CLUSTER_NOT_FOUND" if place else "AUTH_ERROR_NOT_FOUND"
        assert [(status, reason) for status, reason, _ in seen] == [(404, code)]

    def test_details_have_everything(self, client: AuthErrorsApi, machinery: Machinery) -> None:
        """Clusters, decisions, history, and events with their processed messages."""
        sent = a_report(
            exceptionMessage="no session",
            rootCauseClass="a.Root",
            rootCauseMessage="gone",
            service="web-1",
            httpMethod="POST",
            requestPath="/login",
        )
        found = client.report(sent).body["authErrorId"]
        before = client.ask(f"/{found}").body
        assert [(one["status"], one["eventType"]) for one in before["events"]] == [
            ("PENDING", "auth.error.recorded.v1")
        ]
        assert "processedStatus" not in before["events"][0]
        machinery.run()
        client.decide(f"/{found}", a_decision())
        whole = client.ask(f"/{found}").body
        of_report = {name: whole[name] for name in sent if name != "occurredAt"}
        assert of_report == {name: value for name, value in sent.items() if name != "occurredAt"}
        assert whole["status"] == "RESOLVED"
        assert [(one.get("fromStatus"), one["toStatus"], one["actor"]) for one in whole["transitions"]] == [
            (None, "NEW", client.tenant_id),
            ("NEW", "ANALYSIS_REQUESTED", "PLATFORM/CONSUMER"),
            ("ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED", "PLATFORM/CONSUMER"),
            ("ANALYSIS_COMPLETED", "RESOLVED", "kim"),
        ]
        assert [
            (one["eventType"], one["status"], one["processedStatus"], one["attempts"]) for one in whole["events"]
        ] == [
            ("auth.error.recorded.v1", "PUBLISHED", "DONE", 1),
            ("auth.error.analysis.requested.v1", "PUBLISHED", "DONE", 1),
        ]
        [cluster], [decision] = whole["clusters"], whole["decisions"]
        assert (cluster["errorCount"], cluster["exceptionClass"]) == (1, sent["exceptionClass"])
        assert (decision["actor"], decision["decidedBy"]) == ("kim", "OPERATOR")
        assert client.ask(f"/clusters/{cluster['clusterId']}").body == cluster
        assert client.ask("/clusters").body == {"clusters": [cluster]}

    def test_clusters_are_sorted_by_their_last_error(self, client: AuthErrorsApi, machinery: Machinery) -> None:
        for name in ("a.A", "a.B", "a.A"):
            client.reported(exceptionClass=name)
        machinery.run()
        found = client.ask("/clusters").body["clusters"]
        assert [(one["exceptionClass"], one["errorCount"]) for one in found] == [("a.A", 2), ("a.B", 1)]
        assert len(client.ask("/clusters", limit="1").body["clusters"]) == 1
        assert client.ask("/clusters", limit="101").status == 422


class TestDecisions:
    """POST …/decisions (AUTH-11)."""

    def test_repeated_decision_is_made_once(self, client: AuthErrorsApi) -> None:
        found, body = client.reported(), a_decision()
        first = client.decide(f"/{found}", body)
        again = client.decide(f"/{found}", body)
        assert (first.status, again.status) == (201, 200)
        assert first.body == again.body
        assert (first.body["fromStatus"], first.body["toStatus"]) == ("NEW", "RESOLVED")
        assert first.body["inputs"] == {"status": "NEW", "retryCount": 0, "clusters": []}
        assert client.sql("SELECT count(*) FROM auth_error_decision") == [(1,)]

    @pytest.mark.parametrize("changes", [{"reason": "another"}, {"decisionType": "IGNORE"}])
    def test_different_decision_with_the_same_id_is_409(self, client: AuthErrorsApi, changes: dict[str, Any]) -> None:
        found, body = client.reported(), a_decision()
        client.decide(f"/{found}", body)
        answer = client.decide(f"/{found}", body | changes)
        assert (answer.status, answer.body["reason_code"]) == (409, "DECISION_CONFLICT")

    def test_decision_id_of_another_error_is_409(self, client: AuthErrorsApi) -> None:
        one, other, body = client.reported(), client.reported(), a_decision()
        client.decide(f"/{one}", body)
        answer = client.decide(f"/{other}", body)
        assert (answer.status, answer.body["reason_code"]) == (409, "DECISION_CONFLICT")
        assert client.ask(f"/{other}").body["status"] == "NEW"

    @pytest.mark.parametrize("decision", EVERY_DECISION)
    def test_terminal_error_rejects_decisions(self, client: AuthErrorsApi, decision: str) -> None:
        found = client.reported()
        client.decide(f"/{found}", a_decision(decisionType="IGNORE"))
        before = client.ask(f"/{found}").body
        answer = client.decide(f"/{found}", a_decision(decisionType=decision))
        assert (answer.status, answer.body["reason_code"]) == (409, "DECISION_REFUSED")
        assert (answer.body["status"], answer.body["current_status"]) == (409, "IGNORED")
        assert client.ask(f"/{found}").body == before

    @pytest.mark.parametrize("decision", ["PROCESS", "ESCALATE"])
    def test_process_and_escalate_need_an_analysis(
        self, client: AuthErrorsApi, machinery: Machinery, decision: str
    ) -> None:
        found = client.reported()
        assert client.decide(f"/{found}", a_decision(decisionType=decision)).status == 409
        machinery.run()
        answer = client.decide(f"/{found}", a_decision(decisionType=decision))
        assert answer.status == 201
        expected = {"PROCESS": "PROCESSED", "ESCALATE": "ANALYSIS_COMPLETED"}[decision]
        assert answer.body["toStatus"] == expected
        assert ("escalatedAt" in client.ask(f"/{found}").body) is (decision == "ESCALATE")

    def test_decision_ends_an_error_with_pending_events(self, client: AuthErrorsApi, machinery: Machinery) -> None:
        """AUTH-3: every handler skips a terminal error."""
        found = client.reported()
        client.decide(f"/{found}", a_decision())
        machinery.publish()
        assert machinery.consume() == ["SKIPPED"]
        assert client.ask(f"/{found}").body["status"] == "RESOLVED"

    @pytest.mark.parametrize(
        ("changes", "pointer"),
        [
            ({"decisionId": "x"}, "/decisionId"),
            ({"decisionId": None}, "/decisionId"),
            ({"decisionType": "DELETE"}, "/decisionType"),
            ({"reason": " "}, "/reason"),
            ({"reason": "x" * 501}, "/reason"),
            ({"actor": "lee"}, "/actor"),
        ],
    )
    def test_invalid_decision_is_422_with_its_pointer(
        self, refusing: AuthErrorsApi, changes: dict[str, Any], pointer: str
    ) -> None:
        answer = refusing.decide(f"/{AN_ID}", a_decision(**changes))
        assert [fault["pointer"] for fault in answer.body["errors"]] == [pointer]

    def test_cluster_decision_applies_where_it_is_allowed(self, client: AuthErrorsApi, machinery: Machinery) -> None:
        found = [client.reported() for _ in range(3)]
        other = client.reported(exceptionClass="a.C")
        machinery.run()
        client.decide(f"/{found[0]}", a_decision(decisionType="IGNORE"))
        [cluster] = machinery.clusters_of(found[0])
        body = {"decisionType": "PROCESS", "reason": "known"}
        answer = client.decide(f"/clusters/{cluster}", body)
        assert (answer.status, answer.body) == (200, {"decided": 2, "more": False})
        assert client.decide(f"/clusters/{cluster}", body).body == {"decided": 0, "more": False}
        stands = [client.ask(f"/{one}").body["status"] for one in (*found, other)]
        assert stands == ["IGNORED", "PROCESSED", "PROCESSED", "ANALYSIS_COMPLETED"]

    @pytest.mark.parametrize("decision", ["RESOLVE", "ESCALATE"])
    def test_large_cluster_is_decided_by_repeated_calls(
        self, client: AuthErrorsApi, machinery: Machinery, monkeypatch: pytest.MonkeyPatch, decision: str
    ) -> None:
        """Escalations end too, though they leave the status unchanged."""
        monkeypatch.setitem(decide_cluster.__kwdefaults__ or {}, "limit", 2)
        found = [client.reported() for _ in range(5)]
        machinery.run()
        [cluster] = machinery.clusters_of(found[0])
        body = {"decisionType": decision, "reason": "known"}
        answers = [client.decide(f"/clusters/{cluster}", body).body for _ in range(4)]
        assert answers == [
            {"decided": 2, "more": True},
            {"decided": 2, "more": True},
            {"decided": 1, "more": False},
            {"decided": 0, "more": False},
        ]

    def test_cluster_decision_rejects_a_decision_id(self, refusing: AuthErrorsApi) -> None:
        answer = refusing.decide(f"/clusters/{AN_ID}", a_decision())
        assert [fault["pointer"] for fault in answer.body["errors"]] == ["/decisionId"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "", "POST, GET"),
        ("PUT", f"/{AN_ID}", "GET"),
        ("GET", f"/{AN_ID}/decisions", "POST"),
        ("POST", "/clusters", "GET"),
        ("POST", f"/clusters/{AN_ID}", "GET"),
        ("GET", f"/clusters/{AN_ID}/decisions", "POST"),
    ],
)
def test_unsupported_method_is_405(refusing: AuthErrorsApi, method: str, path: str, allow: str) -> None:
    answer = refusing.call(method, f"/api/auth-errors{path}", token=refusing.operator)
    assert (answer.status, answer.headers["Allow"]) == (405, allow)


@pytest.mark.parametrize("path", [f"/{AN_ID}/x", f"/clusters/{AN_ID}/x/y", "s"])
def test_unknown_path_is_404(refusing: AuthErrorsApi, path: str) -> None:
    assert refusing.ask(path).status == 404


def test_responses_have_no_cost_headers(refusing: AuthErrorsApi) -> None:
    assert not [name for name in refusing.ask().headers if name.startswith("X-DPP-Cost")]
