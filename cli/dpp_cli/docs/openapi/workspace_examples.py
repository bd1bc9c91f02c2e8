"""Examples of workspaces; a test validates each against its schema."""

from dpp_cli.docs.openapi.parts import Json

WORKSPACE_ID = "7b0f3c7e-52a8-4d0f-9a54-0a3c8a1f6d21"
KEY = "workspace-of-kim-1"
REQUESTS: Json = {
    "whole": {
        "name": "Kim's lab",
        "desired_state": "RUNNING",
        "standby_ttl_seconds": 1_800,
        "archive_ttl_seconds": 86_400,
    },
    "least": {"name": "scratch"},
}
CHANGES: Json = {
    "stop": {"desired_state": "STANDBY"},
    "rename": {"name": "Kim's old lab"},
    "never archive": {"archive_ttl_seconds": None},
}


def _condition(status: bool, reason: str, message: str, at: str) -> Json:
    return {"status": status, "reason": reason, "message": message, "last_transition_time": at}


WORKSPACE: Json = {
    "workspace_id": WORKSPACE_ID,
    "name": "Kim's lab",
    "desired_state": "RUNNING",
    "phase": "STANDBY",
    "operation": "STARTING",
    "conditions": {
        "infra.ecs.container_ready": _condition(
            False, "ContainerNotFound", "there is no service of this name", "2026-03-01T12:00:02Z"
        ),
        "policy.healthy": _condition(True, "Healthy", "All that must hold does.", "2026-03-01T12:00:02Z"),
        "storage.archive_ready": _condition(True, "ArchiveUploaded", "The archive can be had.", "2026-03-01T12:00:04Z"),
        "storage.volume_ready": _condition(True, "VolumeProvisioned", "Volume is ready", "2026-03-01T12:00:09Z"),
    },
    "observed_at": "2026-03-01T12:00:10Z",
    "standby_ttl_seconds": 1_800,
    "archive_ttl_seconds": 86_400,
    "last_access_at": "2026-03-01T12:00:00Z",
    "created_at": "2026-03-01T12:00:00Z",
    "next_step": "STARTING: START_CONTAINER.",
}
NEW: Json = {
    "workspace_id": WORKSPACE_ID,
    "name": "Kim's lab",
    "desired_state": "RUNNING",
    "phase": "PENDING",
    "operation": "NONE",
    "conditions": {},
    "standby_ttl_seconds": 1_800,
    "archive_ttl_seconds": 86_400,
    "last_access_at": "2026-03-01T12:00:00Z",
    "created_at": "2026-03-01T12:00:00Z",
    "next_step": "The workspace has not been observed yet.",
}
DELETED: Json = NEW | {
    "desired_state": "DELETED",
    "deleted_at": "2026-03-02T08:00:00Z",
    "next_step": "The workspace has not been observed yet.",
}
PAGE: Json = {"workspaces": [WORKSPACE], "next_cursor": "41"}
EVENTS: Json = {
    "events": [
        {
            "happened_at": "2026-03-01T12:00:04Z",
            "actor": "monitor",
            "kind": "PHASE",
            "from_value": "PENDING",
            "to_value": "ARCHIVED",
            "reason": "Healthy",
            "message": "All that must hold does.",
        },
        {"happened_at": "2026-03-01T12:00:02Z", "actor": "reconciler", "kind": "STARTED", "to_value": "PROVISIONING"},
        {"happened_at": "2026-03-01T12:00:00Z", "actor": "owner", "kind": "CREATED", "to_value": "RUNNING"},
    ]
}
