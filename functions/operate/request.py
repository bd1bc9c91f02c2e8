"""What `operate` is asked and what it answers, within what Lambda lets through."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpp.platform.keys.tokens import without_secrets

MAX_REPLY_BYTES = 5_000_000
"""Of both streams as JSON. Lambda takes 6 MB (Lambda guide, "Lambda quotas"); a cut that says so beats an error."""

_ANSWER = ("lifecycle", "answer")
_TASK_ID = re.compile(r"task-[0-9]{8}-[0-9]{3,9}", re.ASCII)
_MAX_WORDS = 1_100  # `dlq drop` may name a thousand


class BadEvent(Exception):
    """The event is no request; the message says what is wrong with it, not what is in it."""


class Request(BaseModel):
    """One command. `columns`: how wide tables may be."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    words: Annotated[
        tuple[Annotated[str, Field(max_length=2_000)], ...],
        Field(min_length=1, max_length=_MAX_WORDS, strict=False),
    ]
    columns: Annotated[int, Field(ge=40, le=1_000)] = 160


def read(event: object) -> Request:
    """The event as a request. Raises BadEvent."""
    try:
        return Request.model_validate(event)
    except ValidationError as error:
        faults = (
            ": ".join((".".join(map(str, one["loc"])) or "event", one["msg"])) for one in error.errors()
        )
        raise BadEvent(f'{"; ".join(faults)}. It looks like {{"words": ["ledger", "check"]}}') from None


def loggable(words: Sequence[str]) -> list[str]:
    """The words as the log keeps them: without secrets, and of an answer to a task without what was said (RUN-31)."""
    if tuple(words[:2]) == _ANSWER:
        return [word if n < len(_ANSWER) or _TASK_ID.fullmatch(word) else "…" for n, word in enumerate(words)]
    return [without_secrets(word) for word in words]


def reply(exit_code: int, stdout: str, stderr: str) -> Mapping[str, Any]:
    """The answer. What is longer than a reply holds is cut, and stderr's last line says so."""
    kept_errors = _cut(stderr, MAX_REPLY_BYTES // 5)
    kept = _cut(stdout, MAX_REPLY_BYTES * 4 // 5)
    told = [
        f"error: {name} was cut after {len(short)} of {len(whole)} characters: a reply holds no more; ask for less\n"
        for name, short, whole in (("stdout", kept, stdout), ("stderr", kept_errors, stderr))
        if short is not whole
    ]
    return {"exit_code": exit_code, "stdout": kept, "stderr": "".join([kept_errors, *told])}


def _cut(text: str, max_bytes: int) -> str:
    """As much of the beginning as fits, as JSON of ASCII, the longest that a reply may be written in."""
    size = len(json.dumps(text))
    while size > max_bytes:
        text = text[: len(text) * max_bytes // size]
        size = len(json.dumps(text))
    return text
