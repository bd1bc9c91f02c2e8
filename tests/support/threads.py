"""Threads that start together, each with a connection of its own."""

import threading
from collections.abc import Callable

from dpp.platform.db.postgres import Database


def at_once(url: str, *does: Callable[[Database], object]) -> None:
    """Call each function in a thread of its own, all at the same time; an exception fails the test."""
    gate, wrong = threading.Barrier(len(does)), list[BaseException]()

    def work(one: Callable[[Database], object]) -> None:
        database = Database(url)
        try:
            with database.connection():
                gate.wait()
            one(database)
        except BaseException as error:  # noqa: BLE001 - raised in the test
            wrong.append(error)
        finally:
            database.close()

    threads = [threading.Thread(target=work, args=(one,)) for one in does]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
