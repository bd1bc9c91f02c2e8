"""A person's answer to a task that asked a question (LIFE-10).

The task's row says that it waits for an answer, and is written together with the question. A row of
`lifecycle_awaiting` says that a person has received the question. So an answer is accepted even before the envoy
(notifier) has recorded that it sent the question, and without a thread; an envoy that records it later finds that no
answer is awaited.
"""

from datetime import datetime

from dpp.lifecycle.flow import store
from dpp.lifecycle.flow.errors import NothingAwaited, TaskNotFound
from dpp.lifecycle.flow.model import Thread, bounded
from dpp.platform.db.postgres import Connection

MAX_ANSWER = 4_000


def answer_in_thread(connection: Connection, thread: Thread, text: str, now: datetime | None = None) -> bool:
    """Accept a reply in a thread as the answer. Returns False if no task waits in the thread, or if the reply is empty.

    Slack repeats a reply whose receipt was not confirmed, and the task may have asked another question by then. So a
    repetition of the last answer is not accepted as the next one; an operator can give it (`answer`).
    """
    answer_text = bounded(text, MAX_ANSWER)
    if not answer_text:
        return False
    with connection.transaction():
        task_id = store.task_of_thread(connection, thread)
        return task_id is not None and _take(connection, task_id, answer_text, again=False, now=now)


def answer(connection: Connection, task_id: str, text: str, now: datetime | None = None) -> None:
    """Accept an operator's answer. Raises TaskNotFound, NothingAwaited, and ValueError if it is empty."""
    answer_text = bounded(text, MAX_ANSWER)
    if not answer_text:
        raise ValueError("the answer must not be empty")
    with connection.transaction():
        if _take(connection, task_id, answer_text, again=True, now=now):
            return
        if store.find_task(connection, task_id) is None:
            raise TaskNotFound
        raise NothingAwaited


def _take(connection: Connection, task_id: str, answer_text: str, *, again: bool, now: datetime | None) -> bool:
    """Update the task before the awaiting row, in the order in which the notifier locks them."""
    if store.take_answer(connection, task_id, answer_text, again=again, now=now) is None:
        return False
    store.forget_awaited(connection, task_id)
    return True
