"""The envoy (LIFE-5, LIFE-10): sends messages, those of a task in their order, and keeps what belongs to their threads.

At least once: Slack has no key by which it would know a message again. An envoy that dies between Slack's taking a
message and its being SENT has it sent once more, a minute later; of an opening the first one's thread is then not
known, and a reply there reaches nobody. There is no other repetition, as long as no attempt lasts the minute for which
a message is one envoy's.
What follows from a message (its thread, what is awaited, the thread's end) is written together with its being SENT.
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
"""Of different messages: then it is Slack, or the way there, and the rest waits for the next firing."""


@dataclass(frozen=True, slots=True)
class NotifierEffects:
    """What the envoy touches, and the channel of messages without a thread; None: the webhook's own."""

    database: Database
    outside: Outside
    channel: str | None = None


@dataclass(slots=True)
class NotifierReport:
    """What one firing did; `repeated`: another envoy had sent it, too."""

    sent: int = 0
    failed: int = 0
    repeated: int = 0
    stopped_early: bool = False

    def as_dict(self) -> dict[str, int | bool]:
        """The figures, for the log."""
        return asdict(self)


def send_messages(effects: NotifierEffects, now: datetime | None = None) -> NotifierReport:
    """One firing, of at most 100 messages, for 20 s. Raises PostgresUnavailable."""
    report, in_a_row = NotifierReport(), 0
    with effects.database.connection() as connection:
        heartbeat.record(connection, Role.ENVOY, now)
        due = store.clock(connection, now)
    for _ in rounds():
        with effects.database.connection() as connection:
            claimed = store.claim_message(connection, due, LEASE_SECONDS, now)
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
    """One attempt. Where no whole reply came, it counts as not taken, whatever Slack did."""
    try:
        return slack.read(
            effects.outside.ask(slack.request_of(claimed.message, claimed.thread, effects.channel))
        )
    except SourceUnavailable as error:
        return Refused("no reply", error.retry_after_seconds)
    except NotConfigured:
        return Refused("Slack is not configured")


def _sent(effects: NotifierEffects, message: Message, thread: Thread | None, now: datetime | None) -> bool:
    """SENT, with what follows; False where another envoy's was first, and its thread is the task's."""
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
    with effects.database.connection() as connection:
        store.note_undelivered(
            connection, message, f"slack: {refused.code}", min(pause_seconds, LAST_PAUSE_SECONDS), now
        )
    told = {"message_id": message.message_id, "code": refused.code, "attempts": message.attempts + 1}
    _LOG.warning("not delivered; a later firing tries again", extra=told)


def pause_after(attempts: int) -> int:
    """Seconds until the next attempt, with so many before the one that failed: half a minute, doubled up to an hour."""
    return min(FIRST_PAUSE_SECONDS << min(attempts, _MAX_DOUBLINGS), LAST_PAUSE_SECONDS)
