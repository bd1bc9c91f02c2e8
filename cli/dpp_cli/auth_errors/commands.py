"""Operator commands: authentication errors, their clusters and decisions (AUTH-1, AUTH-10, AUTH-11).

`--json` prints the API's JSON. Events, dead letters and policies have modules of their own beside this one.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import typer
from pydantic import BaseModel, StringConstraints, TypeAdapter, ValidationError

from dpp.auth_errors import store
from dpp.auth_errors.api import read
from dpp.auth_errors.api.contract import ClusterDecidedView, ClusterDecisionRequest, Instant
from dpp.auth_errors.api.http import cluster_view, decision_view, error_view, whole_view
from dpp.auth_errors.api.read import WholeAuthError
from dpp.auth_errors.decisions.decide import OperatorDecision, decide, decide_cluster
from dpp.auth_errors.errors import AuthErrorNotFound, ClusterNotFound, DecisionConflict
from dpp.auth_errors.machine import AuthErrorStatus, DecisionType
from dpp.auth_errors.model import AuthError, Cluster
from dpp.auth_errors.rehash import rehash
from dpp.auth_errors.store import Filter, PageKey
from dpp.auth_errors.traces import stack_hash
from dpp.platform.db.postgres import Database
from dpp.platform.errors import DependencyUnavailable, PostgresNotReached, PostgresUnavailable
from dpp.platform.ids import parse_uuid
from dpp_cli.auth_errors import dead_letters, events, policies
from dpp_cli.auth_errors.events import print_entries
from dpp_cli.errors import StackError
from dpp_cli.operator.output import as_array, faults, moment, plain_lines, print_note, print_rows, print_values, short
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows, opened_rows
from dpp_cli.operator.tenants import console

auth_errors_app = typer.Typer(
    no_args_is_help=True, help="Show reported authentication errors and decide what happens to them."
)
auth_errors_app.add_typer(dead_letters.letters_app, name="dlq")
auth_errors_app.add_typer(policies.policy_app, name="policy")

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
AsArray = Annotated[bool, typer.Option("--json", help="One JSON array.")]
Why = Annotated[str, typer.Option("--reason", help="Why; recorded with the decision.")]

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Instant)
_AGO = re.compile(r"([0-9]{1,6})(min|h|d)", re.ASCII)
_MINUTES = {"min": 1, "h": 60, "d": 1_440}


class _Deployment(BaseModel):
    """The arguments of `deployed`, validated as the table requires."""

    label: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    service: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None


def _time(text: str) -> datetime:
    """Parse a time with an offset, or an age such as 2h."""
    if found := _AGO.fullmatch(text):
        return datetime.now(UTC) - timedelta(minutes=int(found[1]) * _MINUTES[found[2]])
    try:
        return _INSTANT.validate_python(text)
    except ValidationError:
        example = "2026-01-31T09:30:00+09:00"
        raise typer.BadParameter(f"must be a time with an offset ({example}) or an age: 30min, 2h, 7d") from None


Since = Annotated[
    datetime | None,
    typer.Option(
        parser=_time, metavar="TIME", help="Only errors from then on; a time, or an age such as 2h.", show_default=False
    ),
]
Before = Annotated[
    datetime | None, typer.Option(parser=_time, metavar="TIME", help="Only errors before then.", show_default=False)
]


@auth_errors_app.command("list")
def show(
    *,
    status: Annotated[AuthErrorStatus | None, typer.Option(help="Only errors with this status.")] = None,
    exception_class: Annotated[
        str | None,
        typer.Option("--class", help="Only errors of this exception class (exact name).", show_default=False),
    ] = None,
    cluster: Annotated[UUID | None, typer.Option(help="Only errors of this cluster.", show_default=False)] = None,
    since: Since = None,
    before: Before = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many, newest first.")] = 50,
    as_json: AsArray = False,
) -> None:
    """List errors, newest occurrence first."""
    which = Filter(status, exception_class, cluster, since)
    with connected_rows(RowSettings) as (connection, settings):
        page = read.page(connection, which, PageKey(before, 0) if before else None, limit)
    if as_json:
        typer.echo(as_array(error_view(error) for error in page.errors))
    else:
        _print_errors(page.errors, settings.zone)
    if page.next_key is not None:
        print_note("there are more; raise --limit")


@auth_errors_app.command("show")
def show_one(
    auth_error_id: Annotated[UUID, typer.Argument(help="The id from `list`.")],
    trace: Annotated[bool, typer.Option("--trace", help="Also print the stored stack trace.")] = False,
    normal_form: Annotated[
        bool, typer.Option("--normal-form", help="Also print the text from which its stack hash is computed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show an error with its clusters, decisions, history and events."""
    if as_json and normal_form:
        raise StackError("--json includes the trace but not the normal form: give only one of the two options")
    with connected_rows(RowSettings) as (connection, settings):
        try:
            whole = read.read(connection, auth_error_id)
        except AuthErrorNotFound:
            raise StackError(_no_error(auth_error_id)) from None
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
        list[str], typer.Argument(metavar="[ID] DECISION", help=f"The error, and one of {', '.join(DecisionType)}.")
    ],
    *,
    reason: Why,
    cluster: Annotated[
        UUID | None,
        typer.Option(help="Decide for all open errors of this cluster instead of one error.", show_default=False),
    ] = None,
    decision_id: Annotated[
        UUID | None, typer.Option("--id", help="To repeat a decision whose outcome is unknown, give its id again.")
    ] = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Decide what happens to one error, or with --cluster to all errors of a cluster that allow this decision."""
    auth_error_id, decision = _named(words, of_cluster=cluster is not None)
    order = _order(decision, reason, decision_id or uuid4(), actor(who))
    with opened_rows(RowSettings) as rows:
        if cluster is not None:
            if decision_id is not None:
                raise StackError("--id cannot be used with --cluster: each error gets its own decision")
            _decide_cluster(order, cluster, rows.database, as_json=as_json)
        else:
            _decide_one(order, auth_error_id, rows.database, as_json=as_json)


@auth_errors_app.command("clusters")
def show_clusters(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many, last seen first.")] = 20,
    as_json: AsArray = False,
) -> None:
    """List clusters (errors with one stack hash), last seen first."""
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
        str | None, typer.Option(help="The deployed service; default: all services.", show_default=False)
    ] = None,
    who: Who = None,
) -> None:
    """Record a deployment that happened just now; policies can use the time since the last one."""
    asked_by = actor(who)
    try:
        deployment = _Deployment(label=label, service=service)
    except ValidationError as error:
        raise StackError(faults(error, "")) from None
    with connected_rows(RowSettings) as (connection, settings):
        at = store.insert_deploy(connection, uuid4(), service=service, label=deployment.label, actor=asked_by)
    of = f"of {service}" if service else "of all services"
    typer.echo(f"deployment {of} recorded at {moment(at, settings.zone)}")


@auth_errors_app.command("rehash")
def rehash_errors(
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Process at most this many errors.")] = 10_000,
) -> None:
    """Add analysed errors to clusters of the current stack hash version; clusters of older versions stay.

    Safe to interrupt and to repeat.
    """
    with opened_rows(RowSettings) as rows:
        done, above = rehash(rows.database, limit=limit)
    errors = "1 error" if done == 1 else f"{done} errors"
    typer.echo(f"{errors} added to clusters of {stack_hash.VERSION}")
    if above is not None:
        print_note("there may be more; repeat the command")


auth_errors_app.command("outbox")(events.show_outbox)
auth_errors_app.command("redrive")(events.redrive_events)


def _named(words: Sequence[str], *, of_cluster: bool) -> tuple[UUID | None, DecisionType]:
    """Parse the error id and the decision. Raises BadParameter."""
    if len(words) != (1 if of_cluster else 2):
        raise typer.BadParameter("give only DECISION with --cluster" if of_cluster else "give both ID and DECISION")
    auth_error_id = None if of_cluster else parse_uuid(words[0])
    if auth_error_id is None and not of_cluster:
        raise typer.BadParameter(f"{words[0]!r} is not an error id (8-4-4-4-12 hexadecimal digits)")
    try:
        return auth_error_id, DecisionType(words[-1])
    except ValueError:
        raise typer.BadParameter(f"{words[-1]!r} is not one of {', '.join(DecisionType)}") from None


def _order(decision: DecisionType, reason: str, decision_id: UUID, asked_by: str) -> OperatorDecision:
    """Validate the decision with the same model as an HTTP request. Raises StackError."""
    try:
        asked = ClusterDecisionRequest.model_validate({"decisionType": decision, "reason": reason})
    except ValidationError as error:
        raise StackError(faults(error, "--")) from None
    return OperatorDecision(decision_id, decision, asked_by, asked.reason)


def _decide_one(order: OperatorDecision, auth_error_id: UUID | None, database: Database, *, as_json: bool) -> None:
    try:
        decided = decide(order, auth_error_id, database)
    except AuthErrorNotFound:
        raise StackError(_no_error(auth_error_id)) from None
    except DecisionConflict:
        raise StackError(f"--id {order.decision_id} belongs to another decision; omit --id") from None
    except PostgresNotReached:
        raise
    except PostgresUnavailable as error:
        again = f"the decision may have been made; repeat the command with --id {order.decision_id}"
        raise StackError(f"{error}; {again}") from None
    made = decided.decision
    if as_json:
        typer.echo(_json(decision_view(made)))
        return
    how = "decided" if decided.made else f"already decided by {made.actor}"
    typer.echo(f"error {auth_error_id} {how}: {made.decision_type}, {made.from_status} -> {made.to_status}")


def _decide_cluster(order: OperatorDecision, cluster_id: UUID, database: Database, *, as_json: bool) -> None:
    """Decide batch by batch until no error is left; if it is interrupted, finished batches stay decided."""
    total, more = 0, True
    try:
        while more:
            done = decide_cluster(order, cluster_id, database)
            total, more = total + done.decided, done.more
    except ClusterNotFound:
        raise StackError(f"cluster {cluster_id} does not exist; `dpp auth-errors clusters` lists them") from None
    except DependencyUnavailable as error:
        raise StackError(f"{error}; at least {total} were decided; repeat the command for the rest") from None
    if as_json:
        typer.echo(_json(ClusterDecidedView(decided=total, more=False)))
    else:
        errors = "1 error" if total == 1 else f"{total} errors"
        typer.echo(f"{errors} of cluster {cluster_id} decided: {order.decision_type}")


def _no_error(auth_error_id: UUID | None) -> str:
    return f"authentication error {auth_error_id} does not exist; `dpp auth-errors list` shows all"


def _json(body: BaseModel) -> str:
    return body.model_dump_json(by_alias=True, exclude_none=True)


def _print_errors(errors: Sequence[AuthError], zone: ZoneInfo) -> None:
    if not errors:
        console.print("no errors found")
        return
    names = ("error", "occurred", "http", "status", "service", "class")
    rows = (
        (
            *(str(one.auth_error_id), f"{one.occurred_at.astimezone(zone):%m-%d %H:%M:%S}", str(one.http_status)),
            *(one.status + (" (escalated)" if one.escalated_at else ""), one.service or "", one.exception_class),
        )
        for one in errors
    )
    print_rows(names, rows, whole=names[:4], folded=("class",))  # never cut, since `--class` needs the exact name


def _print_clusters(clusters: Sequence[Cluster], zone: ZoneInfo) -> None:
    names = ("cluster", "errors", "first seen", "last seen", "escalated", "hash", "class")
    rows = (
        (
            *(str(one.cluster_id), str(one.error_count)),
            *(short(at, zone) for at in (one.first_seen_at, one.last_seen_at, one.escalated_at)),
            *(f"{one.hash_version}:{one.stack_hash[:8]}", one.exception_class),
        )
        for one in clusters
    )
    print_rows(names, rows, whole=names[:6], right=("errors",), folded=("class",))


def _print_whole(whole: WholeAuthError, zone: ZoneInfo) -> None:
    error = whole.error
    console.print(f"error {error.auth_error_id}", highlight=False)
    asked = " ".join(filter(None, (error.http_method, error.request_path)))
    root = ": ".join(filter(None, (error.root_cause_class, error.root_cause_message)))
    values = {
        "status": error.status,
        "escalated": moment(error.escalated_at, zone) or None,
        "class": error.exception_class,
        "message": error.exception_message,
        "root cause": root or None,
        "response": f"HTTP {error.http_status}",
        "request": asked or None,
        "service": error.service,
        "occurred": moment(error.occurred_at, zone),
        "reported": f"{moment(error.created_at, zone)}, by {error.reported_by} as {error.dedup_key}",
        "failures": f"{error.retry_count}, last: {error.last_failure}" if error.retry_count else None,
        "next attempt": moment(error.next_retry_at, zone) or None,
        "analysed": moment(error.analyzed_at, zone) or None,
    }
    print_values(values, indent="  ")
    if whole.clusters:
        _print_clusters(whole.clusters, zone)
    if whole.decisions:
        made = ((moment(one.decided_at, zone), one.decision_type, one.actor, one.reason) for one in whole.decisions)
        print_rows(("decided", "decision", "by", "reason"), made)
    moves = (
        (moment(one.happened_at, zone), one.from_status or "", one.to_status, one.actor, one.failure or "")
        for one in whole.transitions
    )
    print_rows(("when", "from", "to", "by", "failure"), moves)
    print_entries(whole.events, datetime.now(UTC), of_one_error=True)


def _print_text(title: str, text: str) -> None:
    console.print(f"\n{title}", style="dim", highlight=False)
    console.print(plain_lines(text), soft_wrap=True)
