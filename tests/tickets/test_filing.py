"""Filing and reading tickets (TIX-1): once per request_id, in order, with an unchangeable history."""

from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from dpp.tickets import read
from dpp.tickets.errors import TicketConflict, TicketNotFound
from dpp.tickets.file import Filed, file
from dpp.tickets.machine import MACHINE, TicketStatus
from dpp.tickets.model import RequestType
from dpp.tickets.store import NewTicket
from tests.support.threads import at_once
from tests.tickets.environment import Environment


def new_ticket(**changes: Any) -> NewTicket:
    values: dict[str, Any] = {
        "request_id": uuid4(),
        "request_type": RequestType.BUDGET_CREDIT,
        "params": {"tenant_id": "t_acme", "amount_usd": "5.0000"},
        "reason": "a month's budget",
        "requested_by": "kim",
    }
    return NewTicket(**values | changes)


def test_filed_ticket_is_open_and_has_a_history(env: Environment) -> None:
    """TIX-1."""
    new = new_ticket()
    filed = file(new, env.database)
    assert filed.created
    ticket = filed.ticket
    assert (ticket.current_status, ticket.attempts, ticket.processor_id) == (TicketStatus.OPEN, 0, None)
    assert (ticket.request_type, ticket.params, ticket.reason) == (new.request_type, new.params, new.reason)
    (kept,) = env.details(ticket).transitions
    assert (kept.from_status, kept.to_status, kept.actor) == (None, TicketStatus.OPEN, "kim")


def test_repeated_request_files_once(env: Environment) -> None:
    """The first operator remains `requested_by`."""
    new = new_ticket()
    first = file(new, env.database)
    again = file(new_ticket(request_id=new.request_id, requested_by="lee"), env.database)
    assert again == Filed(first.ticket, created=False)
    assert len(env.details(first.ticket).transitions) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"params": {"tenant_id": "t_acme", "amount_usd": "50.0000"}},
        {"request_type": RequestType.DLQ_REDRIVE, "params": {}},
        {"reason": "another"},
    ],
)
def test_different_request_with_the_same_id_is_rejected(env: Environment, changes: dict[str, Any]) -> None:
    new = new_ticket()
    first = file(new, env.database).ticket
    with pytest.raises(TicketConflict):
        file(new_ticket(request_id=new.request_id, **changes), env.database)
    assert env.ticket(first) == first


def test_twenty_concurrent_requests_file_once(env: Environment) -> None:
    new, filed = new_ticket(), list[Filed]()
    at_once(env.url, *[lambda database: filed.append(file(new, database))] * 20)
    assert len(filed) == 20
    assert [one.created for one in filed].count(True) == 1
    assert {one.ticket.request_id for one in filed} == {new.request_id}


def test_pages_have_each_ticket_once_newest_first(env: Environment) -> None:
    filed = [env.file(reason=f"no. {n}") for n in range(7)]
    shown: list[UUID] = []
    below: int | None = None
    while True:
        page = env.using(read.page, below=below, limit=3, status=None, request_type=None)
        shown += [ticket.request_id for ticket in page.tickets]
        env.file(reason="filed while somebody reads")  # before the remaining pages
        if page.below is None:
            break
        below = page.below
    assert shown == [ticket.request_id for ticket in reversed(filed)]


def test_pages_filtered_by_status_and_type(env: Environment) -> None:
    credit = env.file(RequestType.BUDGET_CREDIT)
    env.file(RequestType.DLQ_REDRIVE)
    taken = env.in_progress(request_type=RequestType.BUDGET_CREDIT)

    def of(status: TicketStatus | None, kind: RequestType | None) -> list[UUID]:
        page = env.using(read.page, below=None, limit=10, status=status, request_type=kind)
        return [ticket.request_id for ticket in page.tickets]

    assert of(TicketStatus.OPEN, RequestType.BUDGET_CREDIT) == [credit.request_id]
    assert of(None, RequestType.BUDGET_CREDIT) == [taken.request_id, credit.request_id]
    assert of(TicketStatus.DONE, None) == []


@pytest.mark.parametrize("request_id", [None, UUID(int=7)])
def test_unknown_ticket_is_not_found(env: Environment, request_id: UUID | None) -> None:
    with env.database.connection() as connection, pytest.raises(TicketNotFound):
        read.read(connection, request_id)


class TestTable:
    """The database rejects what the machine doesn't allow, for any writer."""

    @pytest.mark.parametrize("source", list(TicketStatus))
    @pytest.mark.parametrize("target", list(TicketStatus))
    def test_table_allows_exactly_the_transitions_of_the_machine(
        self, env: Environment, source: TicketStatus, target: TicketStatus
    ) -> None:
        """TIX-2: all sixteen pairs."""
        ticket = env.file() if source is TicketStatus.OPEN else env.in_progress()
        with psycopg.connect(env.url) as connection:
            if source in (TicketStatus.DONE, TicketStatus.FAILED):
                _end(connection, ticket.request_id, source)
            allowed = (source, target) in {(way.source, way.target) for way in MACHINE.transitions}
            if allowed:
                _move(connection, ticket.request_id, target)
                connection.rollback()  # a terminal status would need a result
            else:
                with pytest.raises(psycopg.errors.CheckViolation):
                    _move(connection, ticket.request_id, target)

    def test_new_ticket_must_be_open(self, env: Environment) -> None:
        with psycopg.connect(env.url) as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(
                "INSERT INTO tickets (request_id, request_type, params, reason, requested_by, current_status,"
                " attempts, processor_id, last_processed_at, moved_by, created_at, updated_at) VALUES"
                " (gen_random_uuid(), 'DLQ_REDRIVE', '{}', 'x', 'x', 'IN_PROGRESS', 1, 'x', now(), 'x', now(),"
                " now())"
            )

    @pytest.mark.parametrize(
        "change",
        [
            "last_processed_at = NULL",
            "last_processed_at = updated_at + interval '1 second'",
            "last_processed_at = 'infinity'",
            "processor_id = NULL",
            "attempts = 0",
            "request_type = 'BUDGET_CREDIT'",
            "params = '{\"limit\": 99}'",
            "requested_by = 'lee'",
            "reason = 'another'",
            "created_at = created_at - interval '1 day'",
            "updated_at = created_at - interval '1 day', last_processed_at = created_at - interval '1 day'",
        ],
    )
    def test_ticket_in_progress_has_an_age_and_its_request_never_changes(self, env: Environment, change: str) -> None:
        """TIX-1: last_processed_at is neither NULL nor in the future, so the reaper finds every ticket."""
        env.in_progress()
        with psycopg.connect(env.url) as connection, pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(f"UPDATE tickets SET {change}".encode())

    def test_no_ticket_ends_without_a_result(self, env: Environment) -> None:
        ticket = env.in_progress()
        with psycopg.connect(env.url) as connection:
            _move(connection, ticket.request_id, TicketStatus.DONE)
            with pytest.raises(psycopg.errors.CheckViolation, match="ends with a result"):
                connection.commit()

    def test_result_must_match_its_ticket(self, env: Environment) -> None:
        ticket = env.in_progress()
        with psycopg.connect(env.url) as connection:
            _move(connection, ticket.request_id, TicketStatus.FAILED)
            with pytest.raises(psycopg.errors.ForeignKeyViolation):
                _result(connection, ticket.request_id, TicketStatus.DONE)

    def test_ticket_has_one_result(self, env: Environment) -> None:
        ticket = env.in_progress()
        with psycopg.connect(env.url) as connection:
            _end(connection, ticket.request_id, TicketStatus.DONE)
            with pytest.raises(psycopg.errors.UniqueViolation):
                _result(connection, ticket.request_id, TicketStatus.DONE)

    @pytest.mark.parametrize("table", ["ticket_results", "ticket_transitions", "emergency_stop_changes"])
    @pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {} CASCADE", "UPDATE {} SET actor = 'x'"])
    def test_audit_records_are_append_only(self, env: Environment, table: str, statement: str) -> None:
        if table == "ticket_results":
            statement = statement.replace("actor", "message")
        with psycopg.connect(env.url) as connection, pytest.raises(psycopg.errors.RestrictViolation):
            connection.execute(statement.format(table).encode())


def _move(connection: psycopg.Connection[Any], request_id: UUID, target: TicketStatus) -> None:
    """Update with all columns of the target state, so that only the machine can reject it."""
    taken = target is not TicketStatus.OPEN
    connection.execute(
        "UPDATE tickets SET current_status = %(target)s, attempts = CASE WHEN %(taken)s THEN 1 ELSE 0 END,"
        " processor_id = CASE WHEN %(taken)s THEN 'p' END,"
        " last_processed_at = CASE WHEN %(taken)s THEN updated_at END WHERE request_id = %(id)s",
        {"target": target, "taken": taken, "id": request_id},
    )


def _result(connection: psycopg.Connection[Any], request_id: UUID, status: TicketStatus) -> None:
    connection.execute(
        "INSERT INTO ticket_results VALUES (%(id)s, 'p', %(status)s, now(), 'm')", {"id": request_id, "status": status}
    )


def _end(connection: psycopg.Connection[Any], request_id: UUID, status: TicketStatus) -> None:
    _move(connection, request_id, status)
    _result(connection, request_id, status)
    connection.commit()
