"""Changing, deleting and connecting to workspaces (WS-6, WS-8)."""

from typing import Any

import pytest

from tests.workspaces.api.client import WorkspacesApi, pointers, refused, under_way
from tests.workspaces.environment import Environment


class TestChanging:
    """PATCH /v1/workspaces/{workspace_id} (RFC 7396)."""

    @pytest.mark.parametrize(
        "change",
        [
            {"name": "another"},
            {"desired_state": "PENDING"},
            {"standby_ttl_seconds": 90},
            {"archive_ttl_seconds": 31_536_000},
            {"name": "x", "desired_state": "STANDBY", "standby_ttl_seconds": 60, "archive_ttl_seconds": 60},
        ],
    )
    def test_omitted_members_stay(self, client: WorkspacesApi, change: dict[str, Any]) -> None:
        found = client.created(standby_ttl_seconds=600, archive_ttl_seconds=1_200)
        client.forget_hints()
        before = client.read(found).body
        after = client.change(found, change)
        assert after.status == 200
        of_use = {"last_access_at", "next_step"}
        stays = {name: value for name, value in (before | change).items() if name not in of_use}
        assert after.body == after.body | stays
        assert set(after.body) == set(before)
        assert client.read(found).body == after.body
        assert client.hinted == [found]

    def test_use_does_not_change_desired_by(self, client: WorkspacesApi, env: Environment) -> None:
        """The actor stays `ttl` until another desired state is requested."""
        found = env.create("RUNNING", standby_ttl_seconds=60)
        env.pass_time(120)
        env.tick()
        for change, by in (({}, "ttl"), ({"standby_ttl_seconds": 90}, "ttl"), ({"desired_state": "STANDBY"}, "owner")):
            assert client.change(found, change).body["desired_state"] == "STANDBY"
            assert env.get(found).desired_by == by

    def test_null_removes_a_ttl(self, client: WorkspacesApi, env: Environment) -> None:
        found = client.created(standby_ttl_seconds=600, archive_ttl_seconds=1_200)
        assert client.change(found, {"standby_ttl_seconds": None}).body.get("archive_ttl_seconds") == 1_200
        body = client.change(found, {"archive_ttl_seconds": None}).body
        assert not {"standby_ttl_seconds", "archive_ttl_seconds"} & set(body)
        assert env.rows("SELECT idle_at FROM workspaces") == [(None,)]

    def test_empty_change_counts_as_use(self, client: WorkspacesApi) -> None:
        found = client.created(standby_ttl_seconds=600)
        before = client.read(found).body
        after = client.change(found, {}).body
        assert after["last_access_at"] > before["last_access_at"]
        assert after == before | {"last_access_at": after["last_access_at"]}
        kinds = [one["kind"] for one in client.events(found).body["events"]]
        assert kinds == ["CREATED"]

    @pytest.mark.parametrize("name", ["name", "desired_state"])
    def test_null_is_refused_for_other_members(self, client: WorkspacesApi, name: str) -> None:
        found = client.created()
        before = client.read(found).body
        answer = client.change(found, {name: None, "standby_ttl_seconds": 60})
        assert pointers(answer) == [f"/{name}"]
        if name == "name":
            assert answer.body["errors"][0]["detail"] == "must not be null; leave it out to keep the value"
        assert client.read(found).body == before

    def test_moves_through_neighbouring_phases(self, client: WorkspacesApi, env: Environment) -> None:
        """WS-8: never from RUNNING to PENDING directly."""
        found = env.create_in("RUNNING")
        assert client.change(found, {"desired_state": "PENDING"}).body["phase"] == "RUNNING"
        env.drive_to(found, "PENDING")
        events = client.events(found).body["events"]
        phases = [one["to_value"] for one in events if one["kind"] == "PHASE"]
        assert phases[:3] == ["PENDING", "ARCHIVED", "STANDBY"]

    def test_change_of_a_deleted_workspace_is_410(self, client: WorkspacesApi) -> None:
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
    def test_delete_is_accepted_and_repeatable(self, client: WorkspacesApi, env: Environment, phase: str) -> None:
        found = env.create_in(phase)
        client.forget_hints()
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
    def test_delete_in_another_phase_is_409(self, client: WorkspacesApi, env: Environment, phase: str) -> None:
        found = env.create_in(phase)
        before = client.read(found).body
        body = refused(client.delete(found), 409, "WORKSPACE_NOT_DELETABLE")
        assert (body["phase"], body["operation"]) == (phase, "NONE")
        assert body["detail"] == (
            f"The workspace is {phase}: set desired_state to PENDING or ARCHIVED, and delete it once it is there."
        )
        assert client.read(found).body == before

    def test_delete_during_an_operation_is_409(self, client: WorkspacesApi, env: Environment) -> None:
        found = under_way(client, env)
        body = refused(client.delete(found), 409, "WORKSPACE_NOT_DELETABLE")
        assert (body["phase"], body["operation"]) == ("PENDING", "PROVISIONING")
        assert body["detail"] == "The workspace is PENDING, and PROVISIONING is under way: wait until it ends."
        assert "deleted_at" not in client.read(found).body


class TestConnecting:
    """POST /v1/workspaces/{workspace_id}/connect (WS-6: waking goes through the API)."""

    def test_running_workspace_is_only_used(self, client: WorkspacesApi, env: Environment) -> None:
        found = env.create_in("RUNNING")
        client.forget_hints()
        before = client.read(found).body
        answer = client.connect(found)
        assert (answer.status, client.hinted) == (200, [])
        assert answer.body["last_access_at"] > before["last_access_at"]
        assert answer.body["phase"] == "RUNNING"
        assert "Retry-After" not in answer.headers

    @pytest.mark.parametrize("phase", ["STANDBY", "ARCHIVED", "PENDING"])
    def test_other_workspace_is_woken(self, client: WorkspacesApi, env: Environment, phase: str) -> None:
        found = env.create_in(phase)
        client.forget_hints()
        answer = client.connect(found)
        values = answer.status, answer.body["desired_state"], answer.headers["Retry-After"]
        assert values == (200, "RUNNING", "2")
        assert client.hinted == [str(found)]
        [event] = [one for one in client.events(found).body["events"] if one["kind"] == "DESIRED"]
        assert (event["actor"], event["to_value"]) == ("connect", "RUNNING")
        env.drive_to(found, "RUNNING")

    def test_body_is_ignored(self, client: WorkspacesApi) -> None:
        found = client.created()
        assert client.call("POST", f"/{found}/connect", body="{").status == 200
