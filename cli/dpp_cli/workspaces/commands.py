"""Operator commands that show workspaces: desired state, observation, next step (WS-1 … WS-14).

Commands that change something are in `repairs`. `--json` prints the API's JSON with additional fields for operators.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID
from zoneinfo import ZoneInfo

import typer
from pydantic import BaseModel

from dpp.platform.db.postgres import Connection
from dpp.workspaces import store
from dpp.workspaces.api.contract import ConditionView, WorkspaceEventView, WorkspaceView
from dpp.workspaces.api.explain import Explanation, explain
from dpp.workspaces.api.http import events_view, view
from dpp.workspaces.api.owner import MAX_EVENTS
from dpp.workspaces.model import DesiredState, Operation, Phase, Workspace
from dpp.workspaces.store import Event
from dpp_cli.errors import StackError
from dpp_cli.operator.output import as_array, moment, print_note, print_rows, print_values
from dpp_cli.operator.rows import RowSettings, connected_rows
from dpp_cli.operator.tenants import console
from dpp_cli.workspaces import repairs

workspaces_app = typer.Typer(no_args_is_help=True, help="Show workspaces, explain what blocks them, and repair them.")
workspaces_app.command("look")(repairs.look_at)
workspaces_app.command("recover")(repairs.recover_one)
workspaces_app.command("collect")(repairs.collect_archives)

WorkspaceId = Annotated[UUID, typer.Argument(help="The id from `list`.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


class _OperatorView(WorkspaceView):
    """The owner's view with additional fields for operators."""

    tenant_id: str
    desired_by: str
    op_id: UUID | None
    op_started_at: datetime | None
    acted_at: datetime | None
    archive_key: str | None
    home: dict[str, Any]
    error_count: int
    start_count: int
    next_attempt_at: datetime | None
    tried_at: datetime | None
    settled_at: datetime | None
    cleaned_at: datetime | None
    lease_until: datetime | None
    handed_at: datetime | None
    next_look_at: datetime | None

    @classmethod
    def of(cls, workspace: Workspace, now: datetime) -> Self:
        """Build the view of a workspace."""
        seen = view(workspace, now)
        owners = {name: getattr(seen, name) for name in WorkspaceView.model_fields}
        own = {name for name in cls.model_fields if name not in owners and name != "home"}
        return cls(
            **owners,
            **{name: getattr(workspace, name) for name in own & set(Workspace.__slots__)},
            home=_known(asdict(workspace.home_ctx)),
        )


class _WholeView(_OperatorView):
    """The operator's view with the workspace's events, newest first."""

    events: tuple[WorkspaceEventView, ...] = ()


class _ConditionView(ConditionView):
    """A condition, and for how many seconds it has had its status."""

    seconds: int


class _ExplainedView(BaseModel):
    """The planner's current decision about a workspace."""

    workspace_id: UUID
    wanted: DesiredState
    wanted_by: str
    observed: Phase
    observed_seconds_ago: int | None
    conditions: dict[str, _ConditionView]
    operation: Operation
    under_way: str
    blocked: bool
    next_kind: str
    next_step: str

    @classmethod
    def of(cls, workspace: Workspace, explained: Explanation) -> Self:
        """Build the view of an explanation."""
        return cls(
            workspace_id=workspace.workspace_id,
            wanted=workspace.desired_state,
            wanted_by=workspace.desired_by,
            observed=workspace.phase,
            observed_seconds_ago=explained.observed_seconds_ago,
            conditions={
                name: _ConditionView(**asdict(one), seconds=seconds) for name, one, seconds in explained.conditions
            },
            operation=workspace.operation,
            under_way=explained.under_way,
            blocked=explained.blocked,
            next_kind=explained.next_step.kind.value,
            next_step=explained.next_step.why,
        )


@workspaces_app.command("list")
def show(
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Only workspaces of this tenant.", show_default=False)
    ] = None,
    phase: Annotated[Phase | None, typer.Option(help="Only workspaces in this phase.")] = None,
    error: Annotated[bool, typer.Option("--error", help="Only workspaces that need an operator.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many, newest first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List workspaces that still have a row with resources, newest first."""
    if error and phase not in (None, Phase.ERROR):
        raise StackError(f"--error means --phase ERROR; give only one of --error and --phase {phase}")
    chosen_phase = Phase.ERROR if error else phase
    with connected_rows(RowSettings) as (connection, _):
        found = store.page_of_all(connection, tenant_id=tenant, phase=chosen_phase, limit=limit + 1)
        now = store.clock(connection)
    shown = found[:limit]
    if as_json:
        typer.echo(as_array(_OperatorView.of(one, now) for one in shown))
    elif shown:
        _print_workspaces(shown, now)
    else:
        console.print("no workspaces found")
    if len(found) > limit:
        print_note("there are more; raise --limit")


@workspaces_app.command("show")
def show_one(
    workspace_id: WorkspaceId,
    events: Annotated[int, typer.Option(min=0, max=1_000, help="Show at most this many events, newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a workspace with its conditions, archive and latest events."""
    with connected_rows(RowSettings) as (connection, settings):
        workspace, now = _found(connection, workspace_id)
        happened = store.events(connection, workspace_id, MAX_EVENTS if as_json else events)
    if as_json:
        whole = _WholeView.of(workspace, now).model_copy(update={"events": events_view(happened).events})
        typer.echo(whole.model_dump_json(exclude_none=True))
        return
    console.print(f"workspace {workspace_id}", highlight=False)
    print_values(_values(workspace, now, settings.zone), indent="  ")
    _print_conditions(explain(workspace, now))
    _print_events(happened, settings.zone)


@workspaces_app.command("explain")
def explain_one(workspace_id: WorkspaceId, as_json: AsJson = False) -> None:
    """Explain a workspace: desired state, last observation, what blocks it, and the planner's next step."""
    with connected_rows(RowSettings) as (connection, _):
        workspace, now = _found(connection, workspace_id)
    explained = explain(workspace, now)
    if as_json:
        typer.echo(_ExplainedView.of(workspace, explained).model_dump_json(exclude_none=True))
        return
    values = {
        "desired": explained.desired,
        "observed": _seen(explained),
        "in progress": explained.under_way,
        "blocked": "yes, it needs an operator" if explained.blocked else "no",
        "next": explained.next_step.why,
    }
    print_values(values)
    _print_conditions(explained)
    if explained.blocked:
        print_note(f"fix the cause, then: `dpp workspaces recover {workspace_id} --way …` (docs/workspaces.md)")


def _found(connection: Connection, workspace_id: UUID) -> tuple[Workspace, datetime]:
    """Load the workspace and Postgres's clock. Raises StackError."""
    workspace = store.find(connection, workspace_id)
    if workspace is None:
        raise StackError(f"workspace {workspace_id} does not exist; `dpp workspaces list` shows all")
    return workspace, store.clock(connection)


def _known(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _seen(explained: Explanation) -> str:
    ago = explained.observed_seconds_ago
    return "not observed yet" if ago is None else f"{explained.observed}, {ago} s ago"


def _error(workspace: Workspace) -> str:
    """Return the reason of its error, else of policy.healthy if false, else nothing."""
    if workspace.error_info is not None:
        return workspace.error_info.reason
    health = workspace.conditions.get("policy.healthy")
    return "" if health is None or health.status else health.reason


def _print_workspaces(workspaces: Iterable[Workspace], now: datetime) -> None:
    names = ("workspace", "phase", "desired", "in progress", "observed", "error", "tenant", "name")
    print_rows(names, (_cells(one, now) for one in workspaces), whole=names[:6], right=("observed",))


def _cells(one: Workspace, now: datetime) -> Iterable[str]:
    ago = explain(one, now).observed_seconds_ago
    seen = "never" if ago is None else f"{ago} s ago"
    doing = "" if one.operation is Operation.NONE else one.operation.value
    return str(one.workspace_id), one.phase, one.desired_state, doing, seen, _error(one), one.tenant_id, one.name


def _values(workspace: Workspace, now: datetime, zone: ZoneInfo) -> dict[str, str | None]:
    """Format the workspace's columns in a useful order."""
    explained, home, error = explain(workspace, now), workspace.home_ctx, workspace.error_info
    archive = home.archive
    proved = f"{archive.size_bytes:,} bytes, SHA-256 {archive.sha256}" if archive else None
    failed = None
    if error is not None:
        how = "terminal" if error.is_terminal else "will be retried"
        failed = f"{error.reason}: {error.message} ({error.operation}, failed {error.retry_count} times, {how})"
    return {
        "tenant": workspace.tenant_id,
        "name": workspace.name,
        "desired": explained.desired,
        "observed": _seen(explained),
        "in progress": explained.under_way,
        "next": explained.next_step.why,
        "blocked": "yes, it needs an operator" if explained.blocked else None,
        "error": failed,
        "outages": f"{workspace.error_count} in a row, next attempt {moment(workspace.next_attempt_at, zone)}"
        if workspace.next_attempt_at
        else None,
        "starts": f"{workspace.start_count} in a row that ended soon" if workspace.start_count > 1 else None,
        "archive": workspace.archive_key,
        "verified": proved,
        "volume from": home.restore_marker,
        "generation": home.generation,
        "operation id": None if workspace.op_id is None else str(workspace.op_id),
        "created": moment(workspace.created_at, zone),
        "last used": moment(workspace.last_access_at, zone),
        "to STANDBY": _ttl(workspace.standby_ttl_seconds),
        "to ARCHIVED": _ttl(workspace.archive_ttl_seconds),
        "settled": moment(workspace.settled_at, zone) or None,
        "next observation": moment(workspace.next_look_at, zone) or None,
        "handed to storage": moment(workspace.handed_at, zone) or None,
        "leased until": moment(workspace.lease_until, zone) or None,
        "deleted": moment(workspace.deleted_at, zone) or None,
        "cleaned": moment(workspace.cleaned_at, zone) or None,
    }


def _ttl(seconds: int | None) -> str | None:
    return None if seconds is None else f"after {seconds} s without use"


def _print_conditions(explained: Explanation) -> None:
    if not explained.conditions:
        return
    rows = (
        (name, str(one.status).lower(), f"{seconds} s", one.reason, one.message)
        for name, one, seconds in explained.conditions
    )
    print_rows(("condition", "", "for", "reason", "message"), rows, whole=("condition", "", "for", "reason"))


def _print_events(events: Sequence[Event], zone: ZoneInfo) -> None:
    if not events:
        return
    rows = (
        (
            *(moment(one.happened_at, zone), one.kind, one.from_value or "", one.to_value or "", one.actor),
            ": ".join(filter(None, (one.reason, one.message))),
        )
        for one in events
    )
    print_rows(("when", "event", "from", "to", "by", "reason"), rows, whole=("when", "event"))
