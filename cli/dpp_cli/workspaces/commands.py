"""Operator commands: workspaces, what is wanted of them, what was seen, and what comes next (WS-1 … WS-14).

These look; `workspace_repairs` has what an operator does. `--json` prints what the API answers, and what only
operators see.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID
from zoneinfo import ZoneInfo

import typer
from pydantic import BaseModel
from rich.table import Table

from dpp.platform.db.postgres import Connection
from dpp.workspaces import store
from dpp.workspaces.api.contract import ConditionView, WorkspaceEventView, WorkspaceView
from dpp.workspaces.api.explain import Explained, explain
from dpp.workspaces.api.http import events_view, view
from dpp.workspaces.api.own import MAX_EVENTS
from dpp.workspaces.model import DesiredState, Operation, Phase, Workspace
from dpp.workspaces.store import Event
from dpp_cli.errors import StackError
from dpp_cli.operator.output import as_array, moment, plain, print_note, print_table, print_values
from dpp_cli.operator.rows import RowSettings, connected_rows
from dpp_cli.operator.tenants import console
from dpp_cli.workspaces import repairs

workspaces_app = typer.Typer(
    no_args_is_help=True,
    help="Workspaces: where they are, where they are wanted, and what keeps them from it.",
)
workspaces_app.command("look")(repairs.look_at)
workspaces_app.command("recover")(repairs.recover_one)
workspaces_app.command("collect")(repairs.collect_archives)

WorkspaceId = Annotated[UUID, typer.Argument(help="As `list` shows it.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


class _OperatorView(WorkspaceView):
    """What its owner sees, and what only an operator does."""

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
        """A workspace."""
        seen = view(workspace, now)
        owners = {name: getattr(seen, name) for name in WorkspaceView.model_fields}
        own = {name for name in cls.model_fields if name not in owners and name != "home"}
        return cls(
            **owners,
            **{name: getattr(workspace, name) for name in own & set(Workspace.__slots__)},
            home=_known(asdict(workspace.home_ctx)),
        )


class _WholeView(_OperatorView):
    """With its history, the newest first."""

    events: tuple[WorkspaceEventView, ...] = ()


class _ConditionView(ConditionView):
    """One thing that was observed, and for how long it has been so."""

    seconds: int


class _ExplainedView(BaseModel):
    """What would be decided about a workspace now."""

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
    def of(cls, workspace: Workspace, told: Explained) -> Self:
        """The same in members."""
        return cls(
            workspace_id=workspace.workspace_id,
            wanted=workspace.desired_state,
            wanted_by=workspace.desired_by,
            observed=workspace.phase,
            observed_seconds_ago=told.observed_seconds_ago,
            conditions={
                name: _ConditionView(**asdict(one), seconds=seconds) for name, one, seconds in told.conditions
            },
            operation=workspace.operation,
            under_way=told.under_way,
            blocked=told.blocked,
            next_kind=told.next_step.kind.value,
            next_step=told.next_step.why,
        )


@workspaces_app.command("list")
def show(
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Only this tenant's.", show_default=False)
    ] = None,
    phase: Annotated[Phase | None, typer.Option(help="Only those of this phase.")] = None,
    error: Annotated[bool, typer.Option("--error", help="Only those that wait for a person.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The newest so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Show workspaces of which something may be left, the newest first."""
    if error and phase not in (None, Phase.ERROR):
        raise StackError(f"--error is --phase ERROR: leave it or --phase {phase} out")
    wanted = Phase.ERROR if error else phase
    with connected_rows(RowSettings) as (connection, _):
        found = store.page_of_all(connection, tenant_id=tenant, phase=wanted, limit=limit + 1)
        now = store.clock(connection)
    shown = found[:limit]
    if as_json:
        typer.echo(as_array(_OperatorView.of(one, now) for one in shown))
    elif shown:
        _print_workspaces(shown, now)
    else:
        console.print("no such workspace")
    if len(found) > limit:
        print_note("there are more (--limit)")


@workspaces_app.command("show")
def show_one(
    workspace_id: WorkspaceId,
    events: Annotated[int, typer.Option(min=0, max=1_000, help="Its last so many events.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a workspace with its conditions, its archive and its last events."""
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
    """Say what is wanted, what was seen and how long ago, what blocks, and what comes next: in the planner's words."""
    with connected_rows(RowSettings) as (connection, _):
        workspace, now = _found(connection, workspace_id)
    told = explain(workspace, now)
    if as_json:
        typer.echo(_ExplainedView.of(workspace, told).model_dump_json(exclude_none=True))
        return
    values = {
        "wanted": told.wanted,
        "observed": _seen(told),
        "under way": told.under_way,
        "blocked": "yes, a person has to do something" if told.blocked else "no",
        "next": told.next_step.why,
    }
    print_values(values)
    _print_conditions(told)
    if told.blocked:
        print_note(
            f"mend what it says, then: `dpp workspaces recover {workspace_id} --way …` (docs/workspaces.md)"
        )


def _found(connection: Connection, workspace_id: UUID) -> tuple[Workspace, datetime]:
    """The workspace, and Postgres's clock. Raises StackError."""
    workspace = store.find(connection, workspace_id)
    if workspace is None:
        raise StackError(f"there is no workspace {workspace_id}")
    return workspace, store.clock(connection)


def _known(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _seen(told: Explained) -> str:
    ago = told.observed_seconds_ago
    return "nothing yet: nobody has looked" if ago is None else f"{told.observed}, {ago} s ago"


def _error(workspace: Workspace) -> str:
    """Why it stands where it does, in one word: its error's reason, else its health's."""
    if workspace.error_info is not None:
        return workspace.error_info.reason
    health = workspace.conditions.get("policy.healthy")
    return "" if health is None or health.status else health.reason


def _print_workspaces(workspaces: Iterable[Workspace], now: datetime) -> None:
    names = ("workspace", "phase", "wanted", "under way", "seen", "error", "tenant", "name")
    table = Table(*names, box=None, header_style="dim", pad_edge=False)
    table.columns[4].justify = "right"
    for column in table.columns[:6]:
        column.no_wrap = True
    for one in workspaces:
        ago = explain(one, now).observed_seconds_ago
        seen = "never" if ago is None else f"{ago} s ago"
        doing = "" if one.operation is Operation.NONE else one.operation.value
        cells = (str(one.workspace_id), one.phase.value, one.desired_state.value, doing, seen, _error(one))
        table.add_row(*cells, plain(one.tenant_id), plain(one.name))
    print_table(table)


def _values(workspace: Workspace, now: datetime, zone: ZoneInfo) -> dict[str, str | None]:
    """What stands in its columns, in the order in which one asks."""
    told, home, error = explain(workspace, now), workspace.home_ctx, workspace.error_info
    archive = home.archive
    proved = f"{archive.size_bytes:,} bytes, SHA-256 {archive.sha256}" if archive else None
    failed = None
    if error is not None:
        how = "terminal" if error.is_terminal else "is tried again"
        failed = (
            f"{error.reason}: {error.message} ({error.operation}, failed {error.retry_count} times, {how})"
        )
    return {
        "tenant": workspace.tenant_id,
        "name": workspace.name,
        "wanted": told.wanted,
        "observed": _seen(told),
        "under way": told.under_way,
        "next": told.next_step.why,
        "blocked": "yes, a person has to do something" if told.blocked else None,
        "error": failed,
        "outages": f"{workspace.error_count} in a row, asked again {moment(workspace.next_attempt_at, zone)}"
        if workspace.next_attempt_at
        else None,
        "starts": f"{workspace.start_count} in a row that ended soon" if workspace.start_count > 1 else None,
        "archive": workspace.archive_key,
        "proved": proved,
        "volume from": home.restore_marker,
        "generation": home.generation,
        "operation id": None if workspace.op_id is None else str(workspace.op_id),
        "created": moment(workspace.created_at, zone),
        "last used": moment(workspace.last_access_at, zone),
        "to STANDBY": _ttl(workspace.standby_ttl_seconds),
        "to ARCHIVED": _ttl(workspace.archive_ttl_seconds),
        "settled": moment(workspace.settled_at, zone) or None,
        "next look": moment(workspace.next_look_at, zone) or None,
        "handed over": moment(workspace.handed_at, zone) or None,
        "held until": moment(workspace.lease_until, zone) or None,
        "deleted": moment(workspace.deleted_at, zone) or None,
        "cleaned": moment(workspace.cleaned_at, zone) or None,
    }


def _ttl(seconds: int | None) -> str | None:
    return None if seconds is None else f"{seconds} s without use"


def _print_conditions(told: Explained) -> None:
    if not told.conditions:
        return
    table = Table("condition", "", "for", "reason", "message", box=None, header_style="dim")
    for column in table.columns[:4]:
        column.no_wrap = True
    for name, one, seconds in told.conditions:
        table.add_row(name, str(one.status).lower(), f"{seconds} s", one.reason, plain(one.message))
    print_table(table)


def _print_events(events: Sequence[Event], zone: ZoneInfo) -> None:
    if not events:
        return
    table = Table("when", "what", "from", "to", "by", "why", box=None, header_style="dim")
    for column in table.columns[:2]:
        column.no_wrap = True
    for one in events:
        why = ": ".join(filter(None, (one.reason, one.message)))
        moved = (plain(one.from_value or ""), plain(one.to_value or ""))
        table.add_row(moment(one.happened_at, zone), one.kind, *moved, plain(one.actor), plain(why))
    print_table(table)
