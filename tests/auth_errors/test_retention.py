"""What of authentication errors outlives its use (LIFE-8; AUTH-5): handled events, and errors that were decided."""

from datetime import datetime, timedelta

from dpp.auth_errors.retention import CLASSES
from tests.aging import deleted, named
from tests.auth_errors.conftest import Desk

OUTBOX, ERRORS = named(CLASSES, "outbox"), named(CLASSES, "auth_errors")


def _days_on(desk: Desk, days: float) -> datetime:
    return desk.now + timedelta(days=days)


def test_what_was_done_goes_with_its_ledger_row_and_not_before_its_time(desk: Desk) -> None:
    old = desk.post()
    desk.settle()
    desk.pass_time(20 * 86_400)
    young = desk.post()
    desk.settle()
    with desk.database.connection() as connection:
        assert OUTBOX.due(connection, _days_on(desk, -10), 100) == 2
        assert deleted(connection, OUTBOX, _days_on(desk, -10), limit=1) == 2
        use = OUTBOX.use(connection, desk.now)
    assert (desk.events(old), len(desk.events(young))) == ([], 2)
    assert desk.rows("SELECT count(*) FROM processed_message") == [(2,)]
    assert (use.rows, use.rows_a_day) == (2, 2)


def test_what_died_stays_until_somebody_looked(desk: Desk) -> None:
    desk.handlers.clear()
    auth_error_id = desk.post()
    desk.come_to_rest(rounds=12, seconds=700)
    desk.pass_time(400 * 86_400)
    with desk.database.connection() as connection:
        assert deleted(connection, OUTBOX, _days_on(desk, 1)) == 0
    assert desk.ledger(auth_error_id).status == "DEAD"


def test_an_error_goes_when_it_is_over_and_nothing_of_it_is_on_its_way(desk: Desk) -> None:
    analysed, decided = desk.post(), desk.post()
    desk.settle()
    desk.rows(
        "UPDATE auth_error SET status = 'IGNORED', moved_by = 'kim', updated_at = updated_at"
        f" WHERE auth_error_id = '{decided}' RETURNING 1"
    )
    with desk.database.connection() as connection:
        assert deleted(connection, ERRORS, _days_on(desk, 1)) == 0  # its events are still there
        deleted(connection, OUTBOX, _days_on(desk, 1))
        assert ERRORS.use(connection, desk.now).rows == 2
        assert deleted(connection, ERRORS, _days_on(desk, -1)) == 0
        assert deleted(connection, ERRORS, _days_on(desk, 1)) == 1
        assert ERRORS.use(connection, desk.now).rows == 1
    assert [str(row[0]) for row in desk.rows("SELECT auth_error_id FROM auth_error")] == [str(analysed)]
