"""The start of a run and the last write of its submit update the same row within milliseconds (RUN-16, D5)."""

import threading
from datetime import UTC, datetime, timedelta

import psycopg

from dpp.runs.execute import WorkOutcome, execute
from tests.support.world import World, message_of


def test_a_worker_waits_for_the_submits_lock_and_starts_the_run(world: World) -> None:
    """The start waits until the submit has set `enqueued_at`, and then works with the newer row."""
    run = world.submit(world.tenant()).run
    with psycopg.connect(world.database_url) as other:
        other.execute("UPDATE runs SET enqueued_at = now() WHERE run_id = %s", [run.run_id])
        outcomes: list[WorkOutcome] = []
        message, effects = message_of(run), world.work_effects()
        worker = threading.Thread(target=lambda: outcomes.append(execute(message, "receipt", effects).outcome))
        worker.start()
        _await_blocked_statement(world)
        other.commit()
        worker.join(60)
    assert outcomes == [WorkOutcome.ENDED]


def _await_blocked_statement(world: World) -> None:
    """Wait until a statement waits for a lock in this database."""
    deadline = datetime.now(UTC) + timedelta(seconds=60)
    with psycopg.connect(world.database_url, autocommit=True) as observer:
        while datetime.now(UTC) < deadline:
            waiting = observer.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
            if waiting is not None:
                return
    raise AssertionError("no statement waits for a lock")
