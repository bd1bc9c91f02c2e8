"""Stands where a deployment's Lambda would, and hands what is invoked to the function `operate` in this process."""

import io
import json
from collections.abc import Mapping
from contextlib import redirect_stdout
from types import SimpleNamespace
from typing import Any

from operate import handler as function
from tests.support.api import lambda_context


class InProcessLambda:
    """A stand-in for botocore's Lambda client. `answer`: an error to raise, or the payload of a failed function."""

    meta = SimpleNamespace(region_name="eu-west-1")

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    def invoke(self, *, FunctionName: str, Payload: bytes) -> Mapping[str, Any]:
        """Invoke the function and wait for its reply."""
        self.asked.append((FunctionName, json.loads(Payload)))
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, dict):
            return {"Payload": _stream(self.answer), "FunctionError": "Unhandled"}
        with redirect_stdout(io.StringIO()):  # the function's log, which its caller doesn't see
            return {"Payload": _stream(function.handler(json.loads(Payload), lambda_context()))}


def _stream(body: Mapping[str, Any]) -> io.BytesIO:
    return io.BytesIO(json.dumps(body).encode())
