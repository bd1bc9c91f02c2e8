"""Operator commands: authentication errors, their clusters, and what is decided of them (AUTH-1, AUTH-10, AUTH-11).

`--json` prints what the API answers. Events and their dead letters are in `auth_error_events` and `auth_error_letters`,
policies in `auth_error_policies`.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import typer
from pydantic import BaseModel, StringConstraints, TypeAdapter, ValidationError
from rich.table import Table

from dpp.auth_errors import store
from dpp.auth_errors.api import read
from dpp.auth_errors.api.contract import ClusterDecidedView, ClusterDecisionRequest, Instant
from dpp.auth_errors.api.http import cluster_view, decision_view, error_view, whole_view
from dpp.auth_errors.api.read import WholeAuthError
from dpp.auth_errors.decisions.decide import Order, decide, decide_cluster
from dpp.auth_errors.errors import AuthErrorNotFound, ClusterNotFound, DecisionConflict
from dpp.auth_errors.machine import AuthErrorStatus, DecisionType
from dpp.auth_errors.model import AuthError, Cluster
from dpp.auth_errors.rehash import rehash
from dpp.auth_errors.store import Filter, Place
from dpp.auth_errors.traces import stack_hash
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached, PostgresUnavailable
from dpp.platform.ids import parse_uuid
from dpp_cli.auth_errors import dead_letters, events, policies
from dpp_cli.auth_errors.events import print_entries
from dpp_cli.errors import StackError
from dpp_cli.operator.output import (
    as_array,
    faults,
    moment,
    plain,
    plain_lines,
    print_table,
    print_values,
    say,
)
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows, opened_rows
from dpp_cli.operator.tenants import console

auth_errors_app = typer.Typer(
    no_args_is_help=True, help="Authentication errors that services reported, and what is done about them."
)
auth_errors_app.add_typer(dead_letters.letters_app, name="dlq")
auth_errors_app.add_typer(policies.policy_app, name="policy")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
AsArray = Annotated[bool, typer.Option("--json", help="One JSON array.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept with the decision.")]

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)
_AGO = re.compile(r"([0-9]{1,6})(min|h|d)", re.ASCII)
_MINUTES = {"min": 1, "h": 60, "d": 1_440}


class _Deployment(BaseModel):
    """What `deployed` is told, as the table has it."""

    label: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    service: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None


def _time(text: str) -> datetime:
    """A time with its offset, or how long ago it was."""
    if found := _AGO.fullmatch(text):
        return datetime.now(UTC) - timedelta(minutes=int(found[1]) * _MINUTES[found[2]])
    try:
        return _INSTANT.validate_python(text)
    except ValidationError:
        example = "2026-01-31T09:30:00+09:00"
        raise typer.BadParameter(
            f"is a time with its offset ({example}), or so long ago: 30min, 2h, 7d"
        ) from None


Since = Annotated[
    datetime | None,
    typer.Option(
        parser=_time, metavar="TIME", help="Occurred then or later; 2h: so long ago.", show_default=False
    ),
]
Before = Annotated[
    datetime | None,
    typer.Option(parser=_time, metavar="TIME", help="Occurred before that.", show_default=False),
]


@auth_errors_app.command("list")
def show(
    *,
    status: Annotated[AuthErrorStatus | None, typer.Option(help="Only those that stand so.")] = None,
    exception_class: Annotated[
        str | None, typer.Option("--class", help="Only of this exception class, whole.", show_default=False)
    ] = None,
    cluster: Annotated[UUID | None, typer.Option(help="Only of this cluster.", show_default=False)] = None,
    since: Since = None,
    before: Before = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The newest so many.")] = 50,
    as_json: AsArray = False,
) -> None:
    """Show errors, the newest occurrence first."""
    which = Filter(status, exception_class, cluster, since)
    with connected_rows(RowSettings) as (connection, settings):
        page = read.page(connection, which, Place(before, 0) if before else None, limit)
    if as_json:
        typer.echo(as_array(error_view(error) for error in page.errors))
    else:
        _print_errors(page.errors, settings.zone)
    if page.place is not None:
        say("there are more (--limit)")


@auth_errors_app.command("show")
def show_one(
    auth_error_id: Annotated[UUID, typer.Argument(help="As `list` shows it.")],
    trace: Annotated[bool, typer.Option("--trace", help="With its stack trace, as it is kept.")] = False,
    normal_form: Annotated[
        bool, typer.Option("--normal-form", help="With the text that its stack hash is made of.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show an error with its clusters, decisions, history and events."""
    if as_json and normal_form:
        raise StackError("--json has the trace, and no normal form: leave one of them out")
    with connected_rows(RowSettings) as (connection, settings):
        try:
            whole = read.read(connection, auth_error_id)
        except AuthErrorNotFound:
            raise StackError(f"there is no authentication error {auth_error_id}") from None
    if as_json:
        typer.echo(_json(whole_view(whole)))
        return
    _print_whole(whole, settings.zone)
    error = whole.error
    if trace:
        _print_text("stack trace", error.stacktrace)
    if normal_form:
        text = stack_hash.normal_form(error.exception_class, error.stacktrace)
        _print_text(f"normal form ({stack_hash.VERSION})", text)


@auth_errors_app.command("decide")
def decide_of(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[ID] DECISION", help=f"The error, and one of {', '.join(DecisionType)}."),
    ],
    *,
    reason: Why,
    cluster: Annotated[
        UUID | None, typer.Option(help="All open errors of this cluster in place of one.", show_default=False)
    ] = None,
    decision_id: Annotated[
        UUID | None,
        typer.Option(
            "--id", help="Repeat a decision whose outcome is unknown with its own id: decides once."
        ),
    ] = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Decide of one error, or with --cluster of all of a cluster that may be decided so."""
    auth_error_id, decision = _named(words, of_cluster=cluster is not None)
    order = _order(decision, reason, decision_id or uuid4(), actor(who))
    with opened_rows(RowSettings) as rows:
        if cluster is not None:
            if decision_id is not None:
                raise StackError("each error of a cluster has a decision of its own: leave --id out")
            _decide_cluster(order, cluster, rows.database, as_json=as_json)
        else:
            _decide_one(order, auth_error_id, rows.database, as_json=as_json)


@auth_errors_app.command("clusters")
def show_clusters(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The last so many.")] = 20,
    as_json: AsArray = False,
) -> None:
    """Show the errors of one stack hash as one line each, the one that was seen last first."""
    with connected_rows(RowSettings) as (connection, settings):
        found = store.clusters(connection, limit)
    if as_json:
        typer.echo(as_array(cluster_view(one) for one in found))
    elif found:
        _print_clusters(found, settings.zone)
    else:
        console.print("no cluster yet")


@auth_errors_app.command("deployed")
def note_deployment(
    label: Annotated[str, typer.Argument(help="What was deployed, such as its version.")],
    service: Annotated[
        str | None, typer.Option(help="Of this service alone; of all if not given.", show_default=False)
    ] = None,
    who: Who = None,
) -> None:
    """Tell that something was deployed just now; policies ask how long ago that was."""
    asked_by = actor(who)
    try:
        told = _Deployment(label=label, service=service)
    except ValidationError as error:
        raise StackError(faults(error, "")) from None
    with connected_rows(RowSettings) as (connection, settings):
        at = store.insert_deploy(connection, uuid4(), service=service, label=told.label, actor=asked_by)
    of = f"of {service}" if service else "of all services"
    typer.echo(f"deployment {of} noted at {moment(at, settings.zone)}")


@auth_errors_app.command("rehash")
def rehash_errors(
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="No more than this.")] = 10_000,
) -> None:
    """Put analysed errors into the clusters of today's version of the stack hash; those of older versions stay.

    Safe to end and to repeat.
    """
    with opened_rows(RowSettings) as rows:
        done, above = rehash(rows.database, limit=limit)
    errors = "1 error" if done == 1 else f"{done} errors"
    typer.echo(f"{errors} put into a cluster of {stack_hash.VERSION}")
    if above is not None:
        say("there may be more: repeat the command")


auth_errors_app.command("outbox")(events.show_outbox)
auth_errors_app.command("redrive")(events.redrive_events)


def _named(words: Sequence[str], *, of_cluster: bool) -> tuple[UUID | None, DecisionType]:
    """The error and the decision that the words name. Raises BadParameter."""
    if len(words) != (1 if of_cluster else 2):
        raise typer.BadParameter("DECISION alone with --cluster" if of_cluster else "ID and DECISION")
    auth_error_id = None if of_cluster else parse_uuid(words[0])
    if auth_error_id is None and not of_cluster:
        raise typer.BadParameter(f"{words[0]!r} is no id of an error: 8-4-4-4-12 hexadecimal digits")
    try:
        return auth_error_id, DecisionType(words[-1])
    except ValueError:
        raise typer.BadParameter(f"{words[-1]!r} is not one of {', '.join(DecisionType)}") from None


def _order(decision: DecisionType, reason: str, decision_id: UUID, asked_by: str) -> Order:
    """What the words say, held against the same model as a request over HTTP. Raises StackError."""
    try:
        asked = ClusterDecisionRequest.model_validate({"decisionType": decision, "reason": reason})
    except ValidationError as error:
        raise StackError(faults(error, "--")) from None
    return Order(decision_id, decision, asked_by, asked.reason)


def _decide_one(order: Order, auth_error_id: UUID | None, database: Database, *, as_json: bool) -> None:
    try:
        decided = decide(order, auth_error_id, database)
    except AuthErrorNotFound:
        raise StackError(f"there is no authentication error {auth_error_id}") from None
    except DecisionConflict:
        raise StackError(f"--id {order.decision_id} stands for another decision: leave it out") from None
    except PostgresNotReached:
        raise
    except PostgresUnavailable as error:
        again = f"it may have been decided: repeat it with --id {order.decision_id}"
        raise StackError(f"{error}; {again}") from None
    made = decided.decision
    if as_json:
        typer.echo(_json(decision_view(made)))
        return
    was = "decided" if decided.made else f"was decided before, by {made.actor}"
    typer.echo(f"error {auth_error_id} {was}: {made.decision_type}, {made.from_status} -> {made.to_status}")


def _decide_cluster(order: Order, cluster_id: UUID, database: Database, *, as_json: bool) -> None:
    """Call after call, until none is left; what was decided stays, whatever ends it."""
    total, more = 0, True
    try:
        while more:
            done = decide_cluster(order, cluster_id, database)
            total, more = total + done.decided, done.more
    except ClusterNotFound:
        raise StackError(f"there is no cluster {cluster_id}") from None
    except DependencyUnavailable as error:
        raise StackError(f"{error}; {total} or more were decided: repeat it for the rest") from None
    if as_json:
        typer.echo(_json(ClusterDecidedView(decided=total, more=False)))
    else:
        errors = "1 error" if total == 1 else f"{total} errors"
        typer.echo(f"{errors} of cluster {cluster_id} decided: {order.decision_type}")


def _json(body: BaseModel) -> str:
    return body.model_dump_json(by_alias=True, exclude_none=True)


def _print_errors(errors: Sequence[AuthError], zone: ZoneInfo) -> None:
    if not errors:
        console.print("no such error")
        return
    names = ("error", "occurred", "http", "status", "service", "class")
    table = Table(*names, box=None, header_style="dim", pad_edge=False)
    table.columns[5].overflow = "fold"  # whole, since `--class` asks for it so
    for column in table.columns[:4]:
        column.no_wrap = True
    for one in errors:
        occurred = f"{one.occurred_at.astimezone(zone):%m-%d %H:%M:%S}"
        status = one.status + (" (escalated)" if one.escalated_at else "")
        cells = (str(one.auth_error_id), occurred, str(one.http_status), status)
        table.add_row(*cells, plain(one.service or ""), plain(one.exception_class))
    print_table(table)


def _print_clusters(clusters: Sequence[Cluster], zone: ZoneInfo) -> None:
    names = ("cluster", "errors", "first seen", "last seen", "escalated", "hash", "class")
    table = Table(*names, box=None, header_style="dim", pad_edge=False)
    table.columns[1].justify = "right"
    table.columns[6].overflow = "fold"
    for column in table.columns[:6]:
        column.no_wrap = True
    for one in clusters:
        times = (
            f"{at.astimezone(zone):%m-%d %H:%M}" if at else ""
            for at in (one.first_seen_at, one.last_seen_at, one.escalated_at)
        )
        hashed = f"{one.hash_version}:{one.stack_hash[:8]}"
        table.add_row(str(one.cluster_id), str(one.error_count), *times, hashed, plain(one.exception_class))
    print_table(table)


def _print_whole(whole: WholeAuthError, zone: ZoneInfo) -> None:
    error = whole.error
    console.print(f"error {error.auth_error_id}", highlight=False)
    asked = " ".join(filter(None, (error.http_method, error.request_path)))
    root = ": ".join(filter(None, (error.root_cause_class, error.root_cause_message)))
    values = {
        "stands at": error.status,
        "escalated": moment(error.escalated_at, zone) or None,
        "class": error.exception_class,
        "message": error.exception_message,
        "root cause": root or None,
        "answered": f"HTTP {error.http_status}",
        "request": asked or None,
        "service": error.service,
        "occurred": moment(error.occurred_at, zone),
        "reported": f"{moment(error.created_at, zone)}, by {error.reported_by} as {error.dedup_key}",
        "failures": f"{error.retry_count}, last: {error.last_failure}" if error.retry_count else None,
        "next try": moment(error.next_retry_at, zone) or None,
        "analysed": moment(error.analyzed_at, zone) or None,
    }
    print_values(values, indent="  ")
    if whole.clusters:
        _print_clusters(whole.clusters, zone)
    if whole.decisions:
        table = Table("decided", "decision", "by", "why", box=None, header_style="dim")
        for made in whole.decisions:
            cells = (moment(made.decided_at, zone), made.decision_type.value)
            table.add_row(*cells, plain(made.actor), plain(made.reason))
        print_table(table)
    table = Table("when", "from", "to", "by", "failure", box=None, header_style="dim")
    for one in whole.transitions:
        moved = (one.from_status or "", one.to_status.value)
        table.add_row(moment(one.happened_at, zone), *moved, plain(one.actor), plain(one.failure or ""))
    print_table(table)
    print_entries(whole.events, datetime.now(UTC), of_one_error=True)


def _print_text(title: str, text: str) -> None:
    console.print(f"\n{title}", style="dim", highlight=False)
    console.print(plain_lines(text), soft_wrap=True)
