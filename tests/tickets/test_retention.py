"""Retention of tickets (LIFE-8): ended tickets with their rows, receipts, and published reports."""

from datetime import datetime

from dpp.tickets.retention import CLASSES
from tests.support.retention_batches import APPEND_ONLY, NO_RIGHT, ROLE, deleted, named, refusal
from tests.tickets.environment import Environment

TICKETS, RECEIPTS, REPORTS = (named(CLASSES, name) for name in ("tickets", "ops_receipts", "reaper_reports"))


def _count(env: Environment, table: str) -> int:
    (row,) = env.sql(f"SELECT count(*) FROM {table}")
    return int(row[0])


def _clear(env: Environment, before: datetime) -> dict[str, int]:
    with env.database.connection() as connection:
        for one in CLASSES:
            assert one.due(connection, before, 1_000) >= 0
        return {one.name: deleted(connection, one, before, limit=1) for one in CLASSES}


def test_ended_ticket_is_deleted_with_its_rows_and_an_open_one_is_not(env: Environment) -> None:
    ended = [env.file(), env.file()]
    for _ in range(2):
        env.cycle()
    living = [env.file(), env.in_progress()]
    assert _clear(env, env.later(days=-1)) == {"tickets": 0, "ops_receipts": 0, "reaper_reports": 0}
    gone = _clear(env, env.later(days=1))
    assert gone["tickets"] == len(ended)
    assert gone["ops_receipts"] == 2
    assert gone["reaper_reports"] == 1  # the API returns the newest report (TIX-5) at any age
    assert _count(env, "tickets") == len(living)
    assert _count(env, "ticket_results") == 0
    rows = env.sql("SELECT DISTINCT request_id FROM ticket_transitions")
    assert {row[0] for row in rows} == {ticket.request_id for ticket in living}


def test_each_class_returns_what_it_deletes(env: Environment) -> None:
    env.file()
    env.cycle()
    uses = {one.name: env.using(one.use, env.later(minutes=1)) for one in CLASSES}
    assert {name: use.rows_a_day for name, use in uses.items()} == dict.fromkeys(uses, 1)
    assert all(use.rows == 1 and use.bytes > 0 for use in uses.values())
    assert [name for name, use in uses.items() if use.oldest_at is None] == ["reaper_reports"]


def test_audit_records_are_append_only_for_every_role(env: Environment) -> None:
    env.file()
    with env.database.connection() as connection:
        assert refusal(connection, "DELETE FROM ticket_transitions") == APPEND_ONLY
        assert refusal(connection, "UPDATE ticket_transitions SET actor = 'x'", role=ROLE) == NO_RIGHT
        assert refusal(connection, "TRUNCATE ticket_transitions", role=ROLE) == NO_RIGHT
        assert refusal(connection, "DELETE FROM budget_credits", role=ROLE) == NO_RIGHT
        # No role can delete an open ticket.
        assert refusal(connection, "DELETE FROM tickets", role=ROLE) is not None
        assert refusal(connection, "DELETE FROM tickets") is not None
