"""No access to workspaces of other tenants, and no input in logs."""

from uuid import uuid4

import pytest

from dpp.platform.db import postgres
from tests.support.proxy import Proxy
from tests.workspaces.api.client import OF_ONE, WorkspacesApi, without_ids
from tests.workspaces.environment import Environment


class TestStealth:
    """A workspace of another tenant looks as if it did not exist (D13)."""

    MALFORMED = (
        *("1", "x", "null", "-1", "..", "%2e%2e", "%00", "열쇠", "urn:uuid:{ID}", " {ID}", "{ID} ", "{ID}0"),
        *("{ID}%00", "' OR '1'='1", "*", "%F0%9F", "%zz", "%", "a b", "x" * 10_000, "0" * 36, "g" * 36, "％"),
        *("{HEX}", "{{ID}}", "{ID},{ID}", "{ID};x=1", "{ID}%2fevents", "\x00", "a\nb", "\u2028", "😀", "\ud800"),
        *("{ID}\n", "{ID}\x00", "?", "#", '"', "\\", "`"),
    )
    NO_ROUTE = ("../workspaces", "{ID}//events", "{ID}/../{MINE}", "./{ID}", "{ID}/EVENTS", "{ID}/archives")

    @pytest.mark.parametrize(("method", "below"), OF_ONE)
    def test_unknown_foreign_and_malformed_ids_get_the_same_404(
        self, client: WorkspacesApi, method: str, below: str
    ) -> None:
        theirs = client.create(token=client.stranger).body["workspace_id"]
        client.forget_hints()
        before = client.read(theirs, client.stranger).body
        body = None if method != "PATCH" else '{"name": "mine"}'
        unknown = without_ids(client.call(method, f"/{uuid4()}{below}", body=body))
        assert (unknown[0], unknown[2]["reason_code"]) == (404, "WORKSPACE_NOT_FOUND")
        malformed = [one.replace("{ID}", theirs).replace("{HEX}", theirs.replace("-", "")) for one in self.MALFORMED]
        for one in (theirs, theirs.upper(), *malformed):
            assert without_ids(client.call(method, f"/{one}{below}", body=body)) == unknown, one
        for one in malformed:  # the owner gets the same answer
            answer = client.call(method, f"/{one}{below}", token=client.stranger, body=body)
            assert without_ids(answer) == unknown, one
        assert client.hinted == []
        assert client.read(theirs, client.stranger).body == before

    def test_404_sends_the_same_bytes_for_every_reason(
        self, client: WorkspacesApi, env: Environment, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that timing reveals nothing."""
        theirs = client.create(token=client.stranger).body["workspace_id"]
        monkeypatch.setattr(postgres, "_PING_AFTER_IDLE_SECONDS", 3_600.0)
        costs: dict[tuple[str, str], set[int]] = {}
        with Proxy(env.url) as proxy:
            client.rewire(DATABASE_URL=proxy.url)
            client.read(uuid4())  # connects
            for method, below in OF_ONE:
                for one in (str(uuid4()), theirs, "x", "\x00", "x" * 10_000):
                    before = proxy.bytes_sent
                    assert client.call(method, f"/{one}{below}", body="{}").status == 404
                    costs.setdefault((method, below), set()).add(proxy.bytes_sent - before)
            client.close()
        assert [len(found) for found in costs.values()] == [1] * len(OF_ONE)
        assert all(min(found) > 0 for found in costs.values())

    def test_unknown_routes_get_the_same_404(self, client: WorkspacesApi) -> None:
        theirs = client.create(token=client.stranger).body["workspace_id"]
        mine = client.created()
        unknown = without_ids(client.call("GET", "/a/b"))
        assert (unknown[0], unknown[2]["reason_code"]) == (404, "NOT_FOUND")
        for text in self.NO_ROUTE:
            path = text.replace("{ID}", theirs).replace("{MINE}", mine)
            for token in (client.owner, client.stranger):
                assert without_ids(client.call("GET", f"/{path}", token=token)) == unknown, path

    def test_body_is_validated_before_the_id(self, client: WorkspacesApi) -> None:
        """So that a refusal of a body does not reveal whose workspace it is."""
        theirs = client.create(token=client.stranger).body["workspace_id"]
        ids = (theirs, str(uuid4()), "x", client.created())
        answers = [without_ids(client.change(one, {"name": ""})) for one in ids]
        assert answers == [answers[0]] * 4
        assert answers[0][0] == 422

    def test_deleted_workspace_of_another_tenant_is_404(self, client: WorkspacesApi) -> None:
        theirs = client.create(token=client.stranger).body["workspace_id"]
        client.delete(theirs, client.stranger)
        unknown = without_ids(client.change(uuid4(), {}))
        assert without_ids(client.change(theirs, {})) == unknown
        assert without_ids(client.connect(theirs)) == unknown
        assert without_ids(client.delete(theirs)) == unknown

    def test_id_in_capitals_is_the_same_id(self, client: WorkspacesApi) -> None:
        found = client.created()
        assert client.read(found.upper()).body == client.read(found).body


def test_log_lines_contain_no_input(
    client: WorkspacesApi, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """RUN-31: neither names nor keys, even of refused requests."""
    caplog.set_level("DEBUG", "dpp")
    found = client.created(name="home-s3cret")
    client.create({"name": "home-s3cret"}, key="key-s3cret-1")
    client.create({"name": "other-s3cret"}, key="key-s3cret-1")
    client.change(found, {"name": "s3cret"})
    client.change(found, {"desired_state": "s3cret"})
    client.change(found, raw='{"s3cret"')
    client.read("s3cret")
    client.pages(cursor="s3cret")
    printed = capfd.readouterr()
    logged = printed.out + printed.err + caplog.text + str([record.__dict__ for record in caplog.records])
    assert "refused" in logged
    assert "s3cret" not in logged
    assert client.owner.split("_")[2] not in logged
