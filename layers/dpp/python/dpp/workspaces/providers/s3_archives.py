"""Archives as objects of one S3 bucket (WS-10): written in parts, never overwritten, each with a proof beside it.

The bucket should have a lifecycle rule for incomplete multipart uploads: a process that dies leaves one.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

from dpp.platform.aws.clients import s3_client, unavailable_as
from dpp.platform.errors import StorageUnavailable
from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.model import Archive
from dpp.workspaces.ports import ArchiveObject, Heartbeat

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, HeadObjectOutputTypeDef

PART_BYTES = 8 << 20
_PARTS_PER_SIZE = 75
_READ_BYTES = 1 << 20
_MAX_DELETED = 1000
_FORMAT = "tar.zst/1"
_PROOF = "proof.json"
_EXPIRY = re.compile(r'expiry-date="([^"]+)"')
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_PRECONDITION_FAILED = frozenset({"412", "PreconditionFailed"})


def part_bytes(number: int) -> int:
    """The size of a part by its number, from 1: 8 MiB more every 75 parts, so that S3's 10,000 parts hold 5 TB.

    An upload keeps one part in memory: 16 MiB at 1 GB, 80 MiB at 20 GB, 1 GiB at 5 TB.
    """
    return PART_BYTES * (1 + (number - 1) // _PARTS_PER_SIZE)


def proof_key_of(key: str) -> str:
    """The key of an archive's proof: `{workspace}/{op}/proof.json`."""
    return f"{key.rpartition('/')[0]}/{_PROOF}"


class _Condition(TypedDict, total=False):
    IfMatch: str
    IfNoneMatch: str


class S3Archives:
    """The port Archives. Every call raises StorageUnavailable if S3 doesn't answer, or its answer is cut off."""

    def __init__(self, bucket: str, client_factory: "Callable[[], S3Client]" = s3_client) -> None:
        self.bucket = bucket
        self._client_factory = client_factory

    def write(self, key: str, chunks: Iterator[bytes], heartbeat: Heartbeat, replaces: str | None = None) -> Archive:
        """Store the chunks, in parts if they exceed one part. Raises OperationFailed `ArchiveExists`."""
        digest, size_bytes = hashlib.sha256(), 0
        upload: _Upload | None = None
        buffer = bytearray()
        try:
            for chunk in chunks:
                heartbeat()
                digest.update(chunk)
                size_bytes += len(chunk)
                buffer += chunk
                while len(buffer) > part_bytes(upload.next_number if upload else 1):
                    upload = upload or _Upload(self._client, self.bucket, key)
                    size = part_bytes(upload.next_number)
                    upload.add(bytes(buffer[:size]))
                    del buffer[:size]
                    heartbeat()
            etag = self._finished(upload, key, bytes(buffer), replaces)
        except BaseException:
            if upload:
                upload.abort()
            raise
        return Archive(key, size_bytes, digest.hexdigest(), etag)

    def read(self, key: str, heartbeat: Heartbeat) -> Iterator[bytes]:
        """Stream the object's bytes. The first chunk raises OperationFailed `ArchiveNotFound`, terminal."""
        with unavailable_as(StorageUnavailable):
            try:
                body = self._client.get_object(Bucket=self.bucket, Key=key)["Body"]
            except self._client.exceptions.NoSuchKey:
                raise OperationFailed(
                    "ArchiveNotFound", "The bucket has no object with the archive's key.", is_terminal=True
                ) from None
        try:
            while True:
                with unavailable_as(StorageUnavailable):
                    chunk = body.read(_READ_BYTES)
                if not chunk:
                    return
                heartbeat()
                yield chunk
        finally:
            body.close()

    def write_proof(self, archive: Archive) -> None:
        """Write the proof."""
        with unavailable_as(StorageUnavailable):
            self._client.put_object(
                Bucket=self.bucket,
                Key=proof_key_of(archive.key),
                Body=json.dumps(asdict(archive)).encode(),
                ContentType="application/json; charset=utf-8",
                ChecksumAlgorithm="SHA256",
            )

    def read_proof(self, key: str) -> Archive | None:
        """The proof; None if it is missing or invalid."""
        with unavailable_as(StorageUnavailable):
            try:
                body = self._client.get_object(Bucket=self.bucket, Key=proof_key_of(key))["Body"].read()
            except self._client.exceptions.NoSuchKey:
                return None
        try:
            stored = json.loads(body)
            archive = Archive(str(stored["key"]), int(stored["size_bytes"]), str(stored["sha256"]), str(stored["etag"]))
        except (ValueError, KeyError, TypeError):
            return None
        return archive if archive.key == key else None

    def head(self, key: str) -> ArchiveObject | None:
        """The object by S3 HEAD."""
        with unavailable_as(StorageUnavailable):
            from botocore.exceptions import ClientError  # noqa: PLC0415 - imported with the client

            try:
                answer = self._client.head_object(Bucket=self.bucket, Key=key)
            except ClientError as cause:
                if _code_of(cause) in _ABSENT:
                    return None
                raise
        return _object_of(key, answer)

    def page(self, after: str | None, limit: int) -> Sequence[ArchiveObject]:
        """List up to `limit` objects, at most 1,000."""
        with unavailable_as(StorageUnavailable):
            if after is None:
                listed = self._client.list_objects_v2(Bucket=self.bucket, MaxKeys=limit)
            else:
                listed = self._client.list_objects_v2(Bucket=self.bucket, MaxKeys=limit, StartAfter=after)
        return [
            ArchiveObject(one["Key"], one["Size"], one["ETag"].strip('"'), one["LastModified"])
            for one in listed.get("Contents", [])
        ]

    def delete(self, keys: Sequence[str]) -> Sequence[str]:
        """Delete the objects in one call."""
        if len(keys) > _MAX_DELETED:
            raise ValueError(f"S3 deletes at most {_MAX_DELETED} objects at once")
        if not keys:
            return []
        with unavailable_as(StorageUnavailable):
            answer = self._client.delete_objects(
                Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
            )
        return [error["Key"] for error in answer.get("Errors", [])]

    def _finished(self, upload: "_Upload | None", key: str, rest: bytes, replaces: str | None) -> str:
        """Complete the object, and return its ETag. S3 checks the condition atomically (RFC 9110 §13)."""
        condition: _Condition = {"IfMatch": replaces} if replaces else {"IfNoneMatch": "*"}
        with unavailable_as(StorageUnavailable), _refusing_to_overwrite():
            if upload:
                return upload.complete(rest, condition)
            answer = self._client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=rest,
                Metadata=_metadata_of(key),
                ChecksumAlgorithm="SHA256",
                **condition,
            )
        return answer["ETag"].strip('"')

    @cached_property
    def _client(self) -> "S3Client":
        return self._client_factory()


class _Upload:
    """A multipart upload; the object is not visible before it is completed."""

    def __init__(self, client: "S3Client", bucket: str, key: str) -> None:
        self._client = client
        self._bucket = bucket
        self._key = key
        self._parts: list[CompletedPartTypeDef] = []
        with unavailable_as(StorageUnavailable):
            started = client.create_multipart_upload(
                Bucket=bucket, Key=key, Metadata=_metadata_of(key), ChecksumAlgorithm="SHA256"
            )
        self._upload_id = started["UploadId"]

    @property
    def next_number(self) -> int:
        """The number of the next part."""
        return len(self._parts) + 1

    def add(self, body: bytes) -> None:
        """Upload a part; S3 verifies its checksum."""
        number = self.next_number
        with unavailable_as(StorageUnavailable):
            answer = self._client.upload_part(
                Bucket=self._bucket,
                Key=self._key,
                UploadId=self._upload_id,
                PartNumber=number,
                Body=body,
                ChecksumAlgorithm="SHA256",
            )
        part: CompletedPartTypeDef = {"PartNumber": number, "ETag": answer["ETag"]}
        if "ChecksumSHA256" in answer:
            part["ChecksumSHA256"] = answer["ChecksumSHA256"]
        self._parts.append(part)

    def complete(self, last: bytes, condition: _Condition) -> str:
        """Upload the last part, complete the object and return its ETag. Raises ClientError."""
        self.add(last)
        answer = self._client.complete_multipart_upload(
            Bucket=self._bucket,
            Key=self._key,
            UploadId=self._upload_id,
            MultipartUpload={"Parts": self._parts},
            **condition,
        )
        return answer["ETag"].strip('"')

    def abort(self) -> None:
        """Abort the upload; if S3 doesn't answer, the bucket's lifecycle rule does it later."""
        with suppress(StorageUnavailable), unavailable_as(StorageUnavailable):
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._upload_id)


@contextmanager
def _refusing_to_overwrite() -> Iterator[None]:
    """Translate a failed precondition to OperationFailed `ArchiveExists`."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    try:
        yield
    except ClientError as cause:
        if _code_of(cause) in _PRECONDITION_FAILED:
            raise OperationFailed("ArchiveExists", "The bucket has another object with the archive's key.") from cause
        raise


def _code_of(cause: "ClientError") -> str:
    return cause.response.get("Error", {}).get("Code", "")


def _metadata_of(key: str) -> dict[str, str]:
    workspace, _, rest = key.partition("/")
    return {"format": _FORMAT, "workspace": workspace, "op": rest.partition("/")[0]}


def _object_of(key: str, head: "HeadObjectOutputTypeDef") -> ArchiveObject:
    expiry = _EXPIRY.search(head.get("Expiration", ""))
    return ArchiveObject(
        key=key,
        size_bytes=head["ContentLength"],
        etag=head["ETag"].strip('"'),
        modified_at=head["LastModified"],
        expires_at=parsedate_to_datetime(expiry[1]) if expiry else None,
    )
