"""Reading and listing of workspaces and their events."""

from typing import Any
from uuid import UUID

import pytest

from dpp.workspaces.api.owner import MAX_EVENTS
from dpp.workspaces.errors import OperationFailed, ProviderUnavailable
from tests.workspaces.api.client import WorkspacesApi, pointers, refused
from tests.workspaces.environment import Environment
from tests.workspaces.memory_provider import MemoryProvider


class TestListing:
    """GET /v1/workspaces."""

    def test_pages_list_all_workspaces_newest_first(self, client: WorkspacesApi) -> None:
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

    def test_full_last_page_has_no_cursor(self, client: WorkspacesApi) -> None:
        client.created()
        client.created()
        assert "next_cursor" not in client.pages(limit="2").body
        assert client.pages(cursor="0").body == {"workspaces": []}

    def test_listed_workspace_equals_the_read_one(self, client: WorkspacesApi) -> None:
        found = client.created(standby_ttl_seconds=60)
        assert client.pages().body == {"workspaces": [client.read(found).body]}

    def test_list_by_phase(self, client: WorkspacesApi, env: Environment) -> None:
        archived = str(env.create_in("ARCHIVED"))
        pending = client.created()
        for phase, found in (("ARCHIVED", [archived]), ("PENDING", [pending]), ("RUNNING", [])):
            listed = client.pages(phase=phase).body["workspaces"]
            assert [one["workspace_id"] for one in listed] == found

    def test_deleted_workspace_is_not_listed_but_readable(self, client: WorkspacesApi) -> None:
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
    def test_invalid_query_is_422(self, refusing: WorkspacesApi, query: dict[str, str], pointer: str) -> None:
        assert pointers(refusing.pages(**query)) == [pointer]

    def test_repeated_parameter_is_400(self, refusing: WorkspacesApi) -> None:
        refused(refusing.pages(limit=["1", "2"]), 400, "MALFORMED_REQUEST")


class TestReading:
    """GET /v1/workspaces/{workspace_id}."""

    def test_conditions_are_returned(self, client: WorkspacesApi, env: Environment) -> None:
        """WS-2, WS-3."""
        found = env.create_in("RUNNING")
        body = client.read(found).body
        assert (body["phase"], body["operation"]) == ("RUNNING", "NONE")
        names = ("infra.memory.container_ready", "storage.volume_ready", "storage.archive_ready", "policy.healthy")
        assert set(body["conditions"]) == set(names)
        for one in body["conditions"].values():
            assert set(one) == {"status", "reason", "message", "last_transition_time"}
            assert one["status"] is True
        assert body["observed_at"] > body["created_at"]
        assert "as desired" in body["next_step"]
        assert "error" not in body

    def test_error_is_returned(self, client: WorkspacesApi, env: Environment, fleet: MemoryProvider) -> None:
        """WS-14: for a retried and a terminal error; only the retried one has Retry-After."""
        found = env.create_in("STANDBY")

        fleet.faults.fail("containers.start", OperationFailed("NoRoom", "There is no room."))
        client.change(found, {"desired_state": "RUNNING"})
        env.observe(found)
        answer = client.read(found)
        while answer.body["phase"] != "ERROR":
            error = answer.body.get("error")
            assert error is None or error == {
                "reason": "NoRoom",
                "message": "There is no room.",
                "is_terminal": False,
                "retry_count": error["retry_count"],
            }
            assert "Retry-After" in answer.headers
            env.pass_time(20)
            env.observe(found)
            answer = client.read(found)
        assert answer.body["error"]["is_terminal"] is True
        assert answer.body["next_step"] == "NoRoom: There is no room."
        assert "Retry-After" not in answer.headers
        deleted = client.delete(found)
        assert (deleted.status, deleted.headers["Retry-After"]) == (202, "2")

    def test_retry_after_until_the_desired_state(self, client: WorkspacesApi, env: Environment) -> None:
        answer = client.create({"name": "home", "desired_state": "RUNNING"})
        found = UUID(answer.body["workspace_id"])
        assert answer.headers["Retry-After"] == client.read(found).headers["Retry-After"] == "2"
        env.drive_to(found, "RUNNING")
        assert "Retry-After" not in client.read(found).headers
        assert client.change(found, {"desired_state": "STANDBY"}).headers["Retry-After"] == "2"
        env.drive_to(found, "STANDBY")
        assert "Retry-After" not in client.read(found).headers
        assert client.connect(found).headers["Retry-After"] == "2"

    def test_retry_after_if_it_is_about_to_leave(
        self, client: WorkspacesApi, env: Environment, fleet: MemoryProvider
    ) -> None:
        """WS-7: STOPPING is not reversed, so RUNNING does not last."""
        found = env.create_in("RUNNING")
        client.change(found, {"desired_state": "STANDBY"})

        fleet.faults.fail("containers.stop", ProviderUnavailable)
        env.observe(found)
        answer = client.change(found, {"desired_state": "RUNNING"})
        states = answer.body["phase"], answer.body["desired_state"], answer.body["operation"]
        assert states == ("RUNNING", "RUNNING", "STOPPING")
        assert answer.headers["Retry-After"] == "2"

    def test_no_retry_after_in_the_desired_state(self, client: WorkspacesApi) -> None:
        assert "Retry-After" not in client.create({"name": "x", "desired_state": "PENDING"}).headers


class TestEvents:
    """GET /v1/workspaces/{workspace_id}/events."""

    def test_events_are_listed_newest_first(self, client: WorkspacesApi) -> None:
        found = client.created()
        client.change(found, {"name": "another", "desired_state": "ARCHIVED"})
        answer = client.events(found)
        assert answer.status == 200
        events = answer.body["events"]
        assert [{name: value for name, value in one.items() if name != "happened_at"} for one in events] == [
            {"actor": "owner", "kind": "DESIRED", "from_value": "RUNNING", "to_value": "ARCHIVED"},
            {"actor": "owner", "kind": "RENAMED", "from_value": "home", "to_value": "another"},
            {"actor": "owner", "kind": "CREATED", "to_value": "RUNNING"},
        ]

    def test_last_hundred_events_are_listed(self, client: WorkspacesApi, env: Environment) -> None:
        found = client.created()
        for number in range(MAX_EVENTS + 5):
            client.change(found, {"name": f"home {number}"})
        names = [one["to_value"] for one in client.events(found).body["events"]]
        assert names == [f"home {number}" for number in range(MAX_EVENTS + 4, 4, -1)]
        assert env.rows("SELECT count(*) FROM workspace_events") == [(MAX_EVENTS + 6,)]
