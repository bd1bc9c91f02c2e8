"""Conditions from observations, and the phase that they determine (003 §1, §5; WS-2 … WS-4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dpp.workspaces import model
from dpp.workspaces.ports import ArchiveObject, Observation

CONTAINER_WITHOUT_VOLUME = "ContainerWithoutVolume"
ARCHIVE_ACCESS_ERROR = "ArchiveAccessError"


def observe_archive(
    archive_key: str | None, proof: model.Archive | None, found: ArchiveObject | None, now: datetime
) -> Observation:
    """The condition `storage.archive_ready`, with its five reasons (003 §1).

    Size and ETag of the proof show, without reading the object, whether it still has the same bytes. An archive with an
    unknown proof counts as available, but is not sufficient to delete a volume.
    """
    if archive_key is None:
        return Observation(False, "NoArchive", "The workspace has no archive.")
    if found is None:
        return Observation(False, "ArchiveNotFound", "The archive in archive_key is not in the bucket.")
    if found.expires_at is not None and found.expires_at <= now:
        return Observation(False, "ArchiveExpired", "The archive has expired by the bucket's lifecycle rules.")
    if proof is not None and proof.key == archive_key:
        if found.size_bytes != proof.size_bytes:
            message = f"The archive has {found.size_bytes} bytes; its proof says {proof.size_bytes}."
            return Observation(False, "ArchiveCorrupted", message)
        if found.etag != proof.etag:
            return Observation(False, "ArchiveCorrupted", "The archive is not the proved one: its ETag differs.")
    return Observation(True, "ArchiveUploaded", "The archive is available.")


@dataclass(frozen=True, slots=True)
class ObservedState:
    """The observations of a workspace, and the reconciler's columns that they are judged with.

    `containers`: by the name of their condition.
    """

    containers: Mapping[str, Observation]
    volume: Observation
    archive: Observation
    archive_key: str | None
    error_info: model.ErrorInfo | None


def judge_health(observed: ObservedState) -> Observation:
    """The condition `policy.healthy`: the first violation, in the document's order (003 §1; WS-4)."""
    if any(one.ready for one in observed.containers.values()) and not observed.volume.ready:
        return Observation(False, CONTAINER_WITHOUT_VOLUME, "A container runs without its volume.")
    if observed.archive_key is not None and not observed.archive.ready:
        message = f"{observed.archive.reason}: {observed.archive.message}"
        return Observation(False, ARCHIVE_ACCESS_ERROR, message)
    error = observed.error_info
    if error is not None and error.is_terminal:
        return Observation(False, error.reason, error.message)
    return Observation(True, "Healthy", "The workspace is healthy.")


def conditions_after(before: model.Conditions, observed: ObservedState, now: datetime) -> model.Conditions:
    """The conditions after an observation. A transition time stays if the status does."""
    found = {
        **observed.containers,
        model.VOLUME_READY: observed.volume,
        model.ARCHIVE_READY: observed.archive,
        model.HEALTHY: judge_health(observed),
    }
    return {name: _condition(before.get(name), one, now) for name, one in found.items()}


def _condition(before: model.Condition | None, found: Observation, now: datetime) -> model.Condition:
    kept = before is not None and before.status == found.ready
    since = before.last_transition_time if before is not None and kept else now
    return model.Condition(found.ready, found.reason, found.message, since)


def calculate_phase(conditions: model.Conditions, deleted_at: datetime | None) -> model.Phase:
    """The phase of these conditions, by the document's priority (003 §5); a missing condition counts as false."""
    if deleted_at is not None:
        return model.Phase.DELETED
    if not _is_true(conditions, model.HEALTHY, if_missing=True):
        return model.Phase.ERROR
    volume = _is_true(conditions, model.VOLUME_READY)
    if volume and any(one.status for name, one in conditions.items() if model.is_container_condition(name)):
        return model.Phase.RUNNING
    if volume:
        return model.Phase.STANDBY
    return model.Phase.ARCHIVED if _is_true(conditions, model.ARCHIVE_READY) else model.Phase.PENDING


def _is_true(conditions: model.Conditions, name: str, *, if_missing: bool = False) -> bool:
    condition = conditions.get(name)
    return if_missing if condition is None else condition.status
