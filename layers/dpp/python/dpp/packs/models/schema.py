"""The JSON schema of a reply, as providers take it for structured output.

https://platform.openai.com/docs/guides/structured-outputs (supported schemas),
https://docs.aws.amazon.com/bedrock/latest/userguide/tool-use-inference-call.html
"""

import json
from functools import cache
from typing import Any

from pydantic import BaseModel

from dpp.packs.models.asking import Prompt

_DROPPED = frozenset({"title", "default", "minLength", "maxLength"})
"""Not taken by every provider; the reply is validated here all the same."""


@cache
def reply_schema(shape: type[BaseModel]) -> dict[str, Any]:
    """The schema of `shape`: every object closed, every property required. Do not change the result."""
    closed = _closed(shape.model_json_schema())
    assert isinstance(closed, dict)  # noqa: S101 - a model's schema is an object
    return closed


def system_text(prompt: Prompt, shape: type[BaseModel]) -> str:
    """The instruction with the schema in words, for models that take no schema, or that do and forget it."""
    schema = json.dumps(reply_schema(shape), ensure_ascii=False, separators=(",", ":"))
    return f"{prompt.system}\n\nReply with one JSON object of this schema and nothing else: {schema}"


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    # Below `properties` and `$defs` the keys are names and not keywords.
    found = {
        key: {name: _closed(one) for name, one in value.items()} if key in {"properties", "$defs"} else _closed(value)
        for key, value in node.items()
        if key not in _DROPPED
    }
    if "properties" in found:
        found |= {"additionalProperties": False, "required": list(found["properties"])}
    return found
