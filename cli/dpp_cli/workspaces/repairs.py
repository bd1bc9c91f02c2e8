"""Operator commands that repair workspaces: request an observation, end an ERROR, collect archives.

On a deployment without workspaces they name the missing environment variable.
"""

import json
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import typer
from pydantic import TypeAdapter, ValidationError

from dpp.platform.aws.queue import Queue
from dpp.platform.db.postgres import Database
from dpp.platform.errors import QueueUnavailable
from dpp.platform.http.fields import Reason
from dpp.workspaces import store
from dpp.workspaces.api.create import OWNER
from dpp.workspaces.api.owner import CONNECT
from dpp.workspaces.archives.collect import MAX_DELETED, CollectReport, collect
from dpp.workspaces.archives.garbage import Verdict
from dpp.workspaces.config import OptionalArchiveSettings, OptionalObserveQueueSettings, OptionalWorkQueueSettings
from dpp.workspaces.control import recover
from dpp.workspaces.control.message import Collect, Observe, body_of
from dpp.workspaces.control.recover import Recovery, RecoveryMethod
from dpp.workspaces.errors import NotRecoverable
from dpp.workspaces.model import Workspace
from dpp.workspaces.providers.s3_archives import S3Archives
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import Reach
from dpp_cli.operator.output import faults, plain, print_note, print_rows
from dpp_cli.operator.rows import RowSettings, Who, actor, opened_rows
from dpp_cli.operator.tenants import console

DRY_RUN_SECONDS = 60.0
"""Time limit of a dry run; on a deployment a command has two minutes in total."""

_RESERVED_ACTORS = frozenset({OWNER, CONNECT, "ttl", "monitor", "reconciler"})
"""Actors in events besides operators: API callers, the clock (`dpp.workspaces.control.tick`), the table's trigger."""
_REASON: TypeAdapter[str] = TypeAdapter(Reason)
_NONE_HERE = "this deployment has no workspaces: {variable} is not set"
_MEANINGS = {
    Verdict.GARBAGE: "unprotected; a collection deletes them",
    Verdict.YOUNG: "less than two hours old",
    Verdict.ARCHIVE_KEY: "current archive of a workspace",
    Verdict.OPERATION: "written by a workspace's last operation",
    Verdict.UNHEALTHY: "belongs to a workspace that needs an operator",
    Verdict.UNKNOWN_WORKSPACE: "no row for its workspace; never deleted",
    Verdict.FOREIGN: "key is not an archive's; never deleted",
}


class _Way(StrEnum):
    """A way to recover, as typed by the operator."""

    RETRY = "retry"
    FROM_ARCHIVE = "from-archive"
    KEEP_VOLUME = "keep-volume"
    STOP_CONTAINER = "stop-container"
    EMPTY = "empty"


_LOSSES = {
    _Way.FROM_ARCHIVE: "everything newer than the archive will be lost",
    _Way.KEEP_VOLUME: "its archive will be dropped; the next archiving writes a new one",
    _Way.STOP_CONTAINER: "the state of its programs will be lost; its volume is already gone",
    _Way.EMPTY: "its whole home will be lost; it starts with an empty one",
}
"""The loss that the operator confirms. A retry loses nothing and needs no confirmation."""


class _LookSettings(RowSettings, OptionalObserveQueueSettings):
    """Settings of the database and, if there is one, the observation queue."""


class _RecoverSettings(_LookSettings, OptionalArchiveSettings):
    """Adds the archives bucket."""


class _CollectSettings(RowSettings, OptionalWorkQueueSettings, OptionalArchiveSettings):
    """Settings of the database, the archives bucket and the storage work queue."""


def look_at(workspace_id: Annotated[UUID, typer.Argument(help="The id from `list`.")]) -> None:
    """Request an immediate observation of a workspace and its next step. Safe to repeat."""
    with opened_rows(_LookSettings) as rows:
        looks = _looks(rows.at)
        if looks is None:
            raise StackError(_NONE_HERE.format(variable="DPP_WORKSPACE_LOOK_QUEUE_URL"))
        workspace = _found(rows.database, workspace_id)
        if workspace.cleaned_at is not None:
            raise StackError(f"workspace {workspace_id} is deleted and fully cleaned up; there is nothing to observe")
        looks.send(body_of(Observe(workspace_id)))
    typer.echo(f"workspace {workspace_id} will be observed next")


def recover_one(
    workspace_id: Annotated[UUID, typer.Argument(help="The id from `list --error`.")],
    *,
    way: Annotated[
        _Way,
        typer.Option(
            help="retry: try again unchanged. from-archive: restore, losing anything newer. keep-volume: keep the"
            " volume, drop its archive. stop-container: stop a container without volume. empty: start with no files."
        ),
    ],
    reason: Annotated[str, typer.Option(help="Why; recorded with the event.")],
    archive_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Restore from this archive; default: the workspace's own.", show_default=False
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    who: Who = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """End a workspace's ERROR in the given way. Asks for confirmation if data would be lost."""
    asked_by, why = _actor(who), _reason(reason)
    if archive_key is not None and way is not _Way.FROM_ARCHIVE:
        raise StackError("--archive-key can only be used with --way from-archive")
    asks = not yes and way in _LOSSES
    if as_json and asks:
        raise StackError("--json cannot ask for confirmation: add --yes")
    with opened_rows(_RecoverSettings) as rows:
        archives = _archives(rows.at)
        workspace = _found(rows.database, workspace_id)
        if asks:
            _confirm(workspace, way, archive_key)
        order = Recovery(RecoveryMethod[way.name], asked_by, why, archive_key)
        try:
            after = recover.recover(order, workspace_id, rows.database, archives)
        except NotRecoverable as refused:
            raise StackError(_refusal(refused)) from None
        is_sent = _hint(_looks(rows.at), workspace_id)
    if as_json:
        answer = {"workspace_id": str(workspace_id), "way": order.method, "archive_key": after.archive_key}
        typer.echo(json.dumps(answer))
    else:
        typer.echo(f"workspace {workspace_id} recovers: {way}")
    when = "now" if is_sent else "within half a minute"
    print_note(f"it will be observed {when}; follow it with `dpp workspaces explain {workspace_id}`")


def collect_archives(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count what would be deleted and what protects the rest; delete nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Start the hourly collection of unprotected archives now. Safe to repeat."""
    with opened_rows(_CollectSettings) as rows:
        if dry_run:
            found = collect(rows.database, _archives(rows.at), dry_run=True, time_limit_seconds=DRY_RUN_SECONDS)
            _print_collected(found, as_json=as_json)
            return
        url = rows.settings.optional_work_queue_url
        if url is None:
            raise StackError(_NONE_HERE.format(variable="DPP_WORKSPACE_WORK_QUEUE_URL"))
        at = rows.at
        Queue(url, lambda: at.client("sqs")).send(body_of(Collect(None)))
    typer.echo(json.dumps({"dry_run": False, "sent": True}) if as_json else "collection requested")
    print_note("the function `workspaces_storage` runs it and logs `collected` with the number of objects by verdict")


def _looks[Wanted: OptionalObserveQueueSettings](at: Reach[Wanted]) -> Queue | None:
    url = at.settings.optional_observe_queue_url
    return None if url is None else Queue(url, lambda: at.client("sqs"))


def _archives[Wanted: OptionalArchiveSettings](at: Reach[Wanted]) -> S3Archives:
    """Return the archive store. Raises StackError if the deployment has none."""
    bucket = at.settings.optional_archives_bucket
    if bucket is None:
        raise StackError(_NONE_HERE.format(variable="DPP_ARCHIVES_BUCKET"))
    return S3Archives(bucket, lambda: at.client("s3"))


def _found(database: Database, workspace_id: UUID) -> Workspace:
    workspace = database.using(store.find, workspace_id)
    if workspace is None:
        raise StackError(f"workspace {workspace_id} does not exist; `dpp workspaces list` shows all")
    return workspace


def _actor(given: str | None) -> str:
    """Return the operator's name for the event. Raises StackError for reserved names."""
    name = actor(given)
    if name in _RESERVED_ACTORS:
        raise StackError(f"{name} is reserved for the platform in workspace events: choose another name")
    return name


def _reason(given: str) -> str:
    try:
        return _REASON.validate_python(given)
    except ValidationError as error:
        raise StackError(f"--reason{faults(error, '')}") from None


def _confirm(workspace: Workspace, way: _Way, archive_key: str | None) -> None:
    """Print what would be lost and ask for confirmation; any answer but yes ends the command."""
    error = workspace.error_info
    health = workspace.conditions.get("policy.healthy")
    reason = (
        f"{error.reason}: {error.message}"
        if error
        else f"{health.reason}: {health.message}"
        if health is not None
        else "not observed yet"
    )
    console.print(plain(f"{workspace.name}, of {workspace.tenant_id}: {workspace.phase}, {reason}"), soft_wrap=True)
    if way is _Way.FROM_ARCHIVE:
        console.print(plain(f"archive: {archive_key or workspace.archive_key}"), soft_wrap=True)
    typer.confirm(f"{_LOSSES[way].capitalize()}. Continue?", abort=True)


def _refusal(refused: NotRecoverable) -> str:
    """Format the error with the workspace's phase and operation, if known."""
    phase, operation = refused.members.get("phase"), refused.members.get("operation")
    if phase is None:
        return str(refused)
    doing = "no operation is in progress" if operation == "NONE" else f"{operation} is in progress; wait for its end"
    return f"{refused} The workspace is {phase}, and {doing}."


def _hint(looks: Queue | None, workspace_id: UUID) -> bool:
    """Request an observation; if that fails, the scheduled one follows within half a minute."""
    if looks is None:
        return False
    try:
        looks.send(body_of(Observe(workspace_id)))
    except QueueUnavailable:
        return False
    return True


def _print_collected(found: CollectReport, *, as_json: bool) -> None:
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
        counts = ((found.by_verdict.get(verdict, 0), verdict) for verdict in Verdict)
        rows = ((f"{count:,}", verdict, _MEANINGS[verdict]) for count, verdict in counts if count)
        print_rows(("objects", "verdict", ""), rows, right=("objects",))
    else:
        console.print("no archives")
    print_note(f"dry run: would delete {found.deleted:,} objects, {found.deleted_bytes:,} bytes; nothing was deleted")
    if found.capped:
        print_note(f"there is more: one collection deletes at most {MAX_DELETED:,}; the next one continues")
    elif found.after is not None:
        print_note(f"stopped after {DRY_RUN_SECONDS:.0f} s at {found.after}; later keys were not examined")
