"""Examples of requests and responses, from one JSON file per family of operations: `RUNS["receipt"]`.

Tests validate each against its schema, send the requests, sign the deliveries of webhooks, and insert the rows that
the ids name. A file's `description` says where its values come from. `{"$ref": "ticket"}` stands for the example
`ticket` of its file; other members beside `$ref` replace members of the same name, and new ones follow.
"""

import json
from pathlib import Path
from typing import Any

from dpp_cli.docs.openapi.parts import Json


def _resolved(value: Any, examples: Json) -> Any:
    match value:
        case {"$ref": str(name), **beside}:
            return _resolved(examples[name], examples) | _resolved(beside, examples)
        case dict():
            return {name: _resolved(member, examples) for name, member in value.items()}
        case list():
            return [_resolved(item, examples) for item in value]
        case _:
            return value


def _read(family: str) -> Json:
    examples: Json = json.loads((Path(__file__).parent / f"{family}.json").read_text(encoding="utf-8"))
    return {name: _resolved(value, examples) for name, value in examples.items()}


AUTH_ERRORS = _read("auth_errors")
RUNS = _read("runs")
TICKETS = _read("tickets")
WEBHOOKS = _read("webhooks")
WORKSPACES = _read("workspaces")
