"""Archives as objects of one S3 bucket (WS-10): written in parts, never over one another, each with a proof beside it.

The bucket should end incomplete multipart uploads by a lifecycle rule: a process that dies leaves its own.
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
from dpp.workspaces.ports import ArchiveObject, Beat

if TYPE_CHECKING:
    from botocore.exceptions import ClientError
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, HeadObjectOutputTypeDef

PART_BYTES = 8 << 20
_PARTS_OF_A_SIZE = 75
_READ_BYTES = 1 << 20
_MAX_DELETED = 1000
_FORMAT = "tar.zst/1"
_PROOF = "proof.json"
_EXPIRY = re.compile(r'expiry-date="([^"]+)"')
_ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
_STANDS = frozenset({"412", "PreconditionFailed"})


def part_bytes(number: int) -> int:
    """How large a part is, by its number from 1: 8 MiB more every 75, so that the 10,000 S3 allows hold 5 TB.

    It is what an upload keeps in memory: 16 MiB at 1 GB, 80 MiB at 20 GB, 1 GiB at 5 TB.
    """
    return PART_BYTES * (1 + (number - 1) // _PARTS_OF_A_SIZE)


def proof_key_of(key: str) -> str:
    """Where the proof of an archive stands: `{workspace}/{op}/proof.json`."""
    return f"{key.rpartition('/')[0]}/{_PROOF}"


class _Condition(TypedDict, total=False):
    IfMatch: str
    IfNoneMatch: str


class S3Archives:
    """The port Archives. Every call raises StorageUnavailable where S3 gave no answer, or broke off in one."""

    def __init__(self, bucket: str, client_factory: "Callable[[], S3Client]" = s3_client) -> None:
        self.bucket = bucket
        self._client_factory = client_factory

    def write(self, key: str, chunks: Iterator[bytes], beat: Beat, replaces: str | None = None) -> Archive:
        """Store the chunks: at once where they fill no part, else in parts. Raises OperationFailed `ArchiveExists`."""
        digest, size_bytes = hashlib.sha256(), 0
        upload: _Upload | None = None
        buffer = bytearray()
        try:
            for chunk in chunks:
                beat()
                digest.update(chunk)
                size_bytes += len(chunk)
                buffer += chunk
                while len(buffer) > part_bytes(upload.next_number if upload else 1):
                    upload = upload or _Upload(self._client, self.bucket, key)
                    wanted = part_bytes(upload.next_number)
                    upload.add(bytes(buffer[:wanted]))
                    del buffer[:wanted]
                    beat()
            etag = self._finished(upload, key, bytes(buffer), replaces)
        except BaseException:
            if upload:
                upload.abort()
            raise
        return Archive(key, size_bytes, digest.hexdigest(), etag)

    def read(self, key: str, beat: Beat) -> Iterator[bytes]:
        """The object's bytes as they come. Raises OperationFailed `ArchiveNotFound`, terminal, at the first."""
        with unavailable_as(StorageUnavailable):
            try:
                body = self._client.get_object(Bucket=self.bucket, Key=key)["Body"]
            except self._client.exceptions.NoSuchKey:
                raise OperationFailed(
                    "ArchiveNotFound", "There is no object under the archive's key.", is_terminal=True
                ) from None
        try:
            while True:
                with unavailable_as(StorageUnavailable):
                    chunk = body.read(_READ_BYTES)
                if not chunk:
                    return
                beat()
                yield chunk
        finally:
            body.close()

    def prove(self, archive: Archive) -> None:
        """Write the proof."""
        with unavailable_as(StorageUnavailable):
            self._client.put_object(
                Bucket=self.bucket,
                Key=proof_key_of(archive.key),
                Body=json.dumps(asdict(archive)).encode(),
                ContentType="application/json; charset=utf-8",
                ChecksumAlgorithm="SHA256",
            )

    def proof(self, key: str) -> Archive | None:
        """The proof; None where there is none, or what stands there proves nothing."""
        with unavailable_as(StorageUnavailable):
            try:
                body = self._client.get_object(Bucket=self.bucket, Key=proof_key_of(key))["Body"].read()
            except self._client.exceptions.NoSuchKey:
                return None
        try:
            noted = json.loads(body)
            archive = Archive(
                str(noted["key"]), int(noted["size_bytes"]), str(noted["sha256"]), str(noted["etag"])
            )
        except (ValueError, KeyError, TypeError):
            return None
        return archive if archive.key == key else None

    def look(self, key: str) -> ArchiveObject | None:
        """What HEAD tells."""
        with unavailable_as(StorageUnavailable):
            from botocore.exceptions import ClientError  # noqa: PLC0415 - with the client, not before

            try:
                head = self._client.head_object(Bucket=self.bucket, Key=key)
            except ClientError as cause:
                if _code_of(cause) in _ABSENT:
                    return None
                raise
        return _object_of(key, head)

    def page(self, after: str | None, limit: int) -> Sequence[ArchiveObject]:
        """Up to `limit` objects, 1,000 at most."""
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
        """Delete them in one call."""
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
        """Make the object; its ETag. S3 itself looks at the condition, in the one moment that counts (RFC 9110 §13)."""
        condition: _Condition = {"IfMatch": replaces} if replaces else {"IfNoneMatch": "*"}
        with unavailable_as(StorageUnavailable), _refusing_to_cover():
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
    """A multipart upload: nothing is seen of it before it is completed."""

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
        """The number of the part that comes next."""
        return len(self._parts) + 1

    def add(self, body: bytes) -> None:
        """Store a part; S3 checks what it received."""
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
        """Add the last part and make of all the object; its ETag. Raises ClientError, for the caller to tell apart."""
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
        """Have S3 forget the parts; where it gives no answer, the bucket's rule does it later."""
        with suppress(StorageUnavailable), unavailable_as(StorageUnavailable):
            self._client.abort_multipart_upload(Bucket=self._bucket, Key=self._key, UploadId=self._upload_id)


@contextmanager
def _refusing_to_cover() -> Iterator[None]:
    """Say that an object stands where S3 says that the condition of the call did not hold."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    try:
        yield
    except ClientError as cause:
        if _code_of(cause) in _STANDS:
            raise OperationFailed("ArchiveExists", "An object stands under the archive's key.") from cause
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
