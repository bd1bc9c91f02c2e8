"""Verifies, reads and accepts webhook deliveries (LIFE-6, LIFE-7, LIFE-10).

The signature is verified over the raw bytes before anything is parsed. A delivery may arrive twice.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Self, assert_never

from dpp.lifecycle.config import WebhookSecretSettings
from dpp.lifecycle.flow import answer
from dpp.lifecycle.flow.errors import BadSignature, NotConfigured, UnreadableDelivery
from dpp.lifecycle.flow.intake import accept
from dpp.lifecycle.flow.intake.accept import IntakeOutcome
from dpp.lifecycle.flow.model import Arrival, NewEvent
from dpp.lifecycle.flow.ports import Role, Wake
from dpp.lifecycle.flow.sources import github_webhook, jira, slack_events
from dpp.lifecycle.flow.sources.signatures import check_github, check_jira, check_slack
from dpp.platform.aws.renewable import Renewable
from dpp.platform.db.postgres import Database
from dpp.platform.strict_json import Json, JsonRefused, parse


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class WebhookSecrets:
    """The signing secret of each source; a source without one can't deliver."""

    github: str | None = field(default=None, repr=False)
    jira: str | None = field(default=None, repr=False)
    slack: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: WebhookSecretSettings, secret: Mapping[str, str]) -> Self:
        """Read the settings; the secret is used where a setting is missing."""
        return cls(
            github=settings.github_webhook_secret or secret.get("github_webhook_secret") or None,
            jira=settings.jira_webhook_secret or secret.get("jira_webhook_secret") or None,
            slack=settings.slack_signing_secret or secret.get("slack_signing_secret") or None,
        )


@dataclass(frozen=True, slots=True)
class WebhookEffects:
    """Connections and settings that the webhooks use. `clock` judges the age of Slack's signatures; rows use Postgres's
    (D1)."""

    database: Database
    wake: Wake
    secrets: Renewable[WebhookSecrets]
    github_login: str | None
    horizon_days: int
    clock: Callable[[], datetime] = _utc_now


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery as received. `kind`: GitHub's event name. `timestamp`: Slack's."""

    body: bytes = field(repr=False)
    signature: str | None = field(default=None, repr=False)
    kind: str | None = None
    timestamp: str | None = None


class DeliveryOutcome(StrEnum):
    """The outcome of a delivery. IGNORED: it is not addressed to us, or no task waits for it."""

    ACCEPTED = "ACCEPTED"
    DUPLICATE = "DUPLICATE"
    TOO_OLD = "TOO_OLD"
    IGNORED = "IGNORED"


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The outcome and the event's id; `challenge`: the text that Slack expects in the response."""

    outcome: DeliveryOutcome
    event_id: str | None = None
    challenge: str | None = None


_IGNORED = DeliveryResult(DeliveryOutcome.IGNORED)


def from_github(effects: WebhookEffects, delivery: Delivery) -> DeliveryResult:
    """Process a delivery of GitHub. Raises NotConfigured, BadSignature, UnreadableDelivery, PostgresUnavailable."""
    if effects.github_login is None:
        raise NotConfigured
    _check(
        effects, lambda secrets: secrets.github, lambda secret: check_github(secret, delivery.body, delivery.signature)
    )
    payload = _read(delivery)
    return _take(effects, github_webhook.event_of(delivery.kind or "", payload, effects.github_login))


def from_jira(effects: WebhookEffects, delivery: Delivery) -> DeliveryResult:
    """Process a delivery of Jira. Raises the same errors as `from_github`."""
    _check(effects, lambda secrets: secrets.jira, lambda secret: check_jira(secret, delivery.body, delivery.signature))
    return _take(effects, jira.event_of(_read(delivery)))


def from_slack(effects: WebhookEffects, delivery: Delivery) -> DeliveryResult:
    """Process a delivery of Slack: a person's reply to a task that waits. Raises the same errors, and StaleDelivery."""
    _check(
        effects,
        lambda secrets: secrets.slack,
        lambda secret: check_slack(secret, delivery.body, delivery.signature, delivery.timestamp, effects.clock()),
    )
    match slack_events.content_of(_read(delivery)):
        case None:
            return _IGNORED
        case slack_events.Challenge(text):
            return DeliveryResult(DeliveryOutcome.IGNORED, challenge=text)
        case slack_events.Reply() as reply:
            return _answer(effects, reply)
        case other:
            assert_never(other)


def _check(effects: WebhookEffects, of: Callable[[WebhookSecrets], str | None], check: Callable[[str], None]) -> None:
    """Verify with the cached secret and, if that fails, with the renewed one."""
    secret = of(effects.secrets.current)
    if secret is None:
        raise NotConfigured
    try:
        check(secret)
    except BadSignature:
        renewed = of(effects.secrets.current) if effects.secrets.renew() else None
        if renewed is None:
            raise
        check(renewed)


def _read(delivery: Delivery) -> Json:
    try:
        return parse(delivery.body)
    except JsonRefused as refused:
        raise UnreadableDelivery(f"The delivery can't be read: {refused}.") from None


def _take(effects: WebhookEffects, event: NewEvent | None) -> DeliveryResult:
    if event is None:
        return _IGNORED
    taken = effects.database.using(accept.accept_event, event, Arrival.WEBHOOK, effects.horizon_days)
    if taken is IntakeOutcome.ACCEPTED:
        effects.wake(Role.KING)
    return DeliveryResult(DeliveryOutcome(taken), event.event_id)


def _answer(effects: WebhookEffects, reply: slack_events.Reply) -> DeliveryResult:
    taken = effects.database.using(answer.answer_in_thread, reply.thread, reply.text)
    if not taken:
        return _IGNORED
    effects.wake(Role.GENERAL)
    return DeliveryResult(DeliveryOutcome.ACCEPTED, reply.event_id)
