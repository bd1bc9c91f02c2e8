"""Start a role's function at once, where somebody has just made work for it.

A wake that is lost costs a minute: the role's schedule finds what there is.
"""

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
    """Wakes by an asynchronous invocation, which Lambda takes and answers at once."""

    def __init__(
        self, functions: Mapping[str, str], client: "Callable[[int], LambdaClient]" = lambda_client
    ) -> None:
        """`functions`: of each role that can be woken, by the role's name."""
        self._functions = functions
        self._make_client = client

    def __call__(self, role: str) -> None:
        """Wake the role; one without a function is left to its schedule."""
        function = self._functions.get(role)
        if function is None:
            return
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - see aws

        try:
            self._client.invoke(FunctionName=function, InvocationType="Event", Payload=b"{}")
        except (BotoCoreError, ClientError) as error:
            told = {"role": role, "error": type(error).__name__}
            _LOG.warning("not woken; its schedule will", extra=told)

    @cached_property
    def _client(self) -> "LambdaClient":
        return self._make_client(_REPLY_SECONDS)
