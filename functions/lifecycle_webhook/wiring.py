"""What the webhooks are made of, built once a container."""

import os
from collections.abc import Mapping
from functools import cache

from dpp.lifecycle.deliveries import Desk, WebhookSecrets
from dpp.lifecycle.wake import WakeByInvocation
from dpp.platform.postgres import Database
from lifecycle_webhook.settings import LifecycleWebhookSettings


@cache
def wiring() -> Desk:
    """Read the environment and build, and fetch the secret where one is named; connections open at their first use."""
    settings = LifecycleWebhookSettings.load(os.environ)
    fields = _fields(settings.lifecycle_secret_arn)
    return Desk(
        database=Database(settings.database),
        wake=WakeByInvocation(settings.functions),
        secrets=WebhookSecrets(
            github=settings.github_webhook_secret or fields.get("github_webhook_secret") or None,
            jira=settings.jira_webhook_secret or fields.get("jira_webhook_secret") or None,
            slack=settings.slack_signing_secret or fields.get("slack_signing_secret") or None,
        ),
        github_login=settings.github_login,
        horizon_days=settings.retention.horizon_days,
    )


def _fields(arn: str | None) -> Mapping[str, str]:
    if arn is None:
        return {}
    from dpp.platform import secrets  # noqa: PLC0415 - boto3, which secrets that are given outright do without

    return secrets.shared(arn).current()
