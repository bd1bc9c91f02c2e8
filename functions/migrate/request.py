"""What CloudFormation asks of a custom resource, and how it is answered (CloudFormation guide, "Custom resources")."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PHYSICAL_ID = "dpp-migrations"
"""Always the same: another one would mean a replacement, and the old one be deleted."""

_PAUSES_SECONDS = (1.0, 5.0, 15.0)
_MAX_REASON = 1_000  # an answer has 4 kB in all


class Properties(BaseModel):
    """What the template says: the hash of the migrations that this deployment wants."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    content_hash: str = Field(alias="ContentHash", pattern=r"^[0-9a-f]{64}$")


class Request(BaseModel):
    """One request. `response_url` is signed, and as good as a key: kept out of `repr`."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    request_type: Literal["Create", "Update", "Delete"] = Field(alias="RequestType")
    response_url: str = Field(alias="ResponseURL", pattern=r"^https?://", repr=False)
    stack_id: str = Field(alias="StackId")
    request_id: str = Field(alias="RequestId")
    logical_id: str = Field(alias="LogicalResourceId")
    physical_id: str = Field(default=PHYSICAL_ID, alias="PhysicalResourceId")
    properties: Properties = Field(alias="ResourceProperties")


def answer(
    request: Request,
    *,
    failed_because: str | None,
    pauses_seconds: Sequence[float] = _PAUSES_SECONDS,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Tell CloudFormation; without an answer it would wait to the end of its patience.

    Raises OSError when nobody took it, after some tries.
    """
    document = {
        "Status": "SUCCESS" if failed_because is None else "FAILED",
        "Reason": (failed_because or "")[:_MAX_REASON],
        "PhysicalResourceId": request.physical_id,
        "StackId": request.stack_id,
        "RequestId": request.request_id,
        "LogicalResourceId": request.logical_id,
    }
    body = json.dumps(document).encode()
    for pause in pauses_seconds:
        try:
            return _put(request.response_url, body)
        except (OSError, http.client.HTTPException):
            sleep(pause)
    return _put(request.response_url, body)


def _put(url: str, body: bytes) -> None:
    # The URL was signed without a content type; urllib would add one.
    asked = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310 - http(s), as the model says
    try:
        with urllib.request.urlopen(asked, timeout=10):  # noqa: S310
            return
    except urllib.error.HTTPError as refused:
        refused.close()
        raise OSError(f"CloudFormation's bucket answered {refused.code}") from None
