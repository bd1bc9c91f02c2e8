"""What the operator commands read from their environment."""

from dpp.auth_errors.config import EventDeadLetterSettings, RetrySettings, WakeQueueSettings
from dpp.lifecycle.config import CleanerSettings, StateSettings, WakesGeneral
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.platform.config import (
    DeadLetterSettings,
    PostgresSettings,
    QueueSettings,
    RedisSettings,
    StorageSettings,
)
from dpp.tickets.config import ReaperSettings, ReportsSettings
from dpp.workspaces.config import KnownArchiveSettings, KnownLookQueueSettings, KnownWorkQueueSettings


class OperateSettings(
    PostgresSettings,
    RedisSettings,
    QueueSettings,
    DeadLetterSettings,
    StorageSettings,
    ReportsSettings,
    ReaperSettings,
    EventDeadLetterSettings,
    WakeQueueSettings,
    KnownLookQueueSettings,
    KnownWorkQueueSettings,
    KnownArchiveSettings,
    StateSettings,
    RetentionSettings,
    RetrySettings,
    CleanerSettings,
    WakesGeneral,
):
    """What every command reads, at once.

    Rows, budgets, the run queue with its dead letters, both buckets, the reaper's rules, the dead letters of events and
    the queue that wakes their publisher; of workspaces, where there are any, both queues and the bucket of archives;
    the bucket of what tasks leave, with the chamberlain's rules, and the general's function where there is one.
    """
