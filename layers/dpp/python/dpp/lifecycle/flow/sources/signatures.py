"""What deliveries are signed with: an HMAC-SHA256 of the bytes as they came, compared in constant time.

GitHub guide, "Validating webhook deliveries"; Jira Cloud guide, "Webhooks: secure your webhooks" (WebSub's header);
Slack guide, "Verifying requests from Slack".
"""

import hashlib
import hmac
from datetime import datetime

from dpp.lifecycle.flow.errors import BadSignature, StaleDelivery

SLACK_WINDOW_SECONDS = 300
"""How far a Slack request's time may be from ours: an older one may be somebody's recording."""


def check_github(secret: str, body: bytes, signature: str | None) -> None:
    """`X-Hub-Signature-256: sha256=…`. Raises BadSignature."""
    _compare(f"sha256={_digest(secret, body)}", signature)


def check_jira(secret: str, body: bytes, signature: str | None) -> None:
    """`X-Hub-Signature: sha256=…`; no other method is taken. Raises BadSignature."""
    _compare(f"sha256={_digest(secret, body)}", signature)


def check_slack(
    secret: str, body: bytes, signature: str | None, timestamp: str | None, now: datetime
) -> None:
    """`X-Slack-Signature: v0=…` over `v0:{X-Slack-Request-Timestamp}:{body}`. Raises BadSignature, StaleDelivery.

    The time is judged only after the signature, which covers it: nobody learns our clock by guessing.
    """
    if timestamp is None or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise BadSignature
    _compare(f"v0={_digest(secret, b'v0:' + timestamp.encode() + b':' + body)}", signature)
    if abs(now.timestamp() - int(timestamp)) > SLACK_WINDOW_SECONDS:
        raise StaleDelivery


def _digest(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _compare(expected: str, given: str | None) -> None:
    # As bytes: compare_digest refuses text beyond ASCII, which a header may hold.
    if given is None or not hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise BadSignature
