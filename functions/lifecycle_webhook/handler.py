"""Where GitHub, Jira and Slack call, each with its own signature (LIFE-7, LIFE-10)."""

from dpp.platform.observability import cold_start

# First, so that no import after it is held up.
# isort: split

from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.utilities.typing import LambdaContext

from dpp.lifecycle.flow.intake.deliveries import DeliveryResult, from_github, from_jira, from_slack
from dpp.lifecycle.flow.intake.webhook_http import (
    PROBLEMS,
    ChallengeView,
    delivered_view,
    error_headers,
    github_delivery,
    jira_delivery,
    slack_delivery,
)
from dpp.platform.http.api import Api
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import EVENTS_TAKEN_IN
from lifecycle_webhook.wiring import wiring

cold_start.imported()
logger = service_logger("lifecycle_webhook")
meter = Meter()
api = Api(PROBLEMS, error_headers, meter)


@api.route("POST", "/v1/webhooks/github")
def called_by_github() -> Response[str]:
    """A mention, an assignment or a request for a review; 202, whatever becomes of it."""
    return _answer("GITHUB", from_github(wiring(), github_delivery(api.event)))


@api.route("POST", "/v1/webhooks/jira")
def called_by_jira() -> Response[str]:
    """A change of an issue; 202, whatever becomes of it."""
    return _answer("JIRA", from_jira(wiring(), jira_delivery(api.event)))


@api.route("POST", "/v1/webhooks/slack")
def called_by_slack() -> Response[str]:
    """A reply in a thread; 202, whatever becomes of it. 200 where Slack asks whether the address is ours."""
    delivered = from_slack(wiring(), slack_delivery(api.event))
    if delivered.challenge is not None:
        return api.json(200, ChallengeView(challenge=delivered.challenge), {})
    return _answer("SLACK", delivered)


def _answer(source: str, delivered: DeliveryResult) -> Response[str]:
    told = {"source": source, "outcome": delivered.outcome, "event_id": delivered.event_id}
    meter.add(EVENTS_TAKEN_IN, Source=source, Outcome=delivered.outcome)
    logger.info("delivered", extra={**told, "trace_id": api.trace_id})
    return api.json(202, delivered_view(delivered), {})


@invocation(logger, meter)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one API Gateway event."""
    return api.answer(event, context)
