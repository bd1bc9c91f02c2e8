"""Invalid requests (WS-6, WS-8)."""

from typing import Any

import pytest

from tests.workspaces.api.client import AN_ID, YEAR_SECONDS, WorkspacesApi, pointers, refused

BAD_NAMES = (
    *("", "  \t ", "\u3000\u00a0", "x" * 101, "a\nb", "a\x1b[2Jb", "a\x7fb", "a\x9b2Jb", "a\u2028b", 7, ["home"]),
    None,
)
BAD_STATES: tuple[object, ...] = ("DELETED", "ERROR", "running", "", 20, None, {"a": []})
BAD_TTLS = (59, 0, -60, YEAR_SECONDS + 1, 2**53 - 1, 60.5, "60", True, [60])


class TestBadInput:
    """Invalid input is refused with a pointer, and changes nothing."""

    @pytest.mark.parametrize(
        ("changes", "pointer"),
        [
            *(({"name": bad}, "/name") for bad in BAD_NAMES),
            *(({"desired_state": bad}, "/desired_state") for bad in BAD_STATES),
            *(({"standby_ttl_seconds": bad}, "/standby_ttl_seconds") for bad in BAD_TTLS),
            *(({"archive_ttl_seconds": bad}, "/archive_ttl_seconds") for bad in (59, YEAR_SECONDS + 1, False)),
            ({"phase": "RUNNING"}, "/phase"),
            ({"tenant_id": "t_stranger"}, "/tenant_id"),
            ({"Name": "x"}, "/Name"),
            ({"a/b~": 1}, "/a~1b~0"),
        ],
    )
    def test_invalid_member_is_422_with_its_pointer(
        self, refusing: WorkspacesApi, changes: dict[str, Any], pointer: str
    ) -> None:
        """For a creation and a change; unknown members, too."""
        assert pointers(refusing.create({"name": "home"} | changes)) == [pointer]
        assert pointers(refusing.change(AN_ID, changes)) == [pointer]

    def test_desired_state_deleted_is_refused_with_a_hint(self, refusing: WorkspacesApi) -> None:
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
            '{"name": "a", "name": "b"}',
            *('{"name": "a\\u0000b"}', '{"name": "a\\ud800"}', '{"name": "\\udc00a"}'),
            '{"name": "a", "standby_ttl_seconds": 9007199254740992}',
            '{"name": "a", "standby_ttl_seconds": 1e999}',
            '{"name": ' + "[" * 65 + "]" * 65 + "}",
        ],
    )
    def test_invalid_json_is_400(self, refusing: WorkspacesApi, raw: str | bytes) -> None:
        """D12."""
        refused(refusing.create(raw=raw), 400, "MALFORMED_REQUEST")
        answer = refusing.call("PATCH", f"/{AN_ID}", headers={"Content-Type": "application/json"}, body=raw)
        refused(answer, 400, "MALFORMED_REQUEST")

    @pytest.mark.parametrize("raw", ["[]", "null", "7", '"home"', "[{}]"])
    def test_body_that_is_no_object_is_422(self, refusing: WorkspacesApi, raw: str) -> None:
        assert pointers(refusing.create(raw=raw)) == [""]
        assert pointers(refusing.change(AN_ID, raw=raw)) == [""]

    def test_body_above_a_mebibyte_is_413(self, refusing: WorkspacesApi) -> None:
        refused(refusing.create(raw=" " * 2**20 + "{}"), 413, "PAYLOAD_TOO_LARGE")
        refused(refusing.change(AN_ID, raw=" " * 2**20 + "{}"), 413, "PAYLOAD_TOO_LARGE")

    @pytest.mark.parametrize("media", ["text/plain", "application/merge-patch+json", ""])
    def test_other_media_type_is_415(self, refusing: WorkspacesApi, media: str) -> None:
        for method, below in (("POST", ""), ("PATCH", f"/{AN_ID}")):
            headers = {"Content-Type": media, "Idempotency-Key": "a-key-of-mine"}
            answer = refusing.call(method, below, headers=headers, body='{"name": "home"}')
            refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")

    def test_refusals_do_not_repeat_input(self, refusing: WorkspacesApi) -> None:
        body = {"name": "s3cret\n", "desired_state": "s3cret", "standby_ttl_seconds": "s3cret"}
        for answer in (refusing.create(body | {"name": "s3\ncret"}), refusing.change(AN_ID, body)):
            refused(answer, 422, "VALIDATION_FAILED")
            assert "s3cret" not in answer.text

    def test_name_is_trimmed_and_limited_to_100_characters(self, client: WorkspacesApi) -> None:
        assert client.create({"name": "\n x\u3000"}).body["name"] == "x"
        longest = "\U0001f9ea" * 100
        assert client.create({"name": longest}).body["name"] == longest
        refused(client.create({"name": longest + "x"}), 422, "VALIDATION_FAILED")

    def test_integers_may_be_written_as_decimals(self, client: WorkspacesApi) -> None:
        answer = client.create(raw='{"name": "x", "standby_ttl_seconds": 6e1, "archive_ttl_seconds": 60.0}')
        assert (answer.body["standby_ttl_seconds"], answer.body["archive_ttl_seconds"]) == (60, 60)
