"""HTTP shapes of the webhooks: problems, requests and responses (LIFE-7, LIFE-10)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel

from dpp.lifecycle.flow.errors import BadSignature, NotConfigured, StaleDelivery, UnreadableDelivery
from dpp.lifecycle.flow.intake.deliveries import Delivery, DeliveryOutcome, DeliveryResult
from dpp.platform.http.problem import MALFORMED_REQUEST, PAYLOAD_TOO_LARGE, ProblemError, ProblemKind
from dpp.platform.http.request import body_bytes, single_header

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

MAX_DELIVERY_BYTES = 4 * 2**20
"""Lambda accepts an event of 6 MB, and a binary body is base64-encoded."""

PROBLEMS: Mapping[type[Exception], ProblemKind] = {
    BadSignature: ProblemKind(401, "SIGNATURE_INVALID", "A valid signature is needed"),
    StaleDelivery: ProblemKind(401, "DELIVERY_STALE", "The delivery's time is not now"),
    NotConfigured: ProblemKind(404, "SOURCE_NOT_CONFIGURED", "This source is not configured here"),
    UnreadableDelivery: MALFORMED_REQUEST,
}


class DeliveryView(BaseModel):
    """The outcome of a delivery."""

    outcome: DeliveryOutcome
    event_id: str | None = None


class ChallengeView(BaseModel):
    """Slack's challenge, returned unchanged."""

    challenge: str


def error_headers(error: Exception | None) -> dict[str, str]:
    """A 401 names its scheme (RFC 9110, 15.5.2); the signatures of the sources have no registered scheme name."""
    if isinstance(error, BadSignature | StaleDelivery):
        return {"WWW-Authenticate": 'Webhook-Signature realm="dpp"'}
    return {}


def github_delivery(event: "APIGatewayProxyEvent") -> Delivery:
    """Read a request of GitHub. Raises ProblemError."""
    return Delivery(_body(event), single_header(event, "X-Hub-Signature-256"), single_header(event, "X-GitHub-Event"))


def jira_delivery(event: "APIGatewayProxyEvent") -> Delivery:
    """Read a request of Jira. Raises ProblemError."""
    return Delivery(_body(event), single_header(event, "X-Hub-Signature"))


def slack_delivery(event: "APIGatewayProxyEvent") -> Delivery:
    """Read a request of Slack. Raises ProblemError."""
    return Delivery(
        _body(event),
        single_header(event, "X-Slack-Signature"),
        timestamp=single_header(event, "X-Slack-Request-Timestamp"),
    )


def delivered_view(delivered: DeliveryResult) -> DeliveryView:
    """The response to a source."""
    return DeliveryView(outcome=delivered.outcome, event_id=delivered.event_id)


def _body(event: "APIGatewayProxyEvent") -> bytes:
    body = body_bytes(event)
    if len(body) > MAX_DELIVERY_BYTES:
        raise ProblemError(PAYLOAD_TOO_LARGE, f"A delivery must not exceed {MAX_DELIVERY_BYTES} bytes.")
    return body
