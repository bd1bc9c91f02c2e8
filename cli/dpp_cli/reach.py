"""What an operator's command works on: the deployment that the environment names, else the running local stack."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, overload

import boto3

from dpp.platform.aws import s3_client, sqs_client
from dpp_cli.local.localstack import client_environment
from dpp_cli.local.state import StackError, StackState, running_state

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

type Wanted = Mapping[str, Callable[[StackState], str]]
"""Names of environment variables, and where the local stack's state has the same."""

DATABASE: Wanted = {"DATABASE_URL": lambda state: state.database_url}
REDIS: Wanted = {"REDIS_URL": lambda state: state.redis_url}


@dataclass(frozen=True)
class Reach:
    """The values that were wanted, by variable; `endpoint_url` is the local stack's AWS, None for AWS itself."""

    values: Mapping[str, str]
    endpoint_url: str | None

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    @overload
    def client(self, service: Literal["sqs"]) -> "SQSClient": ...
    @overload
    def client(self, service: Literal["s3"]) -> "S3Client": ...
    def client(self, service: Literal["sqs", "s3"]) -> "SQSClient | S3Client":
        """A client of the same deployment's AWS."""
        if self.endpoint_url is None:
            return sqs_client() if service == "sqs" else s3_client()
        keys = client_environment(self.endpoint_url)
        session = boto3.Session(
            region_name=keys["AWS_REGION"],
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
        )
        return session.client(service, endpoint_url=self.endpoint_url)


def reach(wanted: Wanted) -> Reach:
    """Find everything that is wanted. Raises StackError.

    Never some of the one deployment and some of the other: an unknown run's message would be dropped, or a tenant
    credited in one and charged in the other.
    """
    given = {name: os.environ[name] for name in wanted if os.environ.get(name)}
    if given:
        if missing := [name for name in wanted if name not in given]:
            raise StackError(f"{', '.join(given)} set, so {', '.join(missing)} must be set, too")
        return Reach(given, None)
    state = running_state()
    return Reach({name: find(state) for name, find in wanted.items()}, state.aws_endpoint_url)
