"""What the webhooks are made of, built once a container."""

import os
from functools import cache, partial

from dpp.lifecycle.flow.intake.deliveries import WebhookEffects, WebhookSecrets
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.platform.aws.renewable import of_secret
from dpp.platform.db.postgres import Database
from lifecycle_webhook.settings import LifecycleWebhookSettings


@cache
def wiring() -> WebhookEffects:
    """Read the environment and build, and fetch the secret where one is named; connections open at their first use."""
    settings = LifecycleWebhookSettings.load(os.environ)
    return WebhookEffects(
        database=Database(settings.database),
        wake=WakeByInvocation(settings.functions),
        secrets=of_secret(settings.lifecycle_secret_arn, partial(WebhookSecrets.of, settings)),
        github_login=settings.github_login,
        horizon_days=settings.retention.horizon_days,
    )
