"""Invokes a role's function as soon as it has work. A lost invocation costs at most a minute, until its schedule."""

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from dpp.platform.aws.clients import lambda_client

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

_LOG = logging.getLogger("dpp.lifecycle.flow.wake")
_REPLY_SECONDS = 3


class WakeByInvocation:
    """Wakes a role by an asynchronous invocation, to which Lambda replies at once."""

    def __init__(self, functions: Mapping[str, str], client: "Callable[[int], LambdaClient]" = lambda_client) -> None:
        """`functions`: the function name of each role that can be woken."""
        self._functions = functions
        self._make_client = client

    def __call__(self, role: str) -> None:
        """Wake the role; without a function, its schedule finds the work."""
        function = self._functions.get(role)
        if function is None:
            return
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - see aws

        try:
            self._client.invoke(FunctionName=function, InvocationType="Event", Payload=b"{}")
        except (BotoCoreError, ClientError) as error:
            extra = {"role": role, "error": type(error).__name__}
            _LOG.warning("the role could not be woken; its schedule will start it", extra=extra)

    @cached_property
    def _client(self) -> "LambdaClient":
        return self._make_client(_REPLY_SECONDS)
