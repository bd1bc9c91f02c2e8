"""AWS clients: created once per container, with timeouts; boto3 is imported only at the first use."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from dpp.platform.errors import DependencyUnavailable

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_ecs import ECSClient
    from mypy_boto3_efs import EFSClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_secretsmanager import SecretsManagerClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sts import STSClient

_CONNECT_TIMEOUT_SECONDS = 1
_READ_TIMEOUT_SECONDS = 3
_ATTEMPTS = 2
LONGEST_CALL_SECONDS = _ATTEMPTS * (_CONNECT_TIMEOUT_SECONDS + _READ_TIMEOUT_SECONDS) + 1
"""The longest duration of a call to a server that never answers: the attempts, and up to a second between them
(botocore's mode "standard").

A third attempt would make it 15 s, the whole timeout of an API function, which would be killed before it could release
its reservation. `make bench-load` at 25 times the knee: a submit whose send failed took 12.5 s at the median with three
attempts, 7.4 s with two.
"""


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """A set of credentials; `expires_at` None means that it never expires."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    expires_at: datetime | None


def sqs_client(attempts: int = _ATTEMPTS) -> "SQSClient":
    """An SQS client; a call gives up after about 4 s an attempt."""
    import boto3  # noqa: PLC0415 - 185 ms, which a container that never sends saves

    return boto3.client("sqs", config=bounds(attempts))


def s3_client(attempts: int = _ATTEMPTS, keys: AwsKeys | None = None) -> "S3Client":
    """An S3 client that signs with version 4, which presigned URLs need; `keys` replace its own credentials."""
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    # Path-style addresses resolve on AWS and on a loopback endpoint alike.
    signing = Config(signature_version="s3v4", s3={"addressing_style": "path"})
    config = bounds(attempts).merge(signing)
    if keys is None:
        return boto3.client("s3", config=config)
    return boto3.client(
        "s3",
        config=config,
        aws_access_key_id=keys.access_key_id,
        aws_secret_access_key=keys.secret_access_key,
        aws_session_token=keys.session_token,
    )


def sts_client(attempts: int = _ATTEMPTS) -> "STSClient":
    """An STS client."""
    import boto3  # noqa: PLC0415

    return boto3.client("sts", config=bounds(attempts))


def lambda_client(reply_seconds: int) -> "LambdaClient":
    """A Lambda client that waits `reply_seconds` and never retries: a second call would run the job twice."""
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    return boto3.client("lambda", config=bounds(1).merge(Config(read_timeout=reply_seconds)))


def secrets_client(attempts: int = _ATTEMPTS) -> "SecretsManagerClient":
    """A Secrets Manager client; a call gives up after about 4 s an attempt."""
    import boto3  # noqa: PLC0415

    return boto3.client("secretsmanager", config=bounds(attempts))


def ecs_client(attempts: int = _ATTEMPTS) -> "ECSClient":
    """An ECS client; a call gives up after about 4 s an attempt."""
    import boto3  # noqa: PLC0415

    return boto3.client("ecs", config=bounds(attempts))


def efs_client(attempts: int = _ATTEMPTS) -> "EFSClient":
    """An EFS client; a call gives up after about 4 s an attempt."""
    import boto3  # noqa: PLC0415

    return boto3.client("efs", config=bounds(attempts))


def bounds(attempts: int) -> "Config":
    """Timeouts: a call gives up after about 4 s an attempt."""
    from botocore.config import Config  # noqa: PLC0415

    return Config(
        connect_timeout=_CONNECT_TIMEOUT_SECONDS,
        read_timeout=_READ_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )


@contextmanager
def unavailable_as(error: type[DependencyUnavailable]) -> Iterator[None]:
    """Turn every failure of an AWS call into `error`, whose message is the failure's class and no data of the call."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        yield
    except (BotoCoreError, ClientError) as cause:
        raise error(type(cause).__name__) from cause
