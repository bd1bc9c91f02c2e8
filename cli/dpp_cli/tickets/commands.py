"""Operator commands: tickets (TIX-1), which operators file and the ops cycle carries out.

`--json` prints the JSON of the operators' API.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import typer
from pydantic import ValidationError

from dpp.platform.config import PostgresSettings
from dpp.platform.errors import PostgresNotReached, PostgresUnavailable
from dpp.tickets import read
from dpp.tickets.config import ReaperSettings
from dpp.tickets.contract import TicketCreateRequest
from dpp.tickets.counters import Counters, count
from dpp.tickets.errors import TicketNotFound
from dpp.tickets.file import Filed, file
from dpp.tickets.http import counters_view, ticket_view, whole_view
from dpp.tickets.machine import TicketStatus
from dpp.tickets.model import RequestType, Ticket
from dpp.tickets.read import WholeTicket
from dpp.tickets.requests import PARAMS, read_params
from dpp.tickets.store import NewTicket
from dpp_cli.errors import StackError
from dpp_cli.operator.output import ago, as_array, faults, moment, print_note, print_rows, print_values, short
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows, opened_rows
from dpp_cli.operator.tenants import console

tickets_app = typer.Typer(no_args_is_help=True, help="File tickets and show them; run the reaper of stale tickets.")

Kind = Annotated[RequestType, typer.Argument(metavar="TYPE", help="The type of request.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
AsArray = Annotated[bool, typer.Option("--json", help="One JSON array.")]


class StaleSettings(PostgresSettings, ReaperSettings):
    """Settings of the database and of the reaper's threshold."""


@tickets_app.command("file")
def file_ticket(
    request_type: Kind,
    *,
    reason: Annotated[str, typer.Option(help="Why; recorded with the ticket.")],
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="A parameter of the ticket type (docs/tickets.md).", show_default=False
        ),
    ] = None,
    request_id: Annotated[
        UUID | None, typer.Option("--id", help="To repeat a filing whose outcome is unknown, give its id again.")
    ] = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """File a ticket; the next ops cycle carries it out."""
    new = _new_ticket(request_type, param or [], reason, request_id or uuid4(), actor(who))
    with opened_rows(RowSettings) as rows:
        try:
            filed = file(new, rows.database)
        except PostgresNotReached:
            raise
        except PostgresUnavailable as error:
            again = f"the ticket may have been filed; repeat the command with --id {new.request_id}"
            raise StackError(f"{error}; {again}") from None
    if as_json:
        typer.echo(ticket_view(filed.ticket, rows.settings.zone).model_dump_json(exclude_none=True))
    else:
        typer.echo(_summary(filed))


@tickets_app.command("list")
def show(
    status: Annotated[TicketStatus | None, typer.Option(help="Only tickets with this status.")] = None,
    request_type: Annotated[RequestType | None, typer.Option("--type", help="Only tickets of this type.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many, newest first.")] = 50,
    as_json: AsArray = False,
) -> None:
    """List tickets, newest first."""
    with connected_rows(RowSettings) as (connection, settings):
        page = read.page(connection, below=None, limit=limit, status=status, request_type=request_type)
    print_tickets(page.tickets, settings.zone, as_json=as_json)
    if page.below is not None:
        print_note("there are more; raise --limit")


@tickets_app.command("show")
def show_one(request_id: Annotated[UUID, typer.Argument(help="The id from `list`.")], as_json: AsJson = False) -> None:
    """Show a ticket with its result and every transition."""
    with connected_rows(RowSettings) as (connection, settings):
        try:
            whole = read.read(connection, request_id)
        except TicketNotFound:
            raise StackError(f"ticket {request_id} does not exist; `dpp tickets list` shows all") from None
    if as_json:
        typer.echo(whole_view(whole, settings.zone).model_dump_json(exclude_none=True))
    else:
        _print_whole(whole, settings.zone)


@tickets_app.command("counters")
def show_counters(as_json: AsJson = False) -> None:
    """Count tickets by type and state. Stale tickets are not counted as in progress."""
    with connected_rows(StaleSettings) as (connection, settings):
        found = count(connection, settings.rules)
    if as_json:
        typer.echo(counters_view(found, settings.zone).model_dump_json(exclude_none=True))
        return
    names = ("", "open", "in progress", "stale", "done 1 d", "7 d", "failed 1 d", "7 d", "oldest open")
    rows = (
        (str(kind), *_counted(counters), _age(counters.open.oldest_at, found.asof))
        for kind, counters in (*found.by_type.items(), ("all", found.total))
    )
    print_rows(names, rows, right=names[1:8])


def print_tickets(tickets: Sequence[Ticket], zone: ZoneInfo, *, as_json: bool) -> None:
    """Print tickets as a table or as the API's JSON."""
    if as_json:
        typer.echo(as_array(ticket_view(ticket, zone) for ticket in tickets))
        return
    if not tickets:
        console.print("no tickets found")
        return
    names = ("ticket", "type", "status", "filed", "last processed", "by", "reason")
    rows = (
        (
            *(str(one.request_id), one.request_type, one.current_status),
            *(short(one.created_at, zone), short(one.last_processed_at, zone), one.requested_by, one.reason),
        )
        for one in tickets
    )
    print_rows(names, rows, whole=names[:5])


def _new_ticket(
    request_type: RequestType, params: Sequence[str], reason: str, request_id: UUID, requested_by: str
) -> NewTicket:
    """Validate the words with the same models as an HTTP request. Raises StackError."""
    try:
        asked = TicketCreateRequest(request_id=request_id, request_type=request_type, reason=reason)
    except ValidationError as error:
        raise StackError(faults(error, "--")) from None
    try:
        found = read_params(request_type, _params(request_type, params))
    except ValidationError as error:
        raise StackError(faults(error, "--param ")) from None
    return NewTicket(
        request_id=asked.request_id,
        request_type=request_type,
        params=found,
        reason=asked.reason,
        requested_by=requested_by,
    )


def _params(request_type: RequestType, words: Sequence[str]) -> dict[str, Any]:
    """Parse `NAME=VALUE` words by the type's schema; list values may be repeated or separated by commas."""
    properties = PARAMS[request_type].model_json_schema()["properties"]
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise StackError(f"--param {word}: must be NAME=VALUE")
        if name not in properties:
            raise StackError(f"{request_type} has no parameter {name}; it takes {', '.join(properties)}")
        if (of_json := _type_of(properties[name])) == "array":
            found.setdefault(name, []).extend(part.strip() for part in value.split(","))
        elif name in found:
            raise StackError(f"--param {name} was given twice")
        else:
            found[name] = int(value) if of_json == "integer" and value.isdecimal() else value
    return found


def _type_of(schema: Mapping[str, Any]) -> str:
    """Return the JSON type of a parameter, whether it is optional or not."""
    branches = (schema, *schema.get("anyOf", ()))
    return next((kind for one in branches if (kind := one.get("type", "null")) != "null"), "string")


def _summary(filed: Filed) -> str:
    ticket = filed.ticket
    how = "filed" if filed.created else f"already filed by {ticket.requested_by}"
    return f"ticket {ticket.request_id} {how}: {ticket.request_type}, {ticket.current_status}"


def _print_whole(whole: WholeTicket, zone: ZoneInfo) -> None:
    ticket, result = whole.ticket, whole.result
    console.print(f"ticket {ticket.request_id}", highlight=False)
    values = {
        "type": ticket.request_type,
        **{f"  {name}": str(value) for name, value in ticket.params.items()},
        "reason": ticket.reason,
        "filed by": f"{ticket.requested_by}, {moment(ticket.created_at, zone)}",
        "status": ticket.current_status,
        "attempts": str(ticket.attempts),
        "last processed": moment(ticket.last_processed_at, zone) or None,
        "result": result.message if result else None,
        "by": f"{result.processor_id}, {moment(result.processed_at, zone)}" if result else None,
    }
    print_values(values, indent="  ")
    rows = (
        (moment(one.happened_at, zone), one.from_status or "", one.to_status, str(one.attempt), one.actor)
        for one in whole.transitions
    )
    print_rows(("when", "from", "to", "attempt", "by"), rows)


def _counted(counters: Counters) -> list[str]:
    waiting = (counters.open.count, counters.in_progress.count, counters.stale.count)
    ended = (counters.done.last_day, counters.done.last_week)
    failed = (counters.failed.last_day, counters.failed.last_week)
    return [str(number) for number in (*waiting, *ended, *failed)]


def _age(oldest_at: datetime | None, asof: datetime) -> str:
    if oldest_at is None:
        return ""
    return ago(oldest_at, asof)
