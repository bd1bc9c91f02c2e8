"""The rules for deleting archives (003 §9; WS-13): unprotected ones, two hours after they were written."""

import re
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

GRACE_SECONDS = 2 * 3600
"""Minimum age of an archive before it is deleted, by its object's time in S3."""

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KEY = re.compile(f"({_UUID})/({_UUID})/[^/]+", re.ASCII)


class Verdict(StrEnum):
    """The rule that decides if an archive is deleted; only GARBAGE is."""

    YOUNG = "YOUNG"
    FOREIGN = "FOREIGN"
    UNKNOWN_WORKSPACE = "UNKNOWN_WORKSPACE"
    ARCHIVE_KEY = "ARCHIVE_KEY"
    UNHEALTHY = "UNHEALTHY"
    OPERATION = "OPERATION"
    GARBAGE = "GARBAGE"


@dataclass(frozen=True, slots=True)
class ArchiveLocation:
    """The workspace and operation of an object, from its key `{workspace}/{op}/…`."""

    workspace_id: UUID
    op_id: UUID

    @classmethod
    def parse(cls, key: str) -> "ArchiveLocation | None":
        """The location of a key, or None if the key has another form."""
        found = _KEY.fullmatch(key)
        return None if found is None else cls(UUID(found[1]), UUID(found[2]))

    @property
    def prefix(self) -> str:
        """The prefix of the keys of the archive and its proof."""
        return f"{self.workspace_id}/{self.op_id}/"


@dataclass(frozen=True, slots=True)
class ArchiveReferences:
    """The state of a workspace that protects its archives."""

    deleted: bool
    healthy: bool
    archive_key: str | None
    op_id: UUID | None


def verdict(key: str, age_seconds: float, references: ArchiveReferences | None) -> Verdict:
    """Judge an object by the document's rules in their order; the first that applies decides:

    1. Deleted workspace: only the archive in `archive_key` is protected, until that column is cleared.
    2. Unhealthy workspace: all its archives are protected. (The document protects `archive_key` and `op_id`; an older
       archive may be the last copy of a home, so it is kept until an operator has handled the error.)
    3. The archive of the last operation is protected.

    Archives of an unknown workspace are kept: the database may have been restored to another time than the bucket.
    """
    location = ArchiveLocation.parse(key)
    if location is None:
        return Verdict.FOREIGN
    if age_seconds < GRACE_SECONDS:
        return Verdict.YOUNG
    return Verdict.UNKNOWN_WORKSPACE if references is None else _of_known(location, references)


def _of_known(location: ArchiveLocation, references: ArchiveReferences) -> Verdict:
    if references.archive_key is not None and references.archive_key.startswith(location.prefix):
        return Verdict.ARCHIVE_KEY
    if references.deleted:
        return Verdict.GARBAGE
    if not references.healthy:
        return Verdict.UNHEALTHY
    return Verdict.OPERATION if references.op_id == location.op_id else Verdict.GARBAGE
