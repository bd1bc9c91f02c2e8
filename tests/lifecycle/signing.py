"""Signs deliveries as their sources do."""

import hashlib
import hmac
import json
from datetime import datetime
from typing import Any

from dpp.lifecycle.flow.intake.deliveries import Delivery, WebhookSecrets
from tests.lifecycle.poll_environment import NOW

SECRETS = WebhookSecrets(github="of-github", jira="of-jira", slack="of-slack")


def _digest(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def headers_of(source: str, body: bytes, *, kind: str = "issue_comment", at: datetime = NOW) -> dict[str, str]:
    """The headers that come with a body."""
    stamp = str(int(at.timestamp()))
    match source:
        case "github":
            return {"X-Hub-Signature-256": f"sha256={_digest('of-github', body)}", "X-GitHub-Event": kind}
        case "jira":
            return {"X-Hub-Signature": f"sha256={_digest('of-jira', body)}"}
        case _:
            signed = b"v0:" + stamp.encode() + b":" + body
            return {"X-Slack-Signature": f"v0={_digest('of-slack', signed)}", "X-Slack-Request-Timestamp": stamp}


def signed(source: str, payload: Any, *, kind: str = "issue_comment", at: datetime = NOW) -> Delivery:
    """A delivery with what it needs."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    given = headers_of(source, body, kind=kind, at=at)
    signature = next(value for name, value in given.items() if "Signature" in name)
    return Delivery(body, signature, given.get("X-GitHub-Event"), given.get("X-Slack-Request-Timestamp"))
