"""Archive a home and restore it (003 §7, WS-10, WS-11), over the ports of volumes and archives.

An archive is valid once its proof exists; the proof is written after the whole object was read back. A volume is valid
once it is installed; it is installed after the whole object was unpacked and its checksum matched the proof. A crash in
between leaves nothing valid, and the repeated call continues from there.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from dpp.workspaces.errors import OperationFailed
from dpp.workspaces.model import Archive, archive_key_of
from dpp.workspaces.ports import ArchiveObject, Archives, Heartbeat, HomeFormat, Volume, Volumes
from dpp.workspaces.providers import home_tar


def archive_home(
    volumes: Volumes,
    archives: Archives,
    workspace_id: UUID,
    op_id: UUID,
    heartbeat: Heartbeat,
    *,
    homes: HomeFormat = home_tar,
) -> Archive:
    """Write the home to a proved archive of this operation, and return the proof. The volume stays.

    If the operation's proof exists, nothing is read or sent. If only its object exists, uploaded by a process that
    died, it is proved if the home packs to the same bytes, and replaced otherwise. If there is no volume, the object is
    proved if it is complete: the volume could only be deleted after that.

    Raises OperationFailed `DataLost`, terminal, if there is neither a volume nor an archive; `VolumeUnproven`,
    `HomeChanged`; `ArchiveUnreadable` if the bytes read back differ from those sent; DependencyUnavailable.
    """
    key = archive_key_of(workspace_id, op_id)
    proof = _matching_proof(archives, archives.head(key))
    if proof is not None:
        return proof
    volume = volumes.find(workspace_id)
    # Again: another process may have written the archive, proved it and deleted the volume meanwhile.
    found = archives.head(key)
    if volume is not None:
        return _write_and_prove(
            archives, key, found, lambda: _pack_existing(volumes, volume, heartbeat, homes), heartbeat, homes=homes
        )
    proof = _matching_proof(archives, found)
    if proof is not None:
        return proof
    if found is not None:
        with suppress(OperationFailed):
            return _read_back_and_prove(archives, found, None, heartbeat, homes)
    raise OperationFailed("DataLost", "The workspace has neither a volume nor an archive.", is_terminal=True)


def archive_empty_home(
    archives: Archives, workspace_id: UUID, op_id: UUID, heartbeat: Heartbeat, *, homes: HomeFormat = home_tar
) -> Archive:
    """Write an empty home to a proved archive, from which a new workspace is restored."""
    key = archive_key_of(workspace_id, op_id)
    found = archives.head(key)
    proof = _matching_proof(archives, found)
    if proof is not None:
        return proof
    with tempfile.TemporaryDirectory(prefix="dpp-home-") as folder:
        home = Path(folder)
        os.utime(home, ns=(0, 0))  # so that it always packs to the same bytes
        return _write_and_prove(archives, key, found, lambda: homes.pack(home, heartbeat), heartbeat, homes=homes)


def restore_home(  # noqa: PLR0917 - the parameters of archive_home, and the archive
    volumes: Volumes,
    archives: Archives,
    workspace_id: UUID,
    op_id: UUID,
    archive: Archive,
    heartbeat: Heartbeat,
    *,
    homes: HomeFormat = home_tar,
) -> Volume:
    """Restore a volume from this archive. A volume that was already restored from it is returned as it is.

    Raises OperationFailed `ArchiveNotFound`, `ArchiveCorrupted` and `ArchiveRefused`, all terminal, if the object is
    not the proved one; `VolumeExists` and `VolumeUnproven` if the workspace has another volume; DependencyUnavailable.
    """
    _check_object(archives, archive)
    existing = volumes.find(workspace_id)
    if existing is not None:
        if existing.restore_marker == archive.key:
            return existing
        raise OperationFailed("VolumeExists", "The workspace has a volume that was restored from another archive.")
    generation = str(op_id)
    prepared = volumes.prepare(workspace_id, generation)
    chunks = _HashingReader(archives.read(archive.key, heartbeat))
    homes.unpack(chunks, prepared, heartbeat)
    if (chunks.sha256, chunks.size_bytes) != (archive.sha256, archive.size_bytes):
        raise _corrupted("The bytes read from the archive differ from its proof.")
    heartbeat()
    return volumes.install(workspace_id, generation, archive.key, prepared)


class _HashingReader:
    """Passes chunks on, and computes their size and SHA-256."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = next(self._chunks)
        self._digest.update(chunk)
        self.size_bytes += len(chunk)
        return chunk

    @property
    def sha256(self) -> str:
        """The hash of all chunks so far, in hexadecimal."""
        return self._digest.hexdigest()


def _matching_proof(archives: Archives, found: ArchiveObject | None) -> Archive | None:
    """The proof, if it is of this very object, else None."""
    if found is None:
        return None
    proof = archives.read_proof(found.key)
    return proof if proof is not None and _is_of(found, proof) else None


def _pack_existing(volumes: Volumes, volume: Volume, heartbeat: Heartbeat, homes: HomeFormat) -> Iterator[bytes]:
    """Pack the home, and fail at the end if the volume was deleted meanwhile.

    A deletion unlinks the volume before it removes files, so a delayed process that packs files under removal detects
    it here, before its upload is completed.
    """
    yield from homes.pack(volume.home, heartbeat)
    heartbeat()
    if volumes.find(volume.workspace_id) != volume:
        raise OperationFailed("HomeChanged", "The volume was deleted while it was being archived.")


def _write_and_prove(
    archives: Archives,
    key: str,
    found: ArchiveObject | None,
    packed: Callable[[], Iterator[bytes]],
    heartbeat: Heartbeat,
    *,
    homes: HomeFormat,
) -> Archive:
    """Write the packed home to an object, unless `found` has the same bytes, and prove it."""
    if found is not None:
        expected = _HashingReader(packed())
        for _ in expected:
            pass
        with suppress(OperationFailed):
            return _read_back_and_prove(archives, found, expected.sha256, heartbeat, homes)
    sent = archives.write(key, packed(), heartbeat, found.etag if found else None)
    stored = archives.head(key)
    if stored is None or not _is_of(stored, sent):
        raise _unreadable("The stored object differs from what was sent.")
    return _read_back_and_prove(archives, stored, sent.sha256, heartbeat, homes)


def _read_back_and_prove(
    archives: Archives, stored: ArchiveObject, sha256: str | None, heartbeat: Heartbeat, homes: HomeFormat
) -> Archive:
    """Read the object back completely, and write its proof. `sha256`: of the bytes sent, if known.

    No failure here is terminal, since the volume may still have the home.
    """
    chunks = _HashingReader(archives.read(stored.key, heartbeat))
    try:
        homes.verify(chunks, heartbeat)
    except OperationFailed as failed:
        raise _unreadable(failed.message) from failed
    archive = Archive(stored.key, chunks.size_bytes, chunks.sha256, stored.etag)
    if sha256 not in (None, archive.sha256) or not _is_of(stored, archive):
        raise _unreadable("The bytes read back differ from those sent.")
    if archives.head(stored.key) != stored:
        raise _unreadable("The object was replaced while it was read back.")
    heartbeat()
    archives.write_proof(archive)
    return archive


def _check_object(archives: Archives, archive: Archive) -> None:
    found = archives.head(archive.key)
    if found is None:
        raise OperationFailed("ArchiveNotFound", "The bucket has no object with the archive's key.", is_terminal=True)
    if not _is_of(found, archive):
        raise _corrupted("The object is not the proved archive.")


def _is_of(found: ArchiveObject, archive: Archive) -> bool:
    return (found.key, found.etag, found.size_bytes) == (archive.key, archive.etag, archive.size_bytes)


def _unreadable(message: str) -> OperationFailed:
    return OperationFailed("ArchiveUnreadable", message)


def _corrupted(message: str) -> OperationFailed:
    return OperationFailed("ArchiveCorrupted", message, is_terminal=True)
