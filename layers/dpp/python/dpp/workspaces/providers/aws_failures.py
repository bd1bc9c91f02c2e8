"""Translate errors of ECS and EFS to the errors of the ports."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpp.workspaces.errors import OperationFailed, ProviderUnavailable

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

MESSAGE_CHARACTERS = 200

_REJECTIONS = frozenset(
    {
        "BadRequest",
        "ClientException",
        "InvalidParameterException",
        "PlatformTaskDefinitionIncompatibilityException",
        "PlatformUnknownException",
        "UnsupportedFeatureException",
        "ValidationException",
    }
)
_LIMITS = {
    "AccessPointLimitExceeded": "AccessPointLimitReached",
    "LimitExceededException": "ContainerLimitReached",
    "ServiceQuotaExceededException": "ContainerLimitReached",
}
# ECS returns these with the code of a rejection, but accepts the same call a moment later.
_TRANSIENT = ("not idempotent", "still draining", "too many concurrent")
_ARN = re.compile(r"arn:aws[a-z-]*:[^\s'\",)]*[:/]([^\s'\",)/:]+)")
_ACCOUNT = re.compile(r"\b[0-9]{12}\b")


@contextmanager
def provider_failures(rejected: str) -> Iterator[None]:
    """Translate an error to ProviderUnavailable, or to OperationFailed `rejected` if AWS refused the call.

    A refusal isn't terminal, since ECS uses the same codes for transient causes (a role that IAM has not propagated
    yet) and permanent ones (an invalid image); the reconciler limits the retries. A fault of the deployment (no
    permission, no cluster) counts as an outage, not as a failure of the operation.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        yield
    except BotoCoreError as cause:
        raise ProviderUnavailable(type(cause).__name__) from cause
    except ClientError as cause:
        raise _translated(cause, rejected) from cause


def code_of(error: "ClientError") -> str:
    """The error code of AWS."""
    return error.response.get("Error", {}).get("Code", "")


def redact_account(message: str) -> str:
    """A message of AWS, shortened, with ARNs reduced to names and without account ids."""
    bare = _ACCOUNT.sub("…", _ARN.sub(r"\1", message))
    return bare if len(bare) <= MESSAGE_CHARACTERS else bare[: MESSAGE_CHARACTERS - 1] + "…"


def _translated(cause: "ClientError", rejected: str) -> Exception:
    code, message = code_of(cause), cause.response.get("Error", {}).get("Message", "")
    if any(words in message.lower() for words in _TRANSIENT):
        return ProviderUnavailable(code)
    if code in _LIMITS:
        return OperationFailed(_LIMITS[code], redact_account(message))
    if code in _REJECTIONS:
        return OperationFailed(rejected, redact_account(message))
    return ProviderUnavailable(code)
