"""Verifies the signatures of deliveries: an HMAC-SHA256 of the raw bytes, compared in constant time.

GitHub guide, "Validating webhook deliveries"; Jira Cloud guide, "Webhooks: secure your webhooks" (WebSub's header);
Slack guide, "Verifying requests from Slack".
"""

import hashlib
import hmac
from datetime import datetime

from dpp.lifecycle.flow.errors import BadSignature, StaleDelivery

SLACK_WINDOW_SECONDS = 300
"""The maximum age of a Slack request; an older one may be a replay."""


def check_github(secret: str, body: bytes, signature: str | None) -> None:
    """`X-Hub-Signature-256: sha256=…`. Raises BadSignature."""
    _compare(f"sha256={_digest(secret, body)}", signature)


def check_jira(secret: str, body: bytes, signature: str | None) -> None:
    """`X-Hub-Signature: sha256=…`; other methods are rejected. Raises BadSignature."""
    _compare(f"sha256={_digest(secret, body)}", signature)


def check_slack(secret: str, body: bytes, signature: str | None, timestamp: str | None, now: datetime) -> None:
    """`X-Slack-Signature: v0=…` over `v0:{X-Slack-Request-Timestamp}:{body}`. Raises BadSignature, StaleDelivery.

    The time is checked after the signature, which covers it, so that an attacker can't learn our clock.
    """
    if timestamp is None or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise BadSignature
    _compare(f"v0={_digest(secret, b'v0:' + timestamp.encode() + b':' + body)}", signature)
    if abs(now.timestamp() - int(timestamp)) > SLACK_WINDOW_SECONDS:
        raise StaleDelivery


def _digest(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _compare(expected: str, given: str | None) -> None:
    # As bytes: compare_digest rejects non-ASCII text, which a header may contain.
    if given is None or not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise BadSignature
