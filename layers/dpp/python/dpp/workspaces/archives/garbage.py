"""Which archives may go (003 §9; WS-13): those that nothing protects, two hours after they were written."""

import re
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

GRACE_SECONDS = 2 * 3600
"""An archive is left alone for so long, by its object's time in S3."""

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KEY = re.compile(f"({_UUID})/({_UUID})/[^/]+", re.ASCII)


class Verdict(StrEnum):
    """Whether an archive may go, and by which rule."""

    YOUNG = "YOUNG"
    FOREIGN = "FOREIGN"
    UNKNOWN_WORKSPACE = "UNKNOWN_WORKSPACE"
    ARCHIVE_KEY = "ARCHIVE_KEY"
    UNHEALTHY = "UNHEALTHY"
    OPERATION = "OPERATION"
    GARBAGE = "GARBAGE"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object stands: whose it is and which operation's; `{workspace}/{op}/…`."""

    workspace_id: UUID
    op_id: UUID

    @classmethod
    def of(cls, key: str) -> "Place | None":
        """The place of a key; None for one that no archive of ours has."""
        found = _KEY.fullmatch(key)
        return None if found is None else cls(UUID(found[1]), UUID(found[2]))

    @property
    def prefix(self) -> str:
        """What the keys of its archive and of the proof begin with."""
        return f"{self.workspace_id}/{self.op_id}/"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a workspace says of its archives."""

    deleted: bool
    healthy: bool
    archive_key: str | None
    op_id: UUID | None


def verdict(key: str, age_seconds: float, claim: Claim | None) -> Verdict:
    """Whether the object may go: rules in the document's order, the first that speaks decides.

    1. Deleted: `archive_key` protects what it names until it is forgotten; nothing else protects anything.
    2. Unhealthy: everything of the workspace is protected. (The document says so of `archive_key` and `op_id`; an older
       archive may be all that is left of a home, so it waits for the person who looks at the error, too.)
    3. The archive of the last operation is protected.

    A workspace that no row knows is left alone: the rows may be of another day than the bucket.
    """
    place = Place.of(key)
    if place is None:
        return Verdict.FOREIGN
    if age_seconds < GRACE_SECONDS:
        return Verdict.YOUNG
    return Verdict.UNKNOWN_WORKSPACE if claim is None else _of_known(place, claim)


def _of_known(place: Place, claim: Claim) -> Verdict:
    if claim.archive_key is not None and claim.archive_key.startswith(place.prefix):
        return Verdict.ARCHIVE_KEY
    if claim.deleted:
        return Verdict.GARBAGE
    if not claim.healthy:
        return Verdict.UNHEALTHY
    return Verdict.OPERATION if claim.op_id == place.op_id else Verdict.GARBAGE
