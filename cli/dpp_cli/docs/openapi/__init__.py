"""Builds the OpenAPI 3.1 document of the HTTP API from the functions' models.

    python -m dpp_cli.docs.openapi        writes docs/openapi.json

Operations for tenants are in `runs` and `workspaces`, for operators in `tickets`, for both in `auth_errors`,
for GitHub, Jira and Slack in `webhooks`; those that serve the document itself are in `description`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from dpp_cli.docs.openapi import auth_errors, description, gateway, runs, tickets, webhooks, workspaces
from dpp_cli.docs.openapi.headers import headers
from dpp_cli.docs.openapi.parts import PROBLEM, Json
from dpp_cli.docs.openapi.schemas import for_readers, merged
from dpp_cli.paths import OPENAPI_DOCUMENT

_FAMILIES = (runs, workspaces, tickets, auth_errors, webhooks, description)
_TAGS: Mapping[str, tuple[str, str]] = {
    "/v1/runs": ("Runs", "Metered work: reserve, queue, execute, charge exactly once."),
    "/v1/workspaces": ("Workspaces", "Containers whose homes outlive them."),
    "/v1/webhooks": ("Webhooks", "Deliveries from GitHub, Jira and Slack."),
    "/api/tickets": ("Tickets", "Audited requests of operators, and the reaper of stale ones."),
    "/api/ops": ("Operations", "The emergency stop and the results of ops cycles."),
    "/api/auth-errors": ("Authentication errors", "Reported errors, their clusters, and decisions about them."),
    "/": ("The API itself", "Health checks and the API description."),
}
"""Tag of an operation by the prefix of its path; the first match counts."""

_DESCRIPTION = (
    "Metered runs: submit one with a maximum price, poll it, fetch its result. The `X-DPP-*` headers of every"
    " response state what is reserved, used and left. Workspaces: set the desired state and read the progress."
    " Operators file tickets, which the ops cycle carries out, under `/api`. Services report authentication errors"
    " under `/api/auth-errors`, and operators decide what happens to them. GitHub, Jira and Slack call"
    " `/v1/webhooks`, each with its own signature. Every error is a problem document (RFC 9457); decide by"
    " `reason_code`.\n\n"
    "The gateway may itself respond to any operation: 403 for a rejected request, 429 over the limit of the"
    " whole deployment, 504 if there is no response within 29 s (`components.responses`)."
)


def document() -> Json:
    """Build the whole document; the same code gives the same text."""
    schemas = merged(*(family.schemas() for family in _FAMILIES), {"Problem": PROBLEM})
    return {
        "openapi": "3.1.0",
        "info": {"title": "DPP", "version": "1.0.0", "description": _DESCRIPTION},
        "servers": [{"url": ".", "description": "The deployment that serves this document."}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.values()],
        "paths": _tagged({path: methods for family in _FAMILIES for path, methods in family.PATHS.items()}),
        "components": {
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A tenant's key: `dpp_<key id>_<secret>`",
                },
                "operatorKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An operator's key: `dppop_<key id>_<secret>`",
                },
            },
            "headers": headers(),
            "responses": gateway.responses(),
            "schemas": {name: for_readers(schemas[name]) for name in sorted(schemas)},
        },
    }


def _tagged(paths: Json) -> Json:
    """Add a tag to each operation."""
    return {
        path: {
            method: {"tags": [next(tag for start, (tag, _) in _TAGS.items() if path.startswith(start))], **operation}
            for method, operation in operations.items()
        }
        for path, operations in paths.items()
    }


def as_text() -> str:
    """Render the document as committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def write(path: Path = OPENAPI_DOCUMENT) -> None:
    """Write the committed document."""
    path.write_text(as_text(), encoding="utf-8")
