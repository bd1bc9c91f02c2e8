"""The JSON of columns of `workspaces` (WS-2), which `dpp.platform.db.rows` reads into the same classes."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from dpp.workspaces.model import Conditions, ErrorInfo, HomeContext


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


def home_json(home: HomeContext) -> dict[str, Any]:
    """The column's JSON, without the members that are None."""
    return {name: value for name, value in asdict(home).items() if value is not None}


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
