"""The envoy (notifier): sends messages to Slack, those of a task in their order, and maintains their threads (LIFE-5,
LIFE-10).

A message is sent at least once, since Slack has no idempotency key. If a notifier crashes after Slack accepted a
message and before it is marked as SENT, it is sent again a minute later. If it was the message that opens a thread, the
first thread is then unknown, and replies in it are lost. Nothing else is sent twice, as long as no attempt takes longer
than the lease of a minute. The effects of a message (its thread, the awaited answer, the end of the thread) are written
together with its status SENT.
"""

import logging
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import assert_never

from dpp.lifecycle.flow import heartbeat, slack, store
from dpp.lifecycle.flow.errors import NotConfigured, SourceUnavailable
from dpp.lifecycle.flow.model import Message, MessageKind, Thread
from dpp.lifecycle.flow.ports import Outside, Role
from dpp.lifecycle.flow.slack import Delivered, Refused
from dpp.lifecycle.flow.store import Claimed
from dpp.lifecycle.flow.tick import rounds
from dpp.platform.db.postgres import Connection, Database

_LOG = logging.getLogger("dpp.lifecycle.flow.notifier")
LEASE_SECONDS = 60
FIRST_PAUSE_SECONDS = 30
LAST_PAUSE_SECONDS = 3_600
_MAX_DOUBLINGS = 7
_FAILURES_IN_A_ROW = 3
"""After failures of different messages in a row Slack itself is likely down, so the rest waits for the next tick."""


@dataclass(frozen=True, slots=True)
class NotifierEffects:
    """Connections and clients that the notifier uses, and the channel of messages without a thread (None: the
    webhook's)."""

    database: Database
    outside: Outside
    channel: str | None = None


@dataclass(slots=True)
class NotifierReport:
    """The result of one tick. `repeated`: messages that another notifier had sent as well."""

    sent: int = 0
    failed: int = 0
    repeated: int = 0
    stopped_early: bool = False

    def as_dict(self) -> dict[str, int | bool]:
        """The counts for the log."""
        return asdict(self)


def send_messages(effects: NotifierEffects, now: datetime | None = None) -> NotifierReport:
    """One tick: at most 100 messages in 20 s. Raises PostgresUnavailable."""
    report, in_a_row = NotifierReport(), 0
    with effects.database.connection() as connection:
        heartbeat.record(connection, Role.ENVOY, now)
        due = store.clock(connection, now)
    for _ in rounds():
        claimed = effects.database.using(store.claim_message, due, LEASE_SECONDS, now)
        if claimed is None:
            break
        found = _post(effects, claimed)
        match found:
            case Delivered(thread):
                in_a_row = 0
                was_first = _sent(effects, claimed.message, thread, now)
                report.sent += was_first
                report.repeated += not was_first
            case Refused():
                in_a_row += 1
                report.failed += 1
                _put_off(effects, claimed.message, found, now)
                if found.code == slack.RATE_LIMITED or in_a_row == _FAILURES_IN_A_ROW:
                    report.stopped_early = True
                    break
            case _:
                assert_never(found)
    return report


def _post(effects: NotifierEffects, claimed: Claimed) -> Delivered | Refused:
    """Make one attempt. Without a complete reply it counts as failed, even if Slack accepted the message."""
    try:
        return slack.read(effects.outside.ask(slack.request_of(claimed.message, claimed.thread, effects.channel)))
    except SourceUnavailable as error:
        return Refused("no reply", error.retry_after_seconds)
    except NotConfigured:
        return Refused("Slack is not configured")


def _sent(effects: NotifierEffects, message: Message, thread: Thread | None, now: datetime | None) -> bool:
    """Mark a message as SENT and write its effects. Returns False if another notifier was faster: its thread is
    kept."""
    with effects.database.connection() as connection, connection.transaction():
        if not store.mark_sent(connection, message.message_id, now):
            return False
        if message.task_id is not None:
            _follow(connection, message, message.task_id, thread, now)
        return True


def _follow(
    connection: Connection, message: Message, task_id: str, thread: Thread | None, now: datetime | None
) -> None:
    match message.kind:
        case MessageKind.THREAD_START:
            if thread is not None:
                store.keep_thread(connection, task_id, thread, now)
        case MessageKind.HUMAN_INPUT_REQUEST:
            store.await_answer(connection, message.message_id, now)
        case MessageKind.TASK_RESULT:
            store.drop_thread(connection, task_id)
            store.forget_awaited(connection, task_id)
        case MessageKind.REPORT:
            pass
        case _:
            assert_never(message.kind)


def _put_off(effects: NotifierEffects, message: Message, refused: Refused, now: datetime | None) -> None:
    pause_seconds = max(pause_after(message.attempts), refused.retry_after_seconds or 0)
    effects.database.using(
        store.note_undelivered, message, f"slack: {refused.code}", min(pause_seconds, LAST_PAUSE_SECONDS), now
    )
    extra = {"message_id": message.message_id, "code": refused.code, "attempts": message.attempts + 1}
    _LOG.warning("a message was not delivered; a later tick tries again", extra=extra)


def pause_after(attempts: int) -> int:
    """Seconds until the next attempt, after `attempts` earlier ones: 30, doubled each time, at most an hour."""
    return min(FIRST_PAUSE_SECONDS << min(attempts, _MAX_DOUBLINGS), LAST_PAUSE_SECONDS)
