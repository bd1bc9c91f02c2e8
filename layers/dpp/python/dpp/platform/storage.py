"""S3: put, look at, read and share objects of one bucket."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from dpp.platform.aws import s3_client, unavailable_as
from dpp.platform.errors import StorageUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


@dataclass(frozen=True, slots=True)
class PresignedUrl:
    """A URL that reads one object without credentials until `expires_at`."""

    url: str
    expires_at: datetime


class ObjectStore:
    """One S3 bucket; the client is made at the first call. Raises StorageUnavailable where S3 gave no answer."""

    def __init__(self, bucket: str, client_factory: "Callable[[], S3Client]" = s3_client) -> None:
        self.bucket = bucket
        self._client_factory = client_factory

    def put_json(self, key: str, body: bytes) -> None:
        """Write an object of UTF-8 JSON, overwriting what stood there; S3 checks what it received."""
        with unavailable_as(StorageUnavailable):
            self._client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                ContentType="application/json; charset=utf-8",
                ChecksumAlgorithm="SHA256",
            )

    def get(self, key: str) -> bytes | None:
        """The object's bytes, or None if there is none."""
        with unavailable_as(StorageUnavailable):
            try:
                return self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            except self._client.exceptions.NoSuchKey:
                return None

    def presign_get(self, key: str, ttl_seconds: int) -> PresignedUrl:
        """Sign a URL for one object; nothing is sent. The time starts before the signature, so it never lies."""
        expires_at = datetime.now(UTC) + timedelta(seconds=ttl_seconds)
        with unavailable_as(StorageUnavailable):
            url = self._client.generate_presigned_url(
                "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=ttl_seconds
            )
        return PresignedUrl(url, expires_at.replace(microsecond=0))

    def ping(self) -> None:
        """Ask whether the bucket is there and ours."""
        with unavailable_as(StorageUnavailable):
            self._client.head_bucket(Bucket=self.bucket)

    @cached_property
    def _client(self) -> "S3Client":
        return self._client_factory()
