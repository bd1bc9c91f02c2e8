"""An S3 client in memory, as far as objects that are written whole need one; the bucket's name is ignored.

`tests/support/test_memory_aws.py` holds it to the same assertions as moto. `tests/support/s3_server.py` serves it.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError

from dpp.platform.aws.storage import ObjectStore


class NoSuchKey(ClientError):
    """There is no such object."""


class MemoryS3:
    """A client. `objects` are the bodies by key.

    `before_put` is called with each key that is about to be written. `is_away`: no call gets through. `refused`: keys
    that can't be deleted, with S3's code. `deletes`: the keys of each call that deletes.
    """

    exceptions = SimpleNamespace(NoSuchKey=NoSuchKey)

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.modified_at: dict[str, datetime] = {}
        self.before_put: Callable[[str], None] = lambda _key: None
        self.is_away = False
        self.refused: dict[str, str] = {}
        self.deletes: list[tuple[str, ...]] = []

    def store(self, bucket: str = "memory") -> ObjectStore:
        """The platform's adapter over this client."""
        client: Any = self
        return ObjectStore(bucket, lambda: client)

    def create_bucket(self, **_: object) -> dict[str, Any]:
        """There is one bucket, whatever its name."""
        return {}

    def put_object(
        self, *, Key: str, Body: bytes, IfMatch: str | None = None, IfNoneMatch: str | None = None, **_: object
    ) -> dict[str, Any]:
        """Write an object, if the condition holds."""
        self._answer()
        self.before_put(Key)
        etag = self.etag(Key)
        unmatched = IfMatch is not None and (etag is None or etag.strip('"') != IfMatch.strip('"'))
        if unmatched or (IfNoneMatch == "*" and etag is not None):
            raise _error("PreconditionFailed", 412, "PutObject")
        self.objects[Key] = Body
        self.modified_at[Key] = datetime.now(UTC)
        return {"ETag": self.etag(Key)}

    def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:
        """Read an object."""
        return self.head_object(Key=Key) | {"Body": BytesIO(self.objects[Key])}

    def head_object(self, *, Key: str, **_: object) -> dict[str, Any]:
        """An object's metadata."""
        self._answer()
        if Key not in self.objects:
            raise _error("NoSuchKey", 404, "GetObject", NoSuchKey)
        return {
            "ETag": self.etag(Key),
            "ContentLength": len(self.objects[Key]),
            "LastModified": self.modified_at.get(Key, datetime.now(UTC)),
        }

    def delete_object(self, *, Key: str, **_: object) -> dict[str, Any]:
        """Delete one object."""
        self._answer()
        self.objects.pop(Key, None)
        return {}

    def delete_objects(self, *, Delete: Mapping[str, Any], **_: object) -> dict[str, Any]:
        """Delete objects, each by itself."""
        keys = tuple(one["Key"] for one in Delete["Objects"])
        self.deletes.append(keys)
        self._answer()
        for key in set(keys) - set(self.refused):
            self.objects.pop(key, None)
        return {"Errors": [{"Key": key, "Code": self.refused[key]} for key in keys if key in self.refused]}

    def list_objects_v2(self, **_: object) -> dict[str, Any]:
        """List all objects, in one page."""
        self._answer()
        return {"Contents": [{"Key": key, "Size": len(self.objects[key])} for key in sorted(self.objects)]}

    def etag(self, key: str) -> str | None:
        """The object's entity tag: the same for the same bytes."""
        body = self.objects.get(key)
        return None if body is None else f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'

    def _answer(self) -> None:
        if self.is_away:
            raise EndpointConnectionError(endpoint_url="http://s3.memory")


def _error(code: str, status: int, operation: str, kind: type[ClientError] = ClientError) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return kind(response, operation)
