"""The start of a run against the mark of its submit: the two write the same row within milliseconds (RUN-16, D5)."""

import threading
from datetime import UTC, datetime, timedelta

import psycopg

from dpp.runs.execute import WorkOutcome, execute
from tests.support.world import World, message_of


def test_the_worker_meets_a_lock_and_begins_all_the_same(world: World) -> None:
    """The start waits for the mark of the submit, which holds the row: the row it then reads is the newer one."""
    run = world.submit(world.tenant()).run
    with psycopg.connect(world.database_url) as other:
        other.execute("UPDATE runs SET enqueued_at = now() WHERE run_id = %s", [run.run_id])
        outcomes: list[WorkOutcome] = []
        message, effects = message_of(run), world.work_effects()
        worker = threading.Thread(
            target=lambda: outcomes.append(execute(message, "receipt", effects).outcome)
        )
        worker.start()
        _await_waiter(world)
        other.commit()
        worker.join(20)
    assert outcomes == [WorkOutcome.ENDED]


def _await_waiter(world: World) -> None:
    """Until somebody waits for a lock in this database."""
    deadline = datetime.now(UTC) + timedelta(seconds=20)
    with psycopg.connect(world.database_url, autocommit=True) as look:
        while datetime.now(UTC) < deadline:
            waiting = look.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            if waiting is not None:
                return
    raise AssertionError("nobody waits")
