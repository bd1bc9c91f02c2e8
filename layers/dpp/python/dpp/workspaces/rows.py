"""Conversion between rows of `workspaces` and Workspace, and the JSON of their columns (WS-2)."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Any

from dpp.workspaces.model import (
    Archive,
    Condition,
    Conditions,
    DesiredState,
    ErrorInfo,
    HomeContext,
    Operation,
    Phase,
    Workspace,
)

_NAMES = frozenset(field.name for field in fields(Workspace))


def workspace_from_row(row: Mapping[str, Any]) -> Workspace:
    """The workspace of a row that maps column names to values."""
    known = {name: value for name, value in row.items() if name in _NAMES}
    return Workspace(
        **known
        | {
            "desired_state": DesiredState(row["desired_state"]),
            "phase": Phase(row["phase"]),
            "operation": Operation(row["operation"]),
            "conditions": conditions_from_json(row["conditions"]),
            "home_ctx": home_from_json(row["home_ctx"]),
            "error_info": None if row["error_info"] is None else error_from_json(row["error_info"]),
        }
    )


def conditions_from_json(json: Mapping[str, Any]) -> Conditions:
    """The conditions in the column's JSON, whose shape the schema checks."""
    return {
        name: Condition(
            one["status"], one["reason"], one["message"], datetime.fromisoformat(one["last_transition_time"])
        )
        for name, one in json.items()
    }


def conditions_json(conditions: Conditions) -> dict[str, Any]:
    """The column's JSON: four members for each condition (003 §1)."""
    return {
        name: {
            "status": one.status,
            "reason": one.reason,
            "message": one.message[:500],
            "last_transition_time": _text(one.last_transition_time),
        }
        for name, one in conditions.items()
    }


def home_from_json(json: Mapping[str, Any]) -> HomeContext:
    """The home context in the column's JSON."""
    archive = json.get("archive")
    return HomeContext(
        restore_marker=json.get("restore_marker"),
        generation=json.get("generation"),
        archive=None if archive is None else Archive(**archive),
        last_action=json.get("last_action"),
    )


def home_json(home: HomeContext) -> dict[str, Any]:
    """The column's JSON, without the members that are None."""
    return {name: value for name, value in asdict(home).items() if value is not None}


def error_from_json(json: Mapping[str, Any]) -> ErrorInfo:
    """The error in the column's JSON."""
    return ErrorInfo(
        reason=json["reason"],
        message=json["message"],
        is_terminal=json["is_terminal"],
        retry_count=json["retry_count"],
        operation=Operation(json["operation"]),
        failed_at=datetime.fromisoformat(json["failed_at"]),
        context=json.get("context", {}),
    )


def error_json(error: ErrorInfo | None) -> dict[str, Any] | None:
    """The column's JSON."""
    if error is None:
        return None
    return {
        "reason": error.reason,
        "message": error.message[:500],
        "is_terminal": error.is_terminal,
        "retry_count": error.retry_count,
        "operation": error.operation.value,
        "failed_at": _text(error.failed_at),
        "context": dict(error.context),
    }


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
