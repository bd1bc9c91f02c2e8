"""The OpenAPI 3.1 document of the HTTP API, made from the models that the functions use.

    python -m dpp_cli.openapi        writes docs/openapi.json

What tenants use is in `runs` and `workspaces`, what operators use in `tickets`, what both use in `auth_errors`,
what GitHub, Jira and Slack call in `webhooks`.
"""

import json
from pathlib import Path

from dpp_cli.openapi import auth_errors, runs, tickets, webhooks, workspaces
from dpp_cli.openapi.parts import PROBLEM, Json, headers
from dpp_cli.openapi.schemas import for_readers, merged
from dpp_cli.paths import ROOT

DOCUMENT = ROOT / "docs" / "openapi.json"


def document() -> Json:
    """The whole document; the same code makes the same text."""
    schemas = merged(
        runs.schemas(),
        workspaces.schemas(),
        tickets.schemas(),
        auth_errors.schemas(),
        webhooks.schemas(),
        {"Problem": PROBLEM},
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "DPP",
            "version": "1.0.0",
            "description": (
                "Metered runs: submit one with a maximum price, poll it, fetch its result. Every answer says in"
                " its `X-DPP-*` headers what was reserved, used and is left. Workspaces: say what you want of one, and"
                " read how it gets there. Operators file tickets, which the ops"
                " cycle carries out, under `/api`. Services report authentication errors under `/api/auth-errors`, and"
                " operators decide what becomes of them. GitHub, Jira and Slack call under `/v1/webhooks`, each with"
                " its own signature. Every error is a problem document (RFC 9457); decide by `reason_code`."
            ),
        },
        "servers": [{"url": "/"}],
        "security": [{"apiKey": []}],
        "paths": runs.paths() | workspaces.paths() | tickets.paths() | auth_errors.paths() | webhooks.paths(),
        "components": {
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A tenant's: `dpp_<key id>_<secret>`",
                },
                "operatorKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An operator's: `dppop_<key id>_<secret>`",
                },
            },
            "headers": headers(),
            "schemas": {name: for_readers(schemas[name]) for name in sorted(schemas)},
        },
    }


def as_text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def write(path: Path = DOCUMENT) -> None:
    """Write the document where it is committed."""
    path.write_text(as_text(), encoding="utf-8")
