"""What was seen, as conditions, and the phase that they make (003 §1, §5; WS-2 … WS-4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dpp.workspaces.model import (
    ARCHIVE_READY,
    HEALTHY,
    VOLUME_READY,
    Archive,
    Condition,
    Conditions,
    ErrorInfo,
    Phase,
    is_container_condition,
)
from dpp.workspaces.ports import ArchiveObject, Seen

CONTAINER_WITHOUT_VOLUME = "ContainerWithoutVolume"
ARCHIVE_ACCESS_ERROR = "ArchiveAccessError"


def see_archive(
    archive_key: str | None, proof: Archive | None, found: ArchiveObject | None, now: datetime
) -> Seen:
    """The five reasons of `storage.archive_ready` (003 §1).

    `proof`: what the archive was when it was read back. Size and ETag tell whether these are still the same bytes
    without reading them; an archive whose proof is unknown is believed to be there, and is no reason to delete a
    volume.
    """
    if archive_key is None:
        return Seen(False, "NoArchive", "There is no archive.")
    if found is None:
        return Seen(False, "ArchiveNotFound", "The archive that archive_key names is not in the bucket.")
    if found.expires_at is not None and found.expires_at <= now:
        return Seen(False, "ArchiveExpired", "The archive has outlived what the bucket's rules allow.")
    if proof is not None and proof.key == archive_key:
        if found.size_bytes != proof.size_bytes:
            told = f"The archive has {found.size_bytes} bytes, and had {proof.size_bytes}."
            return Seen(False, "ArchiveCorrupted", told)
        if found.etag != proof.etag:
            return Seen(False, "ArchiveCorrupted", "The archive is not the one whose checksum was proved.")
    return Seen(True, "ArchiveUploaded", "The archive can be had.")


@dataclass(frozen=True, slots=True)
class Observed:
    """What one look found, and the columns of the reconciler that it is judged with."""

    container: Mapping[str, Seen]
    """By the name of its condition."""
    volume: Seen
    archive: Seen
    archive_key: str | None
    error_info: ErrorInfo | None


def judge(observed: Observed) -> Seen:
    """`policy.healthy`: the first that is wrong, in the document's order (003 §1; WS-4)."""
    if any(seen.ready for seen in observed.container.values()) and not observed.volume.ready:
        return Seen(False, CONTAINER_WITHOUT_VOLUME, "A container runs without its volume.")
    if observed.archive_key is not None and not observed.archive.ready:
        told = f"{observed.archive.reason}: {observed.archive.message}"
        return Seen(False, ARCHIVE_ACCESS_ERROR, told)
    error = observed.error_info
    if error is not None and error.is_terminal:
        return Seen(False, error.reason, error.message)
    return Seen(True, "Healthy", "All that must hold does.")


def conditions_after(before: Conditions, observed: Observed, now: datetime) -> Conditions:
    """The conditions of a look; a time of transition is kept where the status is."""
    seen = {
        **observed.container,
        VOLUME_READY: observed.volume,
        ARCHIVE_READY: observed.archive,
        HEALTHY: judge(observed),
    }
    return {name: _condition(before.get(name), one, now) for name, one in seen.items()}


def _condition(before: Condition | None, seen: Seen, now: datetime) -> Condition:
    kept = before is not None and before.status == seen.ready
    since = before.last_transition_time if before is not None and kept else now
    return Condition(seen.ready, seen.reason, seen.message, since)


def calculate_phase(conditions: Conditions, deleted_at: datetime | None) -> Phase:
    """The one phase of these conditions, by the document's priority (003 §5); what was never seen isn't there."""
    if deleted_at is not None:
        return Phase.DELETED
    if not _is(conditions, HEALTHY, unseen=True):
        return Phase.ERROR
    volume = _is(conditions, VOLUME_READY)
    if volume and any(one.status for name, one in conditions.items() if is_container_condition(name)):
        return Phase.RUNNING
    if volume:
        return Phase.STANDBY
    return Phase.ARCHIVED if _is(conditions, ARCHIVE_READY) else Phase.PENDING


def _is(conditions: Conditions, name: str, *, unseen: bool = False) -> bool:
    condition = conditions.get(name)
    return unseen if condition is None else condition.status
