"""The request and the answer of a custom resource (CloudFormation guide, "Custom resources")."""

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

PHYSICAL_ID = "dpp-migrations"
"""Constant: a changed id would mean a replacement, and CloudFormation would delete the old resource."""

_PAUSES_SECONDS = (1.0, 5.0, 15.0)
_MAX_REASON = 1_000  # an answer may have 4 kB in all


class Properties(BaseModel):
    """The template's properties: the hash of this deployment's migrations."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    content_hash: str = Field(alias="ContentHash", pattern=r"^[0-9a-f]{64}$")


class Request(BaseModel):
    """One request. `response_url` is signed and works like a key, so `repr` omits it."""

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
    """Send the answer to CloudFormation, which would otherwise wait until its timeout.

    Raises OSError when every attempt failed.
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
    put = urllib.request.Request(url, data=body, method="PUT", headers={"Content-Type": ""})  # noqa: S310 - http(s) only, by the model
    try:
        with urllib.request.urlopen(put, timeout=10):  # noqa: S310
            return
    except urllib.error.HTTPError as refused:
        refused.close()
        raise OSError(f"CloudFormation's bucket answered {refused.code}") from None
