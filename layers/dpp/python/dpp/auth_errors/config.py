"""Settings of the functions of authentication errors (AUTH-4, AUTH-5, AUTH-8)."""

from dpp.auth_errors.outbox.retry_policy import DEFAULT_MAX_RETRIES, LADDER_SECONDS, RetryPolicy
from dpp.platform.config import ConfigurationError, Settings, variable

QUEUE_RETENTION_DAYS = 4
DEAD_LETTER_RETENTION_DAYS = 14
"""The retention of messages in SQS; the CDK app creates the queues with these values."""


class EventQueueSettings(Settings):
    """The SQS queue of events (D9)."""

    event_queue_url: str = variable(
        "DPP_AUTH_ERROR_QUEUE_URL", "The queue of events of authentication errors.", pattern=r"^https?://"
    )


class EventDeadLetterSettings(Settings):
    """The dead-letter queue of events."""

    event_dead_letter_queue_url: str = variable(
        "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL",
        "The dead-letter queue of events of authentication errors.",
        pattern=r"^https?://",
    )


_WAKE_QUEUE = "DPP_AUTH_ERROR_WAKE_QUEUE_URL"


class WakeQueueSettings(Settings):
    """The queue that wakes the publisher."""

    wake_queue_url: str = variable(_WAKE_QUEUE, "The queue that wakes the publisher of events.", pattern=r"^https?://")


class OptionalWakeQueueSettings(Settings):
    """The same, optional: without it, the publisher's schedule finds an event within a minute."""

    known_wake_queue_url: str | None = variable(
        _WAKE_QUEUE, "The queue that wakes the publisher of events.", None, pattern=r"^https?://"
    )


class RetrySettings(Settings):
    """The number of retries of the publisher and of the consumer (AUTH-8)."""

    max_retries: int = variable(
        "DPP_AUTH_ERROR_MAX_RETRIES",
        "The number of retries before an event is dead.",
        DEFAULT_MAX_RETRIES,
        ge=1,
        le=100,
    )

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(self.max_retries)


def redelivery_window_days(max_retries: int) -> float:
    """The longest time until a message can arrive again: in the queue, the DLQ and the queue, plus all retries."""
    retries_seconds = LADDER_SECONDS[-1] * max_retries
    return 2 * QUEUE_RETENTION_DAYS + DEAD_LETTER_RETENTION_DAYS + retries_seconds / 86_400


def check_outbox_days(outbox_days: int, max_retries: int) -> None:
    """Reject a retention of processed messages that is shorter than the redelivery window (AUTH-5).

    With a shorter one, the effects of a message could happen twice. Called by all code that reads both settings: the
    wiring of the chamberlain (cleaner), and the CDK app. Raises ConfigurationError.
    """
    window = redelivery_window_days(max_retries)
    if outbox_days <= window:
        raise ConfigurationError(
            f"DPP_RETENTION: outbox_days is {outbox_days}, but must be more than {window:.1f}: with {max_retries}"
            " retries (DPP_AUTH_ERROR_MAX_RETRIES) a message may be delivered again for so long"
        )
