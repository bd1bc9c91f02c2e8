"""The function outside of the network, asked by Lambda's own call (PLAT-2)."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from pydantic import ValidationError

from dpp.lifecycle.flow.errors import OutsideUnavailable
from dpp.lifecycle.flow.ports import OutsideReply, OutsideRequest
from dpp.platform.aws.clients import lambda_client

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

REPLY_SECONDS = 19
"""Longer than the other side's own patience (egress), its start included."""


class OutsideFunction:
    """The way to the internet through one Lambda function."""

    def __init__(self, function_name: str, client: "Callable[[int], LambdaClient]" = lambda_client) -> None:
        """`client` is made for a number of seconds that a reply may take."""
        self._function_name = function_name
        self._make_client = client

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """One request, tried once. Raises OutsideUnavailable where no whole reply came, and it quotes none of it."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError  # noqa: PLC0415 - see aws

        try:
            reply = self._client.invoke(
                FunctionName=self._function_name, Payload=request.model_dump_json().encode()
            )
            payload = reply["Payload"].read()
        except (BotoCoreError, ClientError, HTTPClientError) as error:
            raise OutsideUnavailable(type(error).__name__) from None
        if reply.get("FunctionError"):  # the payload holds a traceback, which is not ours
            raise OutsideUnavailable("the function failed")
        try:
            return OutsideReply.model_validate_json(payload)
        except ValidationError:
            raise OutsideUnavailable("answered no reply") from None

    @cached_property
    def _client(self) -> "LambdaClient":
        return self._make_client(REPLY_SECONDS)
