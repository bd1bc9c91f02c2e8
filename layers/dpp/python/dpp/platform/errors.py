"""Errors of dependencies that do not answer, for all contexts."""


class DependencyUnavailable(Exception):
    """A dependency refused, timed out or dropped the call. The call may have taken effect."""

    dependency = "dependency"

    def __init__(self, detail: str = "") -> None:
        super().__init__(f"{self.dependency} is unavailable" + (f": {detail}" if detail else ""))


class PostgresUnavailable(DependencyUnavailable):
    """Postgres dropped the call after it was sent; it may have taken effect."""

    dependency = "postgres"


class PostgresNotReached(PostgresUnavailable):
    """No connection could be opened: nothing was sent, so nothing took effect."""


class RedisUnavailable(DependencyUnavailable):
    """Redis refused or dropped the call; a script may have taken effect, which is why each is repeatable."""

    dependency = "redis"


class QueueUnavailable(DependencyUnavailable):
    """SQS refused or dropped the call; the message may have been accepted."""

    dependency = "sqs"


class CredentialsUnavailable(DependencyUnavailable):
    """STS gave no credentials, or the current ones are not usable; nothing was signed."""

    dependency = "sts"


class StorageUnavailable(DependencyUnavailable):
    """S3 refused or dropped the call; the object may have been written."""

    dependency = "s3"


class SecretUnavailable(DependencyUnavailable):
    """Secrets Manager refused or dropped the call; nothing was changed."""

    dependency = "secretsmanager"
