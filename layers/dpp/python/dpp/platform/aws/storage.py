"""S3: write, read, delete and share objects of one bucket."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from dpp.platform.aws.clients import s3_client, unavailable_as
from dpp.platform.aws.signing import PresignedUrl, Signer
from dpp.platform.errors import StorageUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class ObjectStore:
    """One S3 bucket; the client is created at the first call. Raises StorageUnavailable if S3 does not answer."""

    def __init__(
        self, bucket: str, client_factory: "Callable[[], S3Client]" = s3_client, signer: Signer | None = None
    ) -> None:
        self.bucket = bucket
        self._client_factory = client_factory
        self._signer = signer or Signer()

    def put_json(self, key: str, body: bytes) -> None:
        """Write an object of UTF-8 JSON, as `put`."""
        self.put(key, body, "application/json; charset=utf-8")

    def put(self, key: str, body: bytes, content_type: str) -> None:
        """Write or overwrite an object atomically; S3 verifies the checksum."""
        with unavailable_as(StorageUnavailable):
            self._client.put_object(
                Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, ChecksumAlgorithm="SHA256"
            )

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete up to 1,000 objects in one call. Returns the keys that S3 refused, each with its error code.

        A missing object is no error.
        """
        with unavailable_as(StorageUnavailable):
            response = self._client.delete_objects(
                Bucket=self.bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
            )
        return {error["Key"]: error.get("Code", "Unknown") for error in response.get("Errors", ())}

    def get(self, key: str) -> bytes | None:
        """The object's bytes, or None if there is none."""
        with unavailable_as(StorageUnavailable):
            try:
                return self._client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            except self._client.exceptions.NoSuchKey:
                return None

    def presign_get(self, key: str, ttl_seconds: int) -> PresignedUrl:
        """A URL for one object that is valid for at most `ttl_seconds`. Raises CredentialsUnavailable."""
        return self._signer.presign_get(self.bucket, key, ttl_seconds)

    def read_url(self, key: str, seconds: int) -> str:
        """A URL for one object, for a pack process that has no credentials and reads it at once.

        Sends nothing. Unlike a client's URL it needs no known expiry: a function's credentials outlive its timeout.
        """
        with unavailable_as(StorageUnavailable):
            return self._client.generate_presigned_url(
                "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=seconds
            )

    def ping(self) -> None:
        """Check that the bucket exists and is accessible, as a readiness probe."""
        with unavailable_as(StorageUnavailable):
            self._client.head_bucket(Bucket=self.bucket)

    @cached_property
    def _client(self) -> "S3Client":
        return self._client_factory()
