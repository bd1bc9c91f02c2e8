"""What an operator's command works on: the deployment that the environment names, else the running local stack.

The environment is that of a function: a URL, or on AWS a host and a secret. This module goes to Lambda with the
operator commands, so what it needs of the local stack is imported where there is one.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

from dpp.money.ledger import Ledger
from dpp.platform.aws.clients import bounds, s3_client, sqs_client
from dpp.platform.config import ConfigurationError, PostgresSettings, RedisSettings, Settings
from dpp.platform.db.postgres import REPLY_TIMEOUT_SECONDS, Database
from dpp_cli.errors import StackError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

    from dpp_cli.local.state import StackState


class BackendSettings(PostgresSettings, RedisSettings):
    """The rows, and the ledger beside them: what every operator command works on."""


@dataclass(frozen=True)
class Reach[Wanted: Settings]:
    """Where everything that was wanted is; `endpoint_url` is the local stack's AWS, None for AWS itself."""

    settings: Wanted
    endpoint_url: str | None

    @overload
    def client(self, service: Literal["sqs"], attempts: int | None = None) -> "SQSClient": ...
    @overload
    def client(self, service: Literal["s3"], attempts: int | None = None) -> "S3Client": ...
    def client(self, service: Literal["sqs", "s3"], attempts: int | None = None) -> "SQSClient | S3Client":
        """A client of the same deployment's AWS; with `attempts`, one that gives up after so many of 4 s each."""
        if self.endpoint_url is None:
            made = sqs_client if service == "sqs" else s3_client
            return made() if attempts is None else made(attempts)
        from dpp_cli.local.localstack import client_session  # noqa: PLC0415

        bounded = None if attempts is None else bounds(attempts)
        return client_session(self.endpoint_url).client(
            service, endpoint_url=self.endpoint_url, config=bounded
        )


def reach[Wanted: Settings](wanted: type[Wanted]) -> Reach[Wanted]:
    """Find everything that is wanted. Raises StackError.

    Never some of the one deployment and some of the other: an unknown run's message would be dropped, or a tenant
    credited in one and charged in the other. A variable that has a default (`DPP_TIME_ZONE`) names no deployment, and
    counts for nothing where the others name none: the local stack is as it was deployed.
    """
    given = [name for name in wanted.telling() if os.environ.get(name)]
    if given:
        if missing := wanted.missing(os.environ):
            raise StackError(f"{', '.join(given)} set; missing: {', '.join(missing)}")
        return Reach(_loaded(wanted, os.environ), None)
    from dpp_cli.local.state import running_state  # noqa: PLC0415

    state = running_state()
    return Reach(_loaded(wanted, _of_local_stack(state)), state.aws_endpoint_url)


@contextmanager
def opened(
    settings: BackendSettings, *, reply_timeout_seconds: float = REPLY_TIMEOUT_SECONDS
) -> Iterator[tuple[Database, Ledger]]:
    """The rows and the ledger, each connected when it is first asked, both closed at the end."""
    with closing(Database(settings.database, reply_timeout_seconds=reply_timeout_seconds)) as database:
        ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
        with closing(ledger.client):
            yield database, ledger


def _loaded[Wanted: Settings](wanted: type[Wanted], environ: Mapping[str, str]) -> Wanted:
    try:
        return wanted.load(environ)
    except ConfigurationError as error:
        raise StackError(str(error)) from None


def _of_local_stack(state: "StackState") -> Mapping[str, str]:
    """What a deployment's environment says, as the local stack's state has it."""
    # One that an older version deployed may lack some: what a command then misses, it names.
    deployed = {variable: state.outputs.get(output, "") for variable, output in _OUTPUTS.items()}
    return {"DATABASE_URL": state.database_url, "REDIS_URL": state.redis_url, **deployed}


_OUTPUTS: Mapping[str, str] = {
    "DPP_RESULTS_BUCKET": "ResultsBucket",
    "DPP_REPORTS_BUCKET": "ReportsBucket",
    "DPP_STATE_BUCKET": "StateBucket",
    "DPP_RUN_QUEUE_URL": "RunQueueUrl",
    "DPP_RUN_DEAD_LETTER_QUEUE_URL": "RunDeadLetterQueueUrl",
    "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL": "AuthErrorDeadLetterQueueUrl",
    "DPP_AUTH_ERROR_WAKE_QUEUE_URL": "AuthErrorWakeQueueUrl",
    "DPP_ARCHIVES_BUCKET": "ArchivesBucket",
    "DPP_WORKSPACE_LOOK_QUEUE_URL": "WorkspaceLookQueueUrl",
    "DPP_WORKSPACE_WORK_QUEUE_URL": "WorkspaceWorkQueueUrl",
}
"""What a deployment's outputs are called, by the variable that a function is told them in."""
