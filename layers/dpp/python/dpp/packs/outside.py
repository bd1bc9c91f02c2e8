"""Runs a pack in another Lambda function, one that stands outside of the VPC (PLAT-2, RUN-26).

The worker stands beside the database and has no way to the internet. A pack that has to meet the internet is
run by a function that has no way to the database: the same pack process under the same limits, elsewhere.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from pydantic import ValidationError

from dpp.packs.contract import PACK_RESULT, PackFailure, PackReason, PackRequest, PackResult, PackType
from dpp.packs.models.need import needs_model
from dpp.packs.process import PackProcess
from dpp.platform.aws.clients import lambda_client

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

START_SECONDS = 15
"""Time limit for the other function's start, the same as a pack process's; not part of the timebox."""
_REPLY_SECONDS = 2
_TICK_SECONDS = 0.1


class OutsidePacks:
    """Packs as one Lambda function runs them, asked and waited for."""

    def __init__(self, function_name: str, client: "Callable[[int], LambdaClient]" = lambda_client) -> None:
        """`client` is made for a number of seconds that a reply may take."""
        self._function_name = function_name
        self._client = client

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """The result of one job; whatever happens there, this does not raise for it.

        `cancelled` set (the lease is lost): PACK_CANCELLED at once; the other function, which nobody can
        reach any more, ends the job at its timebox, and its result is dropped.
        """
        answers: queue.SimpleQueue[PackResult] = queue.SimpleQueue()
        threading.Thread(target=lambda: answers.put(self._invoke(request)), name="pack-outside", daemon=True).start()
        while not cancelled.is_set():
            with suppress(queue.Empty):
                return answers.get(timeout=_TICK_SECONDS)
        return PackFailure(reason_code=PackReason.PACK_CANCELLED)

    def _invoke(self, request: PackRequest) -> PackResult:
        from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError  # noqa: PLC0415 - see aws

        patience_seconds = request.timebox_sec + START_SECONDS + _REPLY_SECONDS
        try:
            reply = self._client(patience_seconds).invoke(
                FunctionName=self._function_name, Payload=request.model_dump_json().encode()
            )
            payload = reply["Payload"].read()
        except ReadTimeoutError:
            detail = f"no reply within {patience_seconds} s"
            return PackFailure(reason_code=PackReason.PACK_TIMEBOX_EXCEEDED, detail=detail)
        except (BotoCoreError, ClientError) as error:
            return _crashed(f"did not start: {type(error).__name__}")
        if reply.get("FunctionError"):  # its runtime ended it; the payload holds a traceback, which is not ours
            return _crashed(f"the function failed: {reply['FunctionError']}")
        try:
            return PACK_RESULT.validate_json(payload)
        except ValidationError:
            return _crashed("answered no pack result")


class RoutedPacks:
    """Each job where it belongs: what uses the internet is run by `outside`."""

    def __init__(self, inside: PackProcess, outside: OutsidePacks, *, model_uses_internet: bool) -> None:
        self._inside = inside
        self._outside = outside
        self._model_uses_internet = model_uses_internet

    def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
        """The result of one job, within its timebox; `cancelled` ends it at once."""
        asks_model = self._model_uses_internet and needs_model(request.pack_type, request.inputs)
        if asks_model or request.pack_type is PackType.URL:
            return self._outside.run(request, cancelled=cancelled)
        return self._inside.run(request, cancelled=cancelled)

    def prestart(self) -> None:
        """Get the next pack process ready; the function outside keeps one ready of its own."""
        self._inside.prestart()


def _crashed(detail: str) -> PackFailure:
    return PackFailure(reason_code=PackReason.PACK_CRASHED, detail=detail[:200])
