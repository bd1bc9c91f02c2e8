"""What the functions of authentication errors read from their environment (AUTH-4, AUTH-5, AUTH-8)."""

from pydantic import Field

from dpp.auth_errors.outbox.retry_policy import DEFAULT_MAX_RETRIES, LADDER_SECONDS, RetryPolicy
from dpp.platform.config import ConfigurationError, Settings

QUEUE_RETENTION_DAYS = 4
DEAD_LETTER_RETENTION_DAYS = 14
"""How long SQS keeps a message; the CDK app builds the queues by these."""


class EventQueueSettings(Settings):
    """The SQS queue of events (D9)."""

    event_queue_url: str = Field(
        alias="DPP_AUTH_ERROR_QUEUE_URL",
        pattern=r"^https?://",
        description="The queue of events of authentication errors.",
    )


class EventDeadLetterSettings(Settings):
    """The queue of events that nobody could handle."""

    event_dead_letter_queue_url: str = Field(
        alias="DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL",
        pattern=r"^https?://",
        description="The queue of events that nobody could handle.",
    )


_WAKE_QUEUE = "DPP_AUTH_ERROR_WAKE_QUEUE_URL"


class WakeQueueSettings(Settings):
    """The queue that wakes the publisher."""

    wake_queue_url: str = Field(
        alias=_WAKE_QUEUE, pattern=r"^https?://", description="The queue that wakes the publisher of events."
    )


class OptionalWakeQueueSettings(Settings):
    """The same for who can do without: the publisher's schedule finds what there is within a minute."""

    known_wake_queue_url: str | None = Field(
        default=None,
        alias=_WAKE_QUEUE,
        pattern=r"^https?://",
        description="The queue that wakes the publisher of events.",
    )


class RetrySettings(Settings):
    """How often a step is tried again: the outbox's and the consumer's alike (AUTH-8)."""

    max_retries: int = Field(
        default=DEFAULT_MAX_RETRIES,
        alias="DPP_AUTH_ERROR_MAX_RETRIES",
        ge=1,
        le=100,
        description="How often an event is tried again before it is dead.",
    )

    @property
    def policy(self) -> RetryPolicy:
        """The policy."""
        return RetryPolicy(self.max_retries)


def redelivery_window_days(max_retries: int) -> float:
    """The longest that a message may be under way: in the queue, in the dead letters and back, and all its retries."""
    retries_seconds = LADDER_SECONDS[-1] * max_retries
    return 2 * QUEUE_RETENTION_DAYS + DEAD_LETTER_RETENTION_DAYS + retries_seconds / 86_400


def check_outbox_days(outbox_days: int, max_retries: int) -> None:
    """Refuse a memory that is shorter than a message's way (AUTH-5): handled again, its effects would happen twice.

    For whoever reads both the retention section and the retries: the chamberlain's wiring, and the CDK app. Raises
    ConfigurationError.
    """
    window = redelivery_window_days(max_retries)
    if outbox_days <= window:
        raise ConfigurationError(
            f"DPP_RETENTION: outbox_days is {outbox_days}, and with {max_retries} retries"
            f" (DPP_AUTH_ERROR_MAX_RETRIES) a message may come again for {window:.1f} days: what was handled is"
            " remembered for longer"
        )
