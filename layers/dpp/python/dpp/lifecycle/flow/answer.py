"""A person's answer to a task that asked for one (LIFE-10).

That a task waits says its own row, which is written together with the question; `lifecycle_awaiting` says that the
question is with a person. So an answer is taken even if it comes before the envoy has noted that it sent the question,
or without any thread; and an envoy that notes it afterwards finds that nothing is awaited any more.
"""

from datetime import datetime

from dpp.lifecycle.flow import store
from dpp.lifecycle.flow.errors import NothingAwaited, TaskNotFound
from dpp.lifecycle.flow.model import Thread, bounded
from dpp.platform.db.postgres import Connection

MAX_ANSWER = 4_000


def answer_in_thread(connection: Connection, thread: Thread, text: str, now: datetime | None = None) -> bool:
    """Take a reply for the answer; False where nothing waits in this thread, and for a reply without a word.

    Twice is once: Slack tells a reply again whose receipt it did not hear of, by when the task may have asked anew.
    The words that were answered last are therefore no answer to the next question; an operator may say them (`answer`).
    """
    given = bounded(text, MAX_ANSWER)
    if not given:
        return False
    with connection.transaction():
        task_id = store.task_of_thread(connection, thread)
        return task_id is not None and _take(connection, task_id, given, again=False, now=now)


def answer(connection: Connection, task_id: str, text: str, now: datetime | None = None) -> None:
    """Take an operator's answer. Raises TaskNotFound, NothingAwaited, and ValueError for one without a word."""
    given = bounded(text, MAX_ANSWER)
    if not given:
        raise ValueError("an answer has a word at least")
    with connection.transaction():
        if _take(connection, task_id, given, again=True, now=now):
            return
        if store.find_task(connection, task_id) is None:
            raise TaskNotFound
        raise NothingAwaited


def _take(connection: Connection, task_id: str, given: str, *, again: bool, now: datetime | None) -> bool:
    """First the task, whose row the envoy locks before it notes what is awaited; then what it has noted."""
    if store.take_answer(connection, task_id, given, again=again, now=now) is None:
        return False
    store.forget_awaited(connection, task_id)
    return True
