"""How ECS and EFS say that they can't, in the words of the contract (dpp/workspaces/ports.py)."""

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
# ECS says these with the code of a rejection, and takes the same call a moment later.
_PASSING = ("not idempotent", "still draining", "too many concurrent")
_ARN = re.compile(r"arn:aws[a-z-]*:[^\s'\",)]*[:/]([^\s'\",)/:]+)")
_ACCOUNT = re.compile(r"\b[0-9]{12}\b")


@contextmanager
def provider_failures(rejected: str) -> Iterator[None]:
    """Turn a failure into ProviderUnavailable, or into OperationFailed where AWS refused what was asked for.

    `rejected`: the reason then. A refusal isn't terminal, since ECS has the same codes for what passes (a role that IAM
    has not spread yet) as for what doesn't (an image that can't be); how often to try is the reconciler's to say. What
    is wrong with the deployment and not with this workspace (no permission, no cluster) is an outage like any other:
    nothing of it is held against the operation.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

    try:
        yield
    except BotoCoreError as cause:
        raise ProviderUnavailable(type(cause).__name__) from cause
    except ClientError as cause:
        raise _told(cause, rejected) from cause


def code_of(error: "ClientError") -> str:
    """What AWS calls the failure."""
    return error.response.get("Error", {}).get("Code", "")


def without_account(message: str) -> str:
    """A message of AWS, cut short, whose ARNs are names and which tells no account's number."""
    bare = _ACCOUNT.sub("…", _ARN.sub(r"\1", message))
    return bare if len(bare) <= MESSAGE_CHARACTERS else bare[: MESSAGE_CHARACTERS - 1] + "…"


def _told(cause: "ClientError", rejected: str) -> Exception:
    code, message = code_of(cause), cause.response.get("Error", {}).get("Message", "")
    if any(words in message.lower() for words in _PASSING):
        return ProviderUnavailable(code)
    if code in _LIMITS:
        return OperationFailed(_LIMITS[code], without_account(message))
    if code in _REJECTIONS:
        return OperationFailed(rejected, without_account(message))
    return ProviderUnavailable(code)
