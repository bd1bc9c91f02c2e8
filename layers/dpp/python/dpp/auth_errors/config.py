"""What the functions of authentication errors read from their environment (AUTH-4, AUTH-5, AUTH-8)."""

from typing import Self

from pydantic import Field, model_validator

from dpp.auth_errors.retry_policy import DEFAULT_MAX_RETRIES, LADDER_SECONDS, RetryPolicy
from dpp.platform.config import Settings

QUEUE_RETENTION_DAYS = 4
DEAD_LETTER_RETENTION_DAYS = 14
"""How long SQS keeps a message; the CDK app builds the queues by these."""


class EventQueueSettings(Settings):
    """The SQS queue of events (D9)."""

    event_queue_url: str = Field(alias="DPP_AUTH_ERROR_QUEUE_URL", pattern=r"^https?://")


class EventDeadLetterSettings(Settings):
    """The queue of events that nobody could handle."""

    event_dead_letter_queue_url: str = Field(
        alias="DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL", pattern=r"^https?://"
    )


_WAKE_QUEUE = "DPP_AUTH_ERROR_WAKE_QUEUE_URL"


class WakeQueueSettings(Settings):
    """The queue that wakes the publisher."""

    wake_queue_url: str = Field(alias=_WAKE_QUEUE, pattern=r"^https?://")


class KnownWakeQueueSettings(Settings):
    """The same for who can do without: the publisher's schedule finds what there is within a minute."""

    known_wake_queue_url: str | None = Field(default=None, alias=_WAKE_QUEUE, pattern=r"^https?://")


class RetrySettings(Settings):
    """How often a step is tried again: the outbox's and the consumer's alike (AUTH-8)."""

    max_retries: int = Field(default=DEFAULT_MAX_RETRIES, alias="DPP_AUTH_ERROR_MAX_RETRIES", ge=1, le=100)

    @property
    def policy(self) -> RetryPolicy:
        """The policy."""
        return RetryPolicy(self.max_retries)


class LedgerSettings(RetrySettings):
    """How long the consumer's ledger remembers what is done.

    A message that comes again after its row is gone would be handled again, so the ledger outlives every message: its
    time in the queue, in the dead-letter queue and back, and all its retries.
    """

    ledger_retention_days: int = Field(
        default=30, alias="DPP_AUTH_ERROR_LEDGER_RETENTION_DAYS", ge=1, le=3_650
    )

    @property
    def redelivery_window_days(self) -> float:
        """The longest that a message may be under way."""
        retries = LADDER_SECONDS[-1] * self.max_retries
        return 2 * QUEUE_RETENTION_DAYS + DEAD_LETTER_RETENTION_DAYS + retries / 86_400

    @model_validator(mode="after")
    def _ledger_outlives_messages(self) -> Self:
        if self.ledger_retention_days <= self.redelivery_window_days:
            raise ValueError(
                "DPP_AUTH_ERROR_LEDGER_RETENTION_DAYS: a message may come again for"
                f" {self.redelivery_window_days:.1f} days, so the ledger is kept for longer"
            )
        return self
