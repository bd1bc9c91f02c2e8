"""Workspaces built from the values that a test is about."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from dpp.workspaces import model
from dpp.workspaces.control.conditions import ObservedState, calculate_phase, conditions_after
from dpp.workspaces.ports import Observation

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WORKSPACE = UUID("11111111-1111-4111-8111-111111111111")
OP = UUID("22222222-2222-4222-8222-222222222222")
OTHER_OP = UUID("33333333-3333-4333-8333-333333333333")
OWN_KEY = model.archive_key_of(WORKSPACE, OP)
OTHER_KEY = model.archive_key_of(WORKSPACE, OTHER_OP)
INFRA = model.container_condition("process")


def proof(key: str) -> model.Archive:
    return model.Archive(key, 1_000, "a" * 64, "etag")


def terminal(
    reason: str = "Broken", *, operation: model.Operation = model.Operation.NONE, retries: int = 3
) -> model.ErrorInfo:
    return model.ErrorInfo(reason, "It broke.", True, retries, operation, NOON)


def failed(operation: model.Operation, retries: int, at: datetime = NOON, reason: str = "Broken") -> model.ErrorInfo:
    return model.ErrorInfo(reason, "It broke.", False, retries, operation, at)


def seen(ready: bool, reason: str = "Seen") -> Observation:
    """The observation of a resource."""
    return Observation(ready, reason, "As it is.")


def conditions(
    container: bool,
    volume: bool,
    archive: bool,
    *,
    archive_key: str | None = None,
    error: model.ErrorInfo | None = None,
    at: datetime = NOON - timedelta(minutes=5),
    before: model.Conditions | None = None,
) -> model.Conditions:
    found = seen(container, "ContainerRunning" if container else "ContainerNotFound")
    observed = ObservedState({INFRA: found}, seen(volume), seen(archive), archive_key, error)
    return conditions_after(before or {}, observed, at)


def workspace(container: bool = False, volume: bool = False, archive: bool = False, **changes: Any) -> model.Workspace:
    """A workspace with these observations, made a second ago; its phase is computed."""
    members: dict[str, Any] = {
        "workspace_id": WORKSPACE,
        "sequence": 1,
        "tenant_id": "t_owner",
        "created_at": NOON - timedelta(days=1),
        "name": "home",
        "desired_state": model.DesiredState.RUNNING,
        "desired_by": "owner",
        "deleted_at": None,
        "standby_ttl_seconds": None,
        "archive_ttl_seconds": None,
        "last_access_at": NOON - timedelta(hours=1),
        "observed_at": NOON - timedelta(seconds=1),
        "operation": model.Operation.NONE,
        "op_id": None,
        "op_started_at": None,
        "acted_at": None,
        "archive_key": OTHER_KEY if archive else None,
        "home_ctx": model.HomeContext(),
        "error_info": None,
        "error_count": 0,
        "start_count": 0,
        "next_attempt_at": None,
        "tried_at": None,
        "settled_at": NOON - timedelta(minutes=5),
        "cleaned_at": None,
        "lease_until": None,
        "handed_at": None,
        "next_look_at": None,
    }
    members |= changes
    if members["operation"] is not model.Operation.NONE:
        members["op_id"] = members["op_id"] or OP
        members["op_started_at"] = members["op_started_at"] or NOON - timedelta(seconds=30)
    made = conditions(container, volume, archive, archive_key=members["archive_key"], error=members["error_info"])
    members.setdefault("conditions", made)
    members.setdefault("phase", calculate_phase(members["conditions"], members["deleted_at"]))
    return model.Workspace(**members)


def home(marker: str | None = OTHER_KEY, archive: str | None = OTHER_KEY, **more: Any) -> model.HomeContext:
    return model.HomeContext(
        restore_marker=marker,
        generation=None if marker is None else "g1",
        archive=None if archive is None else proof(archive),
        **more,
    )


PHASES: Mapping[model.Phase, tuple[bool, bool, bool]] = {
    model.Phase.RUNNING: (True, True, True),
    model.Phase.STANDBY: (False, True, True),
    model.Phase.ARCHIVED: (False, False, True),
    model.Phase.PENDING: (False, False, False),
}
"""Container, volume and archive that exist in each phase."""


def at_rest(phase: model.Phase, desired: model.DesiredState, **changes: Any) -> model.Workspace:
    """A healthy workspace with nothing under way."""
    held = phase in {model.Phase.RUNNING, model.Phase.STANDBY}
    known = home() if held else home(marker=None, archive=OTHER_KEY if phase is model.Phase.ARCHIVED else None)
    members: dict[str, Any] = {"desired_state": desired, "home_ctx": known}
    return workspace(*PHASES[phase], **members | changes)
