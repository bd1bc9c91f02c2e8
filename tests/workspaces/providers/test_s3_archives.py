"""Archives in S3, by moto: parts, conditions, interrupted uploads and truncated answers (WS-10)."""

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError
from botocore.response import StreamingBody
from urllib3.exceptions import ProtocolError

from dpp.platform.aws.clients import s3_client
from dpp.platform.errors import StorageUnavailable
from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.model import Archive, archive_key_of
from dpp.workspaces.providers import s3_archives
from dpp.workspaces.providers.s3_archives import S3Archives, part_bytes, proof_key_of
from tests.support.stored import existing
from tests.workspaces.homes import no_heartbeat

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

WS, OP = uuid4(), uuid4()
KEY = archive_key_of(WS, OP)
ARCHIVE = Archive(KEY, 3, "ab" * 32, "etag")


class _Client:
    """A client with faults: by the name of the call, each raised once."""

    def __init__(self, real: "S3Client") -> None:
        self.real = real
        self.faults: dict[str, BaseException] = {}
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.real, name)
        if not callable(attribute):
            return attribute

        def call(**arguments: Any) -> Any:
            self.called.append(name)
            if name in self.faults:
                raise self.faults.pop(name)
            return attribute(**arguments)

        return call


@pytest.fixture
def client(aws: None) -> _Client:
    return _Client(s3_client())


@pytest.fixture
def archives(client: _Client) -> S3Archives:
    """Archives in an empty bucket."""
    opened = S3Archives(f"archives-{uuid4()}", lambda: client)  # type: ignore[arg-type,return-value]
    client.real.create_bucket(Bucket=opened.bucket)
    return opened


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The minimum part size of S3 and moto."""
    monkeypatch.setattr(s3_archives, "PART_BYTES", 5 << 20)


def _outage() -> ConnectTimeoutError:
    return ConnectTimeoutError(endpoint_url="https://s3")


def test_ten_thousand_parts_hold_five_terabytes_and_the_first_are_small() -> None:
    sizes = [part_bytes(number) for number in range(1, 10_001)]
    assert sizes[0] == 8 << 20
    assert sizes == sorted(sizes)
    assert sum(sizes) >= 5 << 40
    assert max(sizes) <= 5 << 30
    assert sum(sizes[:125]) > 10**9
    assert sizes[124] == 16 << 20


def test_small_archive_is_one_call(archives: S3Archives, client: _Client) -> None:
    archive = archives.write(KEY, iter([b"abc"]), no_heartbeat)
    assert archive == Archive(KEY, 3, hashlib.sha256(b"abc").hexdigest(), hashlib.md5(b"abc").hexdigest())  # noqa: S324
    assert client.called == ["put_object"]


@pytest.mark.parametrize("excess", [-1, 0, 1, 5 << 20, (5 << 20) + 1])
def test_large_archive_is_stored_in_parts(
    archives: S3Archives, client: _Client, small_parts: None, excess: int
) -> None:
    content = hashlib.shake_128(b"seed").digest((5 << 20) + excess)
    chunks = (content[start : start + 700_001] for start in range(0, len(content), 700_001))
    archive = archives.write(KEY, chunks, no_heartbeat)
    assert b"".join(archives.read(KEY, no_heartbeat)) == content
    assert (archive.size_bytes, archive.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert client.called.count("upload_part") == {-1: 0, 0: 0, 1: 2, 5 << 20: 2, (5 << 20) + 1: 3}[excess]
    found = existing(archives.head(KEY))
    assert found.etag == archive.etag


def test_object_metadata_names_format_workspace_and_operation(
    archives: S3Archives, client: _Client, small_parts: None
) -> None:
    for key, size in ((KEY, 1), (archive_key_of(WS, WS), 6 << 20)):
        archives.write(key, iter([bytes(size)]), no_heartbeat)
        head = client.real.head_object(Bucket=archives.bucket, Key=key)
        op = key.split("/")[1]
        assert head["Metadata"] == {"format": "tar.zst/1", "workspace": str(WS), "op": op}


@pytest.mark.parametrize("broken", ["upload_part", "complete_multipart_upload", "chunks", "heartbeat"])
def test_interrupted_upload_leaves_neither_object_nor_parts(
    archives: S3Archives, client: _Client, small_parts: None, broken: str
) -> None:
    def chunks() -> Iterator[bytes]:
        yield bytes(6 << 20)
        if broken == "chunks":
            raise OperationFailed("HomeChanged", "meanwhile")
        yield b"more"

    heartbeats = iter([None, None])

    def heartbeat() -> None:
        if broken == "heartbeat" and next(heartbeats, "over") == "over":
            raise OperationFailed("Lost", "meanwhile")

    client.faults[broken] = _outage()
    with pytest.raises((StorageUnavailable, OperationFailed)):
        archives.write(KEY, chunks(), heartbeat)
    assert archives.head(KEY) is None
    assert client.real.list_multipart_uploads(Bucket=archives.bucket).get("Uploads", []) == []


def test_first_failure_is_raised_even_if_the_abort_fails(
    archives: S3Archives, client: _Client, small_parts: None
) -> None:
    client.faults = {
        "upload_part": ClientError({"Error": {"Code": "SlowDown"}}, "UploadPart"),
        "abort_multipart_upload": _outage(),
    }
    with pytest.raises(StorageUnavailable, match="ClientError"):
        archives.write(KEY, iter([bytes(6 << 20)]), no_heartbeat)


def test_large_archive_does_not_overwrite_an_object_written_meanwhile(
    archives: S3Archives, client: _Client, small_parts: None
) -> None:
    """The condition is checked when the upload is completed, not when it starts."""

    def chunks() -> Iterator[bytes]:
        yield bytes(6 << 20)
        S3Archives(archives.bucket).write(KEY, iter([b"proved meanwhile"]), no_heartbeat)

    with pytest.raises(OperationFailed, match="ArchiveExists"):
        archives.write(KEY, chunks(), no_heartbeat)
    assert b"".join(archives.read(KEY, no_heartbeat)) == b"proved meanwhile"
    assert client.real.list_multipart_uploads(Bucket=archives.bucket).get("Uploads", []) == []


@pytest.mark.parametrize("call", ["put_object", "get_object", "head_object", "list_objects_v2", "delete_objects"])
@pytest.mark.parametrize("code", [None, "SlowDown", "AccessDenied", "InternalError"])
def test_failing_s3_is_an_outage(archives: S3Archives, client: _Client, call: str, code: str | None) -> None:
    """In particular, an archive that may not be read does not count as missing."""
    calls: dict[str, list[Callable[[], object]]] = {
        "put_object": [lambda: archives.write(KEY, iter([b""]), no_heartbeat), lambda: archives.write_proof(ARCHIVE)],
        "get_object": [lambda: list(archives.read(KEY, no_heartbeat)), lambda: archives.read_proof(KEY)],
        "head_object": [lambda: archives.head(KEY)],
        "list_objects_v2": [lambda: archives.page(None, 10)],
        "delete_objects": [lambda: archives.delete([KEY])],
    }
    for attempt in calls[call]:
        client.faults[call] = _outage() if code is None else ClientError({"Error": {"Code": code}}, call)
        with pytest.raises(StorageUnavailable):
            attempt()


@pytest.mark.parametrize("fault", ["short", "broken"])
def test_truncated_answer_is_an_outage(
    archives: S3Archives, client: _Client, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            content = super().read(size)
            if not content and fault == "broken":
                raise ProtocolError("connection broken")
            return content

    archives.write(KEY, iter([b"x" * 100]), no_heartbeat)

    def get_object(**_: object) -> dict[str, object]:
        return {"Body": StreamingBody(Broken(b"x" * 50), 100)}

    monkeypatch.setattr(client.real, "get_object", get_object)
    with pytest.raises(StorageUnavailable):
        list(archives.read(KEY, no_heartbeat))


def test_expiry_by_lifecycle_rules_is_reported(
    archives: S3Archives, client: _Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    archives.write(KEY, iter([b"abc"]), no_heartbeat)
    real = client.real.head_object
    expiration = 'expiry-date="Fri, 21 Dec 2012 00:00:00 GMT", rule-id="archives"'

    def head_object(**arguments: Any) -> dict[str, Any]:
        return {**real(**arguments), "Expiration": expiration}

    monkeypatch.setattr(client.real, "head_object", head_object)
    found = existing(archives.head(KEY))
    assert found.expires_at == datetime(2012, 12, 21, tzinfo=UTC)
    assert abs(found.modified_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_proof_is_stored_as_json_beside_the_archive(archives: S3Archives, client: _Client) -> None:
    archives.write_proof(ARCHIVE)
    assert proof_key_of(KEY) == f"{WS}/{OP}/proof.json"
    body = client.real.get_object(Bucket=archives.bucket, Key=proof_key_of(KEY))["Body"].read()
    assert json.loads(body) == {"key": KEY, "size_bytes": 3, "sha256": "ab" * 32, "etag": "etag"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"key": "other", "size_bytes": 3, "sha256": "", "etag": ""}',
        b'{"key": "k", "size_bytes": "many", "sha256": "", "etag": ""}',
        b"\xff\xfe\xff",
    ],
)
def test_invalid_proof_is_ignored(archives: S3Archives, client: _Client, body: bytes) -> None:
    client.real.put_object(Bucket=archives.bucket, Key=proof_key_of(KEY), Body=body)
    assert archives.read_proof(KEY) is None


def test_keys_that_s3_refuses_to_delete_are_returned(
    archives: S3Archives, client: _Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete_objects(**_: object) -> dict[str, object]:
        return {"Errors": [{"Key": "b", "Code": "InternalError"}]}

    monkeypatch.setattr(client.real, "delete_objects", delete_objects)
    assert archives.delete(["a", "b"]) == ["b"]
