"""Signs presigned URLs and calculates how long they are valid (RUN-10).

A URL signed with temporary credentials expires with them, whatever its own expiry says (S3 guide, "Download and upload
objects with presigned URLs"). A function's credentials come from its environment, which does not say when they expire.
So a function that signs assumes a role for that, and STS returns the session's expiry.

AWS checks the expiry of a session and of a signature by its own clock, so the earlier of the two is correct even if
this machine's clock is wrong. The clock here only decides when to renew a session; `MARGIN_SECONDS` is how far it may
be behind before a URL is valid for less time than possible.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dpp.platform.aws.clients import AwsKeys, s3_client, sts_client, unavailable_as
from dpp.platform.errors import CredentialsUnavailable, StorageUnavailable

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sts import STSClient

_LOG = logging.getLogger("dpp.signing")
SESSION_SECONDS = 3_600
"""The longest session of a role assumed by a role, such as a function's (IAM guide, "Role chaining")."""
MARGIN_SECONDS = 300
SESSION_NAME = "dpp-presign"

type KeySource = Callable[[], AwsKeys]


@dataclass(frozen=True, slots=True)
class PresignedUrl:
    """A URL that reads one object without credentials until `expires_at`."""

    url: str
    expires_at: datetime


def own_keys() -> AwsKeys:
    """This process's credentials. Raises CredentialsUnavailable for temporary ones without a known expiry."""
    import boto3  # noqa: PLC0415 - as in `dpp.platform.aws.clients`

    with unavailable_as(CredentialsUnavailable):
        credentials = boto3.Session().get_credentials()
        if credentials is None:
            raise CredentialsUnavailable("there are none")
        try:
            frozen = credentials.get_frozen_credentials()  # renews them first if possible
        except RuntimeError as error:  # raised by botocore if they are still expired after the renewal
            raise CredentialsUnavailable("they have expired") from error
    if not (frozen.access_key and frozen.secret_key):
        raise CredentialsUnavailable("there are none")
    # Private, but there is no other way: the AWS CLI's `export-credentials` reads the same attribute.
    expires_at: datetime | None = getattr(credentials, "_expiry_time", None)
    if frozen.token and expires_at is None:
        raise CredentialsUnavailable("they are temporary and have no known expiry; set DPP_SIGNING_ROLE_ARN")
    return AwsKeys(frozen.access_key, frozen.secret_key, frozen.token, expires_at)


def assumed_role(role_arn: str, client_factory: "Callable[[], STSClient]" = sts_client) -> KeySource:
    """A source that opens a new session of the role at each call, and raises CredentialsUnavailable on failure."""

    def keys() -> AwsKeys:
        with unavailable_as(CredentialsUnavailable):
            given = client_factory().assume_role(
                RoleArn=role_arn, RoleSessionName=SESSION_NAME, DurationSeconds=SESSION_SECONDS
            )["Credentials"]
        return AwsKeys(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], given["Expiration"])

    return keys


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Signer:
    """Signs URLs with the keys of `source`, and renews them before they would shorten a URL. Not thread-safe."""

    def __init__(
        self,
        source: KeySource = own_keys,
        client_factory: "Callable[[AwsKeys], S3Client]" = lambda keys: s3_client(keys=keys),
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._source = source
        self._client_factory = client_factory
        self._now = now
        self._held: tuple[AwsKeys, S3Client] | None = None

    def presign_get(self, bucket: str, key: str, ttl_seconds: int) -> PresignedUrl:
        """Sign a URL for one object. Sends nothing to S3.

        `expires_at` is never later than the real expiry: the time starts before the signature and ends with the
        credentials. Raises CredentialsUnavailable if there are no valid ones.
        """
        keys, client = self._renewed(ttl_seconds)
        now = self._now()
        seconds = ttl_seconds
        if keys.expires_at is not None:
            seconds = min(ttl_seconds, int((keys.expires_at - now).total_seconds()))
        if seconds < 1:
            raise CredentialsUnavailable("they have expired")
        with unavailable_as(StorageUnavailable):
            url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=seconds)
        return PresignedUrl(url, (now + timedelta(seconds=seconds)).replace(microsecond=0))

    def _renewed(self, ttl_seconds: int) -> "tuple[AwsKeys, S3Client]":
        """Keys that outlast a URL signed now, if the source has such keys, and a client that signs with them."""
        if self._held is None or not self._outlasts(self._held[0], ttl_seconds):
            keys = self._source()
            if self._held is None or keys != self._held[0]:
                self._held = (keys, self._client_factory(keys))
                _LOG.info("signing keys renewed", extra={"expires_at": keys.expires_at})
        return self._held

    def _outlasts(self, keys: AwsKeys, ttl_seconds: int) -> bool:
        if keys.expires_at is None:
            return True
        return keys.expires_at >= self._now() + timedelta(seconds=ttl_seconds + MARGIN_SECONDS)
