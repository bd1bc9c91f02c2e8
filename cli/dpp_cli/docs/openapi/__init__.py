"""The OpenAPI 3.1 document of the HTTP API, made from the models that the functions use.

    python -m dpp_cli.docs.openapi        writes docs/openapi.json

What tenants use is in `runs` and `workspaces`, what operators use in `tickets`, what both use in `auth_errors`,
what GitHub, Jira and Slack call in `webhooks`, and where the document itself is in `description`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from dpp_cli.docs.openapi import auth_errors, description, gateway, runs, tickets, webhooks, workspaces
from dpp_cli.docs.openapi.headers import headers
from dpp_cli.docs.openapi.parts import PROBLEM, Json
from dpp_cli.docs.openapi.schemas import for_readers, merged
from dpp_cli.paths import ROOT

DOCUMENT = ROOT / "docs" / "openapi.json"
_TAGS: Mapping[str, tuple[str, str]] = {
    "/v1/runs": ("Runs", "Metered work: reserve, queue, execute, charge once."),
    "/v1/workspaces": ("Workspaces", "Containers whose homes outlive them."),
    "/v1/webhooks": ("Webhooks", "Where GitHub, Jira and Slack tell of what happened there."),
    "/api/tickets": ("Tickets", "Audited requests of operators, and the reaper that ends what nobody ended."),
    "/api/ops": ("Operations", "The emergency stop, and what the ops cycle did."),
    "/api/auth-errors": (
        "Authentication errors",
        "Reports of services, their clusters, and what becomes of them.",
    ),
    "/": ("The API itself", "Whether it is well, and what it offers."),
}
"""What an operation belongs to, by the beginning of its path; the first that fits."""

_DESCRIPTION = (
    "Metered runs: submit one with a maximum price, poll it, fetch its result. Every answer says in its `X-DPP-*`"
    " headers what was reserved, used and is left. Workspaces: say what you want of one, and read how it gets there."
    " Operators file tickets, which the ops cycle carries out, under `/api`. Services report authentication errors"
    " under `/api/auth-errors`, and operators decide what becomes of them. GitHub, Jira and Slack call under"
    " `/v1/webhooks`, each with its own signature. Every error is a problem document (RFC 9457); decide by"
    " `reason_code`.\n\n"
    "The gateway in front may answer any operation by itself: 403 what it refuses, 429 what is too much for the"
    " deployment as a whole, 504 where no answer came in 29 s (`components.responses`)."
)


def document() -> Json:
    """The whole document; the same code makes the same text."""
    schemas = merged(
        runs.schemas(),
        workspaces.schemas(),
        tickets.schemas(),
        auth_errors.schemas(),
        webhooks.schemas(),
        description.schemas(),
        {"Problem": PROBLEM},
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "DPP",
            "version": "1.0.0",
            "description": _DESCRIPTION,
        },
        "servers": [{"url": ".", "description": "The deployment that this document is served by."}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name, "description": told} for name, told in _TAGS.values()],
        "paths": _tagged(_paths()),
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
            "responses": gateway.responses(),
            "schemas": {name: for_readers(schemas[name]) for name in sorted(schemas)},
        },
    }


def _paths() -> Json:
    families = (runs, workspaces, tickets, auth_errors, webhooks, description)
    return {path: operations for family in families for path, operations in family.paths().items()}


def _tagged(paths: Json) -> Json:
    """Each operation with what it belongs to."""
    return {
        path: {
            method: {
                "tags": [next(tag for start, (tag, _) in _TAGS.items() if path.startswith(start))],
                **operation,
            }
            for method, operation in operations.items()
        }
        for path, operations in paths.items()
    }


def as_text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def write(path: Path = DOCUMENT) -> None:
    """Write the document where it is committed."""
    path.write_text(as_text(), encoding="utf-8")
