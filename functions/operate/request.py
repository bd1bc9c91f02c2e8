"""The request and the reply of `operate`, within Lambda's limits."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpp.platform.keys.tokens import without_secrets

MAX_REPLY_BYTES = 5_000_000
"""The limit of both streams as JSON. Lambda's own is 6 MB (Lambda guide, "Lambda quotas"); a truncated reply that says
so is better than an error."""

_ANSWER = ("lifecycle", "answer")
_TASK_ID = re.compile(r"task-[0-9]{8}-[0-9]{3,9}", re.ASCII)
_MAX_WORDS = 1_100  # `dlq drop` may name a thousand


class BadEvent(Exception):
    """The event is not a valid request. The message says why and quotes no value of it."""


class Request(BaseModel):
    """One command. `columns`: the width of tables."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    words: Annotated[
        tuple[Annotated[str, Field(max_length=2_000)], ...], Field(min_length=1, max_length=_MAX_WORDS, strict=False)
    ]
    columns: Annotated[int, Field(ge=40, le=1_000)] = 160


def read(event: object) -> Request:
    """The event as a request. Raises BadEvent."""
    try:
        return Request.model_validate(event)
    except ValidationError as error:
        faults = (": ".join((".".join(map(str, one["loc"])) or "event", one["msg"])) for one in error.errors())
        raise BadEvent(f'{"; ".join(faults)}. It looks like {{"words": ["ledger", "check"]}}') from None


def loggable(words: Sequence[str]) -> list[str]:
    """The words for the log: without secrets, and without the text of an answer to a task (RUN-31)."""
    if tuple(words[:2]) == _ANSWER:
        return [word if n < len(_ANSWER) or _TASK_ID.fullmatch(word) else "…" for n, word in enumerate(words)]
    return [without_secrets(word) for word in words]


def reply(exit_code: int, stdout: str, stderr: str) -> Mapping[str, Any]:
    """Build the reply. A stream that is too long is truncated, and the last line of stderr says so."""
    kept_errors = _cut(stderr, MAX_REPLY_BYTES // 5)
    kept = _cut(stdout, MAX_REPLY_BYTES * 4 // 5)
    notes = [
        f"error: {name} was truncated after {len(short)} of {len(whole)} characters: a reply cannot be longer;"
        " narrow the command\n"
        for name, short, whole in (("stdout", kept, stdout), ("stderr", kept_errors, stderr))
        if short is not whole
    ]
    return {"exit_code": exit_code, "stdout": kept, "stderr": "".join([kept_errors, *notes])}


def _cut(text: str, max_bytes: int) -> str:
    """The longest prefix that fits as ASCII JSON, the longest encoding of a reply."""
    size = len(json.dumps(text))
    while size > max_bytes:
        text = text[: len(text) * max_bytes // size]
        size = len(json.dumps(text))
    return text
