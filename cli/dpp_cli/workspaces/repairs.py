"""Operator commands: what a person does about workspaces: have one looked at, end an ERROR, collect archives.

What a deployment without workspaces lacks is said by name; the rows alone can be looked at everywhere.
"""

import json
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer
from pydantic import TypeAdapter, ValidationError
from rich.table import Table

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.platform.errors import QueueUnavailable
from dpp.platform.http.fields import Reason
from dpp.workspaces import store
from dpp.workspaces.api.create import OWNER
from dpp.workspaces.api.own import CONNECT
from dpp.workspaces.archives.collect import MAX_DELETED, Collected, collect
from dpp.workspaces.archives.garbage import Verdict
from dpp.workspaces.config import KnownArchiveSettings, KnownLookQueueSettings, KnownWorkQueueSettings
from dpp.workspaces.control import recover
from dpp.workspaces.control.message import Collect, Look, body_of
from dpp.workspaces.control.recover import Recovery, Way
from dpp.workspaces.errors import NotRecoverable
from dpp.workspaces.model import Workspace
from dpp.workspaces.providers.s3_archives import S3Archives
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import Reach
from dpp_cli.operator.output import faults, plain, print_note, print_table
from dpp_cli.operator.rows import RowSettings, Who, actor, opened_rows
from dpp_cli.operator.tenants import console

DRY_RUN_SECONDS = 60.0
"""A dry run stops there: on a deployment the command has two minutes in all."""

_OURS = frozenset({OWNER, CONNECT, "ttl", "monitor", "reconciler"})
"""Actors in events besides operators: API callers, the clock (`dpp.workspaces.control.tick`), the table's trigger."""
_REASON: TypeAdapter[str] = TypeAdapter(Reason)
_NONE_HERE = "this deployment has no workspaces: {variable} is not set"
_SAYS = {
    Verdict.GARBAGE: "nothing protects them: a collection deletes them",
    Verdict.YOUNG: "not two hours old",
    Verdict.ARCHIVE_KEY: "what a workspace names",
    Verdict.OPERATION: "of a workspace's last operation",
    Verdict.UNHEALTHY: "of a workspace that waits for a person",
    Verdict.UNKNOWN_WORKSPACE: "of a workspace that no row knows: left alone",
    Verdict.FOREIGN: "no archive's key: left alone",
}


class _Way(StrEnum):
    """A way to go on, as one types it."""

    RETRY = "retry"
    FROM_ARCHIVE = "from-archive"
    KEEP_VOLUME = "keep-volume"
    STOP_CONTAINER = "stop-container"
    EMPTY = "empty"


_GIVES_UP = {
    _Way.FROM_ARCHIVE: "what is newer than the archive is given up",
    _Way.KEEP_VOLUME: "its archive is given up, and a new one is made when it is next archived",
    _Way.STOP_CONTAINER: "what its programs hold is lost, and its volume is gone already",
    _Way.EMPTY: "all of its home is given up, and it begins with an empty one",
}
"""What an answer of yes costs. A retry costs nothing, and is not asked about."""


class _LookSettings(RowSettings, KnownLookQueueSettings):
    """The rows, and the queue of looks where there is one."""


class _RecoverSettings(_LookSettings, KnownArchiveSettings):
    """The same, and the bucket of archives."""


class _CollectSettings(RowSettings, KnownWorkQueueSettings, KnownArchiveSettings):
    """The rows, the bucket of archives, and the queue of what takes long."""


def look_at(workspace_id: Annotated[UUID, typer.Argument(help="As `list` shows it.")]) -> None:
    """Have a workspace looked at now, and its next step taken. Safe to repeat."""
    with opened_rows(_LookSettings) as rows:
        looks = _looks(rows.at)
        if looks is None:
            raise StackError(_NONE_HERE.format(variable="DPP_WORKSPACE_LOOK_QUEUE_URL"))
        workspace = _found(rows.database, workspace_id)
        if workspace.cleaned_at is not None:
            raise StackError(f"workspace {workspace_id} is deleted, and nothing of it is left to look at")
        looks.send(body_of(Look(workspace_id)))
    typer.echo(f"workspace {workspace_id} is looked at next")


def recover_one(
    workspace_id: Annotated[UUID, typer.Argument(help="As `list --error` shows it.")],
    *,
    way: Annotated[
        _Way,
        typer.Option(
            help="retry: as it stands. from-archive: what is newer is given up. keep-volume: with the home that stands,"
            " its archive is given up. stop-container: one that runs without its volume. empty: all is given up."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Why; kept with the event.")],
    archive_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="From this archive; the one that it names if not given.", show_default=False
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    who: Who = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """End a workspace's ERROR: say how it goes on. Where something is given up, it asks first."""
    asked_by, why = _actor(who), _reason(reason)
    if archive_key is not None and way is not _Way.FROM_ARCHIVE:
        raise StackError("--archive-key is for --way from-archive: leave it out")
    asks = not yes and way in _GIVES_UP
    if as_json and asks:
        raise StackError("with --json nobody can be asked: add --yes")
    with opened_rows(_RecoverSettings) as rows:
        archives = _archives(rows.at)
        workspace = _found(rows.database, workspace_id)
        if asks:
            _confirm(workspace, way, archive_key)
        order = Recovery(Way[way.name], asked_by, why, archive_key)
        try:
            after = recover.recover(order, workspace_id, rows.database, archives)
        except NotRecoverable as refused:
            raise StackError(_told(refused)) from None
        is_sent = _hint(_looks(rows.at), workspace_id)
    if as_json:
        answer = {"workspace_id": str(workspace_id), "way": order.way, "archive_key": after.archive_key}
        typer.echo(json.dumps(answer))
    else:
        typer.echo(f"workspace {workspace_id} goes on: {way}")
    when = "now" if is_sent else "within half a minute"
    print_note(f"it is looked at {when}; `dpp workspaces explain {workspace_id}` says what becomes of it")


def collect_archives(
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Count what would go, and what protects the rest; delete nothing."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Have archives that nothing protects collected now, as it is done each hour. Safe to repeat."""
    with opened_rows(_CollectSettings) as rows:
        if dry_run:
            found = collect(
                rows.database, _archives(rows.at), dry_run=True, time_limit_seconds=DRY_RUN_SECONDS
            )
            _print_collected(found, as_json=as_json)
            return
        url = rows.settings.known_work_queue_url
        if url is None:
            raise StackError(_NONE_HERE.format(variable="DPP_WORKSPACE_WORK_QUEUE_URL"))
        at = rows.at
        Queue(url, lambda: at.client("sqs")).send(body_of(Collect(None)))
    typer.echo(json.dumps({"dry_run": False, "sent": True}) if as_json else "a collection is sent for")
    print_note(
        "the function `workspaces_storage` does it; its log says `collected`, with what went and why the rest stays"
    )


def _looks[Wanted: KnownLookQueueSettings](at: Reach[Wanted]) -> Queue | None:
    url = at.settings.known_look_queue_url
    return None if url is None else Queue(url, lambda: at.client("sqs"))


def _archives[Wanted: KnownArchiveSettings](at: Reach[Wanted]) -> S3Archives:
    """The archives. Raises StackError where there are none."""
    bucket = at.settings.known_archives_bucket
    if bucket is None:
        raise StackError(_NONE_HERE.format(variable="DPP_ARCHIVES_BUCKET"))
    return S3Archives(bucket, lambda: at.client("s3"))


def _found(database: Database, workspace_id: UUID) -> Workspace:
    with database.connection() as connection:
        workspace = store.find(connection, workspace_id)
    if workspace is None:
        raise StackError(f"there is no workspace {workspace_id}")
    return workspace


def _actor(given: str | None) -> str:
    """Who stands in the event. Raises StackError, for the platform's own writers too."""
    name = actor(given)
    if name in _OURS:
        raise StackError(f"{name} is the platform's own name in the events of workspaces: take another")
    return name


def _reason(given: str) -> str:
    try:
        return _REASON.validate_python(given)
    except ValidationError as error:
        raise StackError(f"--reason{faults(error, '')}") from None


def _confirm(workspace: Workspace, way: _Way, archive_key: str | None) -> None:
    """Say what it costs and ask; an answer other than yes ends the command."""
    error = workspace.error_info
    health = workspace.conditions.get("policy.healthy")
    told = (
        f"{error.reason}: {error.message}"
        if error
        else f"{health.reason}: {health.message}"
        if health is not None
        else "nobody has looked at it yet"
    )
    console.print(
        plain(f"{workspace.name}, of {workspace.tenant_id}: {workspace.phase}, {told}"), soft_wrap=True
    )
    if way is _Way.FROM_ARCHIVE:
        console.print(plain(f"archive: {archive_key or workspace.archive_key}"), soft_wrap=True)
    typer.confirm(f"Go on: {_GIVES_UP[way]}?", abort=True)


def _told(refused: NotRecoverable) -> str:
    """The refusal, and where the workspace stands, where it says so."""
    phase, operation = refused.members.get("phase"), refused.members.get("operation")
    if phase is None:
        return str(refused)
    doing = "nothing is under way" if operation == "NONE" else f"{operation} is under way: wait for its end"
    return f"{refused} It is {phase}, and {doing}."


def _hint(looks: Queue | None, workspace_id: UUID) -> bool:
    """Whether it is looked at at once; the clock's look comes within half a minute."""
    if looks is None:
        return False
    try:
        looks.send(body_of(Look(workspace_id)))
    except QueueUnavailable:
        return False
    return True


def _print_collected(found: Collected, *, as_json: bool) -> None:
    if as_json:
        answer = {
            "dry_run": True,
            "by_verdict": dict(found.by_verdict),
            "would_delete": found.deleted,
            "would_delete_bytes": found.deleted_bytes,
            "goes_on_behind": found.after,
        }
        typer.echo(json.dumps(answer))
    elif found.by_verdict:
        table = Table("objects", "verdict", "", box=None, header_style="dim", pad_edge=False)
        table.columns[0].justify = "right"
        for verdict in Verdict:
            if count := found.by_verdict.get(verdict):
                table.add_row(f"{count:,}", verdict, _SAYS[verdict])
        print_table(table)
    else:
        console.print("no archive yet")
    print_note(
        f"a run would delete {found.deleted:,} objects, {found.deleted_bytes:,} bytes; nothing was deleted"
    )
    if found.capped:
        print_note(f"there is more: a run deletes {MAX_DELETED:,} at most, the next one goes on")
    elif found.after is not None:
        print_note(
            f"stopped after {DRY_RUN_SECONDS:.0f} s, at {found.after}: what lies behind was not looked at"
        )
