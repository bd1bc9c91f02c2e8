"""Webhooks of GitHub, Jira and Slack; each signs its requests in its own way (LIFE-7, LIFE-10)."""

from dpp.platform.observability import cold_start

# First, so that the garbage collector is off during the imports below.
# isort: split

from functools import cache, partial

from aws_lambda_powertools.event_handler import Response

from dpp.lifecycle.config import SourcesSettings, WakesGeneral, WakesKing, WebhookSecretSettings
from dpp.lifecycle.flow.intake import deliveries, webhook_http
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.aws.renewable import of_secret
from dpp.platform.config import PostgresSettings
from dpp.platform.db.postgres import Database
from dpp.platform.http.api import Api
from dpp.platform.observability.invocation import invocation
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import EVENTS_TAKEN_IN

cold_start.imported()
logger = service_logger("lifecycle_webhook")
meter = Meter()
api = Api(webhook_http.PROBLEMS, webhook_http.error_headers, meter)


class LifecycleWebhookSettings(
    PostgresSettings, SourcesSettings, WebhookSecretSettings, RetentionSettings, WakesKing, WakesGeneral
):
    """Rows, the users that deliveries must concern, the signing secrets, events' maximum age, and the roles to wake."""


@cache
def wiring() -> deliveries.WebhookEffects:
    """Read the environment, fetch the secret if one is named, and build; connections open at their first use."""
    settings = LifecycleWebhookSettings.load()
    return deliveries.WebhookEffects(
        database=Database(settings.database),
        wake=WakeByInvocation(settings.functions),
        secrets=of_secret(settings.lifecycle_secret_arn, partial(deliveries.WebhookSecrets.of, settings)),
        github_login=settings.github_login,
        horizon_days=settings.retention.horizon_days,
    )


@api.route("POST", "/v1/webhooks/github")
def called_by_github() -> Response[str]:
    """A mention, an assignment or a review request. Always 202."""
    return _answer("GITHUB", deliveries.from_github(wiring(), webhook_http.github_delivery(api.event)))


@api.route("POST", "/v1/webhooks/jira")
def called_by_jira() -> Response[str]:
    """A change of an issue. Always 202."""
    return _answer("JIRA", deliveries.from_jira(wiring(), webhook_http.jira_delivery(api.event)))


@api.route("POST", "/v1/webhooks/slack")
def called_by_slack() -> Response[str]:
    """A reply in a thread. Always 202, except 200 for Slack's URL verification."""
    delivered = deliveries.from_slack(wiring(), webhook_http.slack_delivery(api.event))
    if delivered.challenge is not None:
        return api.json(200, webhook_http.ChallengeView(challenge=delivered.challenge), {})
    return _answer("SLACK", delivered)


def _answer(source: str, delivered: deliveries.DeliveryResult) -> Response[str]:
    meter.add(EVENTS_TAKEN_IN, Source=source, Outcome=delivered.outcome)
    fields = {"source": source, "outcome": delivered.outcome, "event_id": delivered.event_id}
    logger.info("delivered", extra={**fields, "trace_id": api.trace_id})
    return api.json(202, webhook_http.delivered_view(delivered), {})


handler = invocation(logger, meter)(api.answer)
