"""Operator commands: the emergency stop, the switches of execution, and what the ops cycle did (TIX-6).

`--json` prints what the operators' API answers, where it has the same.
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic import ValidationError

from dpp.platform.db.postgres import Connection
from dpp.runs.operations.switch import Switch, switches
from dpp.tickets import cycle, stop
from dpp.tickets.contract import EmergencyStopRequest
from dpp.tickets.errors import NoReceiptYet
from dpp.tickets.http import stop_view
from dpp.tickets.stop import EmergencyStop
from dpp_cli.errors import StackError
from dpp_cli.operator.output import as_array, faults, moment, print_rows, print_values
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows
from dpp_cli.operator.tenants import console

ops_app = typer.Typer(no_args_is_help=True, help="Set or clear the emergency stop; show what ops cycles did.")

Why = Annotated[str, typer.Option("--reason", help="Why; recorded with the change.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many, newest first.")]
AsArray = Annotated[bool, typer.Option("--json", help="One JSON array.")]


@ops_app.command("status")
def status(as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """Show the emergency stop, disabled packs and the result of the last ops cycle."""
    with connected_rows(RowSettings) as (connection, settings):
        found, decided = stop.read(connection), switches(connection)
        receipts = _receipts(connection, 1)
    zone = settings.zone
    if as_json:
        document = {
            "emergency_stop": stop_view(found, zone).model_dump(mode="json"),
            "execution": [_fields(switch, zone) for switch in decided],
            "latest_receipt": receipts[0] if receipts else None,
        }
        typer.echo(json.dumps(document))
        return
    values = {"emergency stop": _stop_state(found, zone), "last ops cycle": "none yet"}
    if receipts:
        values["last ops cycle"] = f"{receipts[0]['outcome']}, started {receipts[0]['started_at']}"
    for switch in decided:
        scope = switch.scope or "all packs"
        is_now = "enabled" if switch.enabled else "DISABLED"
        values[f"execution of {scope}"] = _with_reason(is_now, switch.actor, switch.reason)
    if not decided:
        values["execution"] = "enabled (no ticket ever disabled a pack)"
    print_values(values)


@ops_app.command("stop")
def set_stop(reason: Why, who: Who = None) -> None:
    """Set the emergency stop: ops cycles and the reaper stop changing anything. Runs continue."""
    _decide(stopped=True, reason=reason, who=who)


@ops_app.command("resume")
def clear_stop(reason: Why, who: Who = None) -> None:
    """Clear the emergency stop; the next ops cycle works again."""
    _decide(stopped=False, reason=reason, who=who)


@ops_app.command("stops")
def show_stops(limit: Limit = 50, as_json: AsArray = False) -> None:
    """List when, by whom and why the emergency stop was set and cleared, newest first."""
    with connected_rows(RowSettings) as (connection, settings):
        found = stop.changes(connection, limit)
    if as_json:
        typer.echo(as_array(stop_view(one, settings.zone) for one in found))
        return
    if not found:
        console.print("the emergency stop was never set")
        return
    rows = (
        (moment(one.changed_at, settings.zone), "set" if one.stopped else "cleared", one.actor, one.reason)
        for one in found
    )
    print_rows(("when", "", "by", "reason"), rows)


@ops_app.command("receipts")
def show_receipts(limit: Limit = 20, as_json: AsArray = False) -> None:
    """List what ops cycles did, step by step, newest first."""
    with connected_rows(RowSettings) as (connection, _):
        receipts = _receipts(connection, limit)
    if as_json:
        typer.echo(json.dumps(receipts))
        return
    if not receipts:
        console.print("no ops cycle has run yet")
        return
    names = ("started", "outcome", "0 stop", "0.25 reaper", "1 tickets", "run")
    rows = (
        (
            *(one["started_at"][:19], one["outcome"], _stop_cell(one), _reaper_cell(one), _tickets_cell(one)),
            one["run_id"],
        )
        for one in receipts
    )
    print_rows(names, rows, whole=("started", "run"))


def _decide(*, stopped: bool, reason: str, who: str | None) -> None:
    asked_by = actor(who)
    try:
        requested = EmergencyStopRequest(stopped=stopped, reason=reason)
    except ValidationError as error:
        raise StackError(faults(error, "--")) from None
    with connected_rows(RowSettings) as (connection, settings):
        found = stop.decide(connection, stopped=stopped, actor=asked_by, reason=requested.reason)
    typer.echo(f"emergency stop: {_stop_state(found, settings.zone)}")


def _receipts(connection: Connection, limit: int) -> list[dict[str, Any]]:
    try:
        return cycle.latest(connection, limit)
    except NoReceiptYet:
        return []


def _stop_state(found: EmergencyStop, zone: ZoneInfo) -> str:
    state = "SET" if found.stopped else "not set"
    return f"{_with_reason(state, found.actor, found.reason)} ({moment(found.changed_at, zone)})"


def _with_reason(what: str, by: str, reason: str) -> str:
    return f"{what}, by {by}: {reason}"


def _fields(switch: Switch, zone: ZoneInfo) -> dict[str, Any]:
    """Return a switch as JSON fields; `scope` null means all packs."""
    return {
        "scope": switch.scope,
        "enabled": switch.enabled,
        "decision_id": str(switch.decision_id),
        "actor": switch.actor,
        "reason": switch.reason,
        "decided_at": switch.decided_at.astimezone(zone).isoformat(),
    }


def _step(receipt: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return a step's outcome (empty if the cycle did not reach it) and the step."""
    step = receipt.get(name) or {}
    return str(step.get("outcome", "")), step


def _stop_cell(receipt: Mapping[str, Any]) -> str:
    return _step(receipt, "emergency_stop")[0]


def _reaper_cell(receipt: Mapping[str, Any]) -> str:
    outcome, step = _step(receipt, "ticket_reaper")
    if outcome != "OK":
        return f"{outcome} {step.get('error', '')}".strip()
    tripped = ", too many at once" if step["breaker_tripped"] else ""
    return f"{step['cleaned_count']} of {step['stale_count']} stale ended{tripped}"


def _tickets_cell(receipt: Mapping[str, Any]) -> str:
    outcome, step = _step(receipt, "tickets")
    counts = [f"{step[name]} {name}" for name in ("done", "failed", "left", "lost") if step.get(name)]
    summary = ", ".join(counts) or ("none" if outcome == "OK" else "")
    return summary if outcome == "OK" else f"{outcome} {step.get('error', '')} {summary}".strip()
