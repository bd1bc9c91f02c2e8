"""The client of the function outside the VPC, which it invokes directly (PLAT-2)."""

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
"""Longer than the deadline of the other side (egress), including its cold start."""


class OutsideFunction:
    """The `Outside` port by one Lambda function."""

    def __init__(self, function_name: str, client: "Callable[[int], LambdaClient]" = lambda_client) -> None:
        """`client` creates a Lambda client with a timeout in seconds."""
        self._function_name = function_name
        self._make_client = client

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """Send one request once. Raises OutsideUnavailable, which quotes no part of a reply, if no complete reply was
        received."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError  # noqa: PLC0415 - see aws

        try:
            reply = self._client.invoke(FunctionName=self._function_name, Payload=request.model_dump_json().encode())
            payload = reply["Payload"].read()
        except (BotoCoreError, ClientError, HTTPClientError) as error:
            raise OutsideUnavailable(type(error).__name__) from None
        if reply.get("FunctionError"):  # the payload holds a traceback of the other function
            raise OutsideUnavailable("the function failed")
        try:
            return OutsideReply.model_validate_json(payload)
        except ValidationError:
            raise OutsideUnavailable("the function returned no valid reply") from None

    @cached_property
    def _client(self) -> "LambdaClient":
        return self._make_client(REPLY_SECONDS)
