"""AWS clients: made once a container, bounded in time, importing boto3 only when first needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpp.platform.errors import DependencyUnavailable

if TYPE_CHECKING:
    from botocore.config import Config
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

_CONNECT_TIMEOUT_SECONDS = 1
_READ_TIMEOUT_SECONDS = 3
_ATTEMPTS = 3


def sqs_client(attempts: int = _ATTEMPTS) -> "SQSClient":
    """An SQS client; a call gives up after about 4 s an attempt."""
    import boto3  # noqa: PLC0415 - 185 ms that a container which never sends need not pay

    return boto3.client("sqs", config=_bounds(attempts))


def s3_client(attempts: int = _ATTEMPTS) -> "S3Client":
    """An S3 client signing with version 4, which presigned URLs need."""
    import boto3  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    # A path always resolves, at AWS and on a loopback endpoint alike.
    signing = Config(signature_version="s3v4", s3={"addressing_style": "path"})
    return boto3.client("s3", config=_bounds(attempts).merge(signing))


def _bounds(attempts: int) -> "Config":
    from botocore.config import Config  # noqa: PLC0415

    return Config(
        connect_timeout=_CONNECT_TIMEOUT_SECONDS,
        read_timeout=_READ_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )


@contextmanager
def unavailable_as(error: type[DependencyUnavailable]) -> Iterator[None]:
    """Turn every failure of AWS to carry out a call into `error`, which names its class and nothing of the call."""
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        yield
    except (BotoCoreError, ClientError) as cause:
        raise error(type(cause).__name__) from cause
