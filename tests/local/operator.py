"""Stands where a deployment's Lambda would, and hands what is invoked to the function `operate` in this process."""

import io
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from operate import handler as function
from tests.support.api import lambda_context


class InProcessLambda:
    """As botocore's client answers. `answer`: an error to raise, or what a function that failed tells."""

    meta = SimpleNamespace(region_name="eu-west-1")

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    def invoke(self, *, FunctionName: str, Payload: bytes) -> Mapping[str, Any]:
        """One invocation, waited for."""
        self.asked.append((FunctionName, json.loads(Payload)))
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, dict):
            return {"Payload": _stream(self.answer), "FunctionError": "Unhandled"}
        return {"Payload": _stream(function.handler(json.loads(Payload), lambda_context()))}


def _stream(body: Mapping[str, Any]) -> io.BytesIO:
    return io.BytesIO(json.dumps(body).encode())
