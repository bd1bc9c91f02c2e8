"""Connects an operator command to a deployment: the one that the environment names, else the running local stack.

The environment has a function's variables: a URL, or on AWS a host and a secret. This module is shipped to Lambda with
the operator commands, so modules of the local stack are imported only when one is used.
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
    """Settings of the database and the ledger, which every operator command uses."""


@dataclass(frozen=True)
class Reach[Needed: Settings]:
    """A located deployment; `endpoint_url` is the local stack's AWS endpoint, None for AWS itself."""

    settings: Needed
    endpoint_url: str | None

    @overload
    def client(self, service: Literal["sqs"], attempts: int | None = None) -> "SQSClient": ...
    @overload
    def client(self, service: Literal["s3"], attempts: int | None = None) -> "S3Client": ...
    def client(self, service: Literal["sqs", "s3"], attempts: int | None = None) -> "SQSClient | S3Client":
        """Return a client for the deployment's AWS; it gives up after `attempts` tries of 4 s each, if given."""
        if self.endpoint_url is None:
            create = sqs_client if service == "sqs" else s3_client
            return create() if attempts is None else create(attempts)
        from dpp_cli.local.localstack import client_session  # noqa: PLC0415

        bounded = None if attempts is None else bounds(attempts)
        return client_session(self.endpoint_url).client(service, endpoint_url=self.endpoint_url, config=bounded)


def reach[Needed: Settings](needed: type[Needed]) -> Reach[Needed]:
    """Locate the deployment and load the needed settings. Raises StackError.

    Settings never come partly from one deployment and partly from another: messages of unknown runs would be dropped,
    or a tenant credited in one and charged in the other. A variable with a default (`DPP_TIME_ZONE`) does not name a
    deployment; if it is the only one set, the local stack is used as it was deployed.
    """
    given = [name for name in needed.identifying() if os.environ.get(name)]
    if given:
        if missing := needed.missing(os.environ):
            raise StackError(f"the environment is incomplete: {', '.join(given)} set; missing: {', '.join(missing)}")
        return Reach(_loaded(needed, os.environ), None)
    from dpp_cli.local.state import running_state  # noqa: PLC0415

    state = running_state()
    return Reach(_loaded(needed, _of_local_stack(state)), state.aws_endpoint_url)


@contextmanager
def opened(
    settings: BackendSettings, *, reply_timeout_seconds: float = REPLY_TIMEOUT_SECONDS
) -> Iterator[tuple[Database, Ledger]]:
    """Yield the database and the ledger; each connects at its first use, both are closed at the end."""
    with closing(Database(settings.database, reply_timeout_seconds=reply_timeout_seconds)) as database:
        ledger = Ledger.connect(settings.redis, cluster=settings.redis_cluster)
        with closing(ledger.client):
            yield database, ledger


def _loaded[Needed: Settings](needed: type[Needed], environ: Mapping[str, str]) -> Needed:
    try:
        return needed.load(environ)
    except ConfigurationError as error:
        raise StackError(str(error)) from None


def _of_local_stack(state: "StackState") -> Mapping[str, str]:
    """Return a deployment's variables, taken from the local stack's state."""
    # A stack deployed by an older version may lack outputs; a command that needs one names the missing variable.
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
"""Stack output by the environment variable that carries its value."""
