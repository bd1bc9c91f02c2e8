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
    return _desk(settings, Database(settings.database), _fields(settings.lifecycle_secret_arn))


def renewed() -> Desk | None:
    """The same with the secret as it is now, for a signature that is wrong by the one at hand: it may have been
    rotated. None where it hasn't been."""
    settings, desk = LifecycleWebhookSettings.load(os.environ), wiring()
    if settings.lifecycle_secret_arn is None:
        return None
    from dpp.platform import secrets  # noqa: PLC0415 - as below

    fields = secrets.shared(settings.lifecycle_secret_arn).renewed()
    now = _desk(settings, desk.database, fields)
    return now if now.secrets != desk.secrets else None


def _desk(settings: LifecycleWebhookSettings, database: Database, fields: Mapping[str, str]) -> Desk:
    return Desk(
        database=database,
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
