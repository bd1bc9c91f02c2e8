"""Presigned URLs are valid until their stated expiry (RUN-10): STS and S3 by moto, with the test's clock."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.credentials import Credentials, RefreshableCredentials

from dpp.platform.aws import signing
from dpp.platform.aws.clients import AwsKeys, s3_client, sts_client
from dpp.platform.aws.signing import MARGIN_SECONDS, SESSION_SECONDS, Signer, assumed_role, own_keys
from dpp.platform.errors import CredentialsUnavailable
from dpp_cli.local.servers import HOST, free_port

TTL = 600
ROLE = "arn:aws:iam::123456789012:role/dpp-signing"
NOON = datetime(2026, 3, 1, 12, 0, 0, 700_000, tzinfo=UTC)


class Source:
    """A source of sessions of a given length by the test's clock; it counts them."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.now = NOON
        self.sessions = 0
        self.away = False

    def __call__(self) -> AwsKeys:
        if self.away:
            raise CredentialsUnavailable("away")
        self.sessions += 1
        ends = None if self.seconds is None else self.now + timedelta(seconds=self.seconds)
        return AwsKeys(f"ASIA{self.sessions}", "secret", "token", ends)

    def signer(self) -> Signer:
        return Signer(self, now=lambda: self.now)

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}


@pytest.mark.parametrize(
    ("session_seconds", "holds_seconds"),
    [(None, TTL), (3_600, TTL), (TTL, TTL), (TTL - 1, TTL - 1), (45.9, 45), (1, 1)],
)
def test_a_url_expires_with_its_credentials_if_they_expire_first(
    aws: None, session_seconds: float | None, holds_seconds: int
) -> None:
    """RUN-10: stated and signed expiry are the earlier of the two; a second is never rounded up."""
    source = Source(session_seconds)
    signed = source.signer().presign_get("bucket", "k", TTL)
    assert signed.expires_at == (NOON + timedelta(seconds=holds_seconds)).replace(microsecond=0)
    query = query_of(signed.url)
    assert query["X-Amz-Expires"] == str(holds_seconds)
    assert query["X-Amz-Credential"].startswith("ASIA1/")
    assert query["X-Amz-Security-Token"] == "token"


@pytest.mark.parametrize("session_seconds", [0.9, 0, -1])
def test_expired_credentials_sign_nothing(aws: None, session_seconds: float) -> None:
    """RUN-10: no URL is better than an invalid one."""
    with pytest.raises(CredentialsUnavailable, match="expired"):
        Source(session_seconds).signer().presign_get("bucket", "k", TTL)


def test_a_session_is_renewed_when_a_url_and_the_margin_no_longer_fit(aws: None) -> None:
    """RUN-10: one STS call an hour; the renewal is early, so that clocks may differ."""
    source = Source(SESSION_SECONDS)
    signer = source.signer()
    for _ in range(3):
        signer.presign_get("bucket", "k", TTL)
    source.later(SESSION_SECONDS - TTL - MARGIN_SECONDS)
    signer.presign_get("bucket", "k", TTL)
    assert source.sessions == 1
    source.later(1)
    signed = signer.presign_get("bucket", "k", TTL)
    assert source.sessions == 2
    assert query_of(signed.url)["X-Amz-Credential"].startswith("ASIA2/")
    assert query_of(signed.url)["X-Amz-Expires"] == str(TTL)


def test_expired_credentials_of_a_warm_container_are_renewed_first(aws: None) -> None:
    """RUN-10: the container was frozen for hours."""
    source = Source(SESSION_SECONDS)
    signer = source.signer()
    signer.presign_get("bucket", "k", TTL)
    source.later(5 * 3_600)
    signed = signer.presign_get("bucket", "k", TTL)
    assert source.sessions == 2
    assert signed.expires_at == (source.now + timedelta(seconds=TTL)).replace(microsecond=0)


def test_without_sts_nothing_is_signed_with_expiring_credentials(aws: None) -> None:
    """RUN-10: a typed error, which is a 503, until STS is back."""
    source = Source(SESSION_SECONDS)
    signer = source.signer()
    signer.presign_get("bucket", "k", TTL)
    source.later(SESSION_SECONDS - TTL)
    source.away = True
    with pytest.raises(CredentialsUnavailable):
        signer.presign_get("bucket", "k", TTL)
    source.away = False
    assert signer.presign_get("bucket", "k", TTL).expires_at > source.now


class TestAssumedRole:
    """STS by moto."""

    def test_the_session_belongs_to_the_role_for_an_hour(self, aws: None) -> None:
        """RUN-10: its name shows its purpose in the audit trail."""
        asked: list[dict[str, Any]] = []

        class Noting:
            def assume_role(self, **arguments: Any) -> Any:
                asked.append(arguments)
                return sts_client().assume_role(**arguments)

        before = datetime.now(UTC)
        keys = assumed_role(ROLE, lambda: Noting())()  # type: ignore[arg-type,return-value]  # noqa: PLW0108
        assert asked == [{"RoleArn": ROLE, "RoleSessionName": "dpp-presign", "DurationSeconds": 3_600}]
        assert keys.expires_at is not None
        assert keys.session_token
        left = keys.expires_at - before
        assert timedelta(seconds=3_590) < left <= timedelta(seconds=3_610)
        assert "secret" not in repr(keys)
        assert keys.secret_access_key not in repr(keys)

    def test_the_url_reads_the_object(self, aws: None) -> None:
        """RUN-10: only the session signs."""
        bucket = "signed-by-a-role"
        boto3.client("s3").create_bucket(Bucket=bucket)
        signed = Signer(assumed_role(ROLE)).presign_get(bucket, "a b", TTL)
        query = query_of(signed.url)
        assert query["X-Amz-Expires"] == str(TTL)
        assert not query["X-Amz-Credential"].startswith("testing/")
        assert query["X-Amz-Security-Token"]

    def test_a_failure_of_sts_is_a_typed_error(self, aws: None) -> None:
        """RUN-10: the error names neither the role nor the endpoint."""
        nowhere = boto3.client(
            "sts",
            endpoint_url=f"http://{HOST}:{free_port()}",
            config=Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1}),
        )
        with pytest.raises(CredentialsUnavailable) as lost:
            Signer(assumed_role(ROLE, lambda: nowhere)).presign_get("bucket", "k", TTL)
        assert str(lost.value) == "sts is unavailable: EndpointConnectionError"
        with pytest.raises(CredentialsUnavailable) as refused:
            Signer(assumed_role("no role")).presign_get("bucket", "k", TTL)
        assert str(refused.value).startswith("sts is unavailable: ")


class TestOwnKeys:
    """Without a role: the process's own credentials, if their expiry is known."""

    @pytest.fixture
    def given(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[Credentials | None], None]:
        def give(credentials: Credentials | None) -> None:
            monkeypatch.setattr(boto3.Session, "get_credentials", lambda _: credentials)

        return give

    def test_static_ones_never_expire(self, aws: None) -> None:
        """RUN-10: a key without a token is not a session."""
        keys = own_keys()
        assert (keys.access_key_id, keys.session_token) == (os.environ["AWS_ACCESS_KEY_ID"], None)
        assert keys.expires_at is None

    def test_a_known_expiry_is_respected(
        self, aws: None, monkeypatch: pytest.MonkeyPatch, given: Callable[[Credentials | None], None]
    ) -> None:
        """RUN-10: like a container's or a profile's credentials; they are renewed before use."""
        monkeypatch.setattr(RefreshableCredentials, "_advisory_refresh_timeout", 0)
        monkeypatch.setattr(RefreshableCredentials, "_mandatory_refresh_timeout", 0)
        ends = datetime.now(UTC) + timedelta(seconds=90)

        def metadata(ending: datetime) -> dict[str, str]:
            return {"access_key": "A", "secret_key": "s", "token": "t", "expiry_time": ending.isoformat()}

        over = datetime.now(UTC) - timedelta(hours=1)
        given(RefreshableCredentials.create_from_metadata(metadata(over), lambda: metadata(ends), "test"))
        assert own_keys() == AwsKeys("A", "s", "t", ends)
        signed = Signer().presign_get("bucket", "k", TTL)
        assert signed.expires_at <= ends
        assert 80 <= int(query_of(signed.url)["X-Amz-Expires"]) <= 90

    def test_credentials_renewed_with_a_past_expiry_are_refused(
        self, aws: None, given: Callable[[Credentials | None], None]
    ) -> None:
        """RUN-10: botocore's error for it is not an AWS error."""
        over = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        metadata = {"access_key": "A", "secret_key": "s", "token": "t", "expiry_time": over}
        given(RefreshableCredentials.create_from_metadata(metadata, lambda: metadata, "test"))
        with pytest.raises(CredentialsUnavailable, match="expired"):
            own_keys()

    def test_temporary_credentials_without_an_expiry_are_refused(
        self, aws: None, given: Callable[[Credentials | None], None]
    ) -> None:
        """RUN-10: as in a Lambda function's environment; the message names the variable to set."""
        given(Credentials("A", "s", "t"))
        with pytest.raises(CredentialsUnavailable, match="DPP_SIGNING_ROLE_ARN"):
            own_keys()

    @pytest.mark.parametrize("none", [None, Credentials("", "")])
    def test_no_credentials_are_a_typed_error(
        self, aws: None, given: Callable[[Credentials | None], None], none: Credentials | None
    ) -> None:
        """RUN-10."""
        given(none)
        with pytest.raises(CredentialsUnavailable, match="none"):
            own_keys()


def test_a_renewal_with_the_same_keys_creates_no_client(aws: None) -> None:
    """RUN-10: keys near their expiry are fetched again for each URL; a client costs 50 ms."""
    made: list[AwsKeys] = []
    ends = NOON + timedelta(seconds=100)
    keys = AwsKeys("ASIA1", "secret", "token", ends)

    def client(given: AwsKeys) -> Any:
        made.append(given)
        return s3_client(keys=given)

    signer = Signer(lambda: replace(keys), client, now=lambda: NOON)
    assert signer.presign_get("bucket", "k", TTL) == signer.presign_get("bucket", "k", TTL)
    assert made == [keys]
    assert signing.SESSION_NAME == "dpp-presign"
