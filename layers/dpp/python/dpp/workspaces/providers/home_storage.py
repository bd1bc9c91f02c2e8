"""Archive a home and bring it back (003 §7, WS-10, WS-11): what a storage provider does, over volumes and archives.

An archive counts from the moment its proof stands, and the proof is written when all of the object was read back. A
volume counts from the moment it is installed, and it is installed when all of the object was unpacked and its sum is
the proof's. A crash in between leaves what does not count; the same call, made again, begins from there.
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
from dpp.workspaces.ports import ArchiveObject, Archives, Beat, HomeFormat, Volume, Volumes
from dpp.workspaces.providers import home_tar


def archive_home(
    volumes: Volumes,
    archives: Archives,
    workspace_id: UUID,
    op_id: UUID,
    beat: Beat,
    *,
    homes: HomeFormat = home_tar,
) -> Archive:
    """Have the home in a proved archive of this operation, and answer its proof; the volume stays.

    Where the operation has its proof already, nothing is read or sent; where it has its object, which a process that
    died uploaded, that is proved if it is what the home packs to, and replaced if it is not. Without a volume it is
    proved if it is whole: it was complete before the volume could be deleted.

    Raises OperationFailed `DataLost`, terminal, where there is neither a volume nor an archive; `VolumeUnproven`,
    `HomeChanged`; `ArchiveUnreadable` where what was read back is not what was sent; DependencyUnavailable.
    """
    key = archive_key_of(workspace_id, op_id)
    proof = _proof_of(archives, archives.look(key))
    if proof is not None:
        return proof
    volume = volumes.find(workspace_id)
    # Once more: what another process proved before it deleted the volume is seen by now.
    found = archives.look(key)
    if volume is not None:
        return _archived(
            archives, key, found, lambda: _whole(volumes, volume, beat, homes), beat, homes=homes
        )
    proof = _proof_of(archives, found)
    if proof is not None:
        return proof
    if found is not None:
        with suppress(OperationFailed):
            return _proved(archives, found, None, beat, homes)
    raise OperationFailed("DataLost", "There is neither a volume nor an archive to be had.", is_terminal=True)


def empty_home(
    archives: Archives, workspace_id: UUID, op_id: UUID, beat: Beat, *, homes: HomeFormat = home_tar
) -> Archive:
    """Have an empty home in a proved archive: what a workspace that never had a home is made from."""
    key = archive_key_of(workspace_id, op_id)
    found = archives.look(key)
    proof = _proof_of(archives, found)
    if proof is not None:
        return proof
    with tempfile.TemporaryDirectory(prefix="dpp-home-") as folder:
        home = Path(folder)
        os.utime(home, ns=(0, 0))  # the same home each time
        return _archived(archives, key, found, lambda: homes.pack(home, beat), beat, homes=homes)


def restore_home(  # noqa: PLR0917 - as its two siblings are called, and what it restores from besides
    volumes: Volumes,
    archives: Archives,
    workspace_id: UUID,
    op_id: UUID,
    archive: Archive,
    beat: Beat,
    *,
    homes: HomeFormat = home_tar,
) -> Volume:
    """Have a volume made from this archive. One that was made from it before is answered as it is, unread.

    Raises OperationFailed `ArchiveNotFound`, `ArchiveCorrupted` and `ArchiveRefused`, all terminal, where the object is
    not what was proved; `VolumeExists` and `VolumeUnproven` where another home stands there; DependencyUnavailable.
    """
    _check_object(archives, archive)
    standing = volumes.find(workspace_id)
    if standing is not None:
        if standing.restore_marker == archive.key:
            return standing
        raise OperationFailed("VolumeExists", "A volume that was made from another archive stands already.")
    generation = str(op_id)
    prepared = volumes.prepare(workspace_id, generation)
    chunks = _Summed(archives.read(archive.key, beat))
    homes.unpack(chunks, prepared, beat)
    if (chunks.sha256, chunks.size_bytes) != (archive.sha256, archive.size_bytes):
        raise _corrupted("What was read of the archive is not what was proved.")
    beat()
    return volumes.install(workspace_id, generation, archive.key, prepared)


class _Summed:
    """Chunks on their way, and what has passed so far."""

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
        """In hexadecimal."""
        return self._digest.hexdigest()


def _proof_of(archives: Archives, found: ArchiveObject | None) -> Archive | None:
    """The proof of these very bytes, or None."""
    if found is None:
        return None
    proof = archives.proof(found.key)
    return proof if proof is not None and _is_of(found, proof) else None


def _whole(volumes: Volumes, volume: Volume, beat: Beat, homes: HomeFormat) -> Iterator[bytes]:
    """The home's stream, which ends only if the volume stands when all of it was read.

    Who deletes a volume unlinks it before it touches the files: a process that comes late and reads what is being
    removed finds that out here, before its upload is completed.
    """
    yield from homes.pack(volume.home, beat)
    beat()
    if volumes.find(volume.workspace_id) != volume:
        raise OperationFailed("HomeChanged", "The volume was deleted while it was being archived.")


def _archived(
    archives: Archives,
    key: str,
    found: ArchiveObject | None,
    packed: Callable[[], Iterator[bytes]],
    beat: Beat,
    *,
    homes: HomeFormat,
) -> Archive:
    """Have what is packed in an object, that was `found` or is written, and prove it."""
    if found is not None:
        expected = _Summed(packed())
        for _ in expected:
            pass
        with suppress(OperationFailed):
            return _proved(archives, found, expected.sha256, beat, homes)
    sent = archives.write(key, packed(), beat, found.etag if found else None)
    stored = archives.look(key)
    if stored is None or not _is_of(stored, sent):
        raise _unreadable("What was stored is not what was sent.")
    return _proved(archives, stored, sent.sha256, beat, homes)


def _proved(
    archives: Archives, stored: ArchiveObject, sha256: str | None, beat: Beat, homes: HomeFormat
) -> Archive:
    """Read the object back to its end, and note that it is whole; `sha256`: of what was sent, where that is known.

    Nothing here is terminal: the home may stand on its volume still.
    """
    chunks = _Summed(archives.read(stored.key, beat))
    try:
        homes.verify(chunks, beat)
    except OperationFailed as failed:
        raise _unreadable(failed.message) from failed
    archive = Archive(stored.key, chunks.size_bytes, chunks.sha256, stored.etag)
    if sha256 not in (None, archive.sha256) or not _is_of(stored, archive):
        raise _unreadable("What was read back is not what was sent.")
    if archives.look(stored.key) != stored:
        raise _unreadable("Another object stood there by the time that this one was read.")
    beat()
    archives.prove(archive)
    return archive


def _check_object(archives: Archives, archive: Archive) -> None:
    found = archives.look(archive.key)
    if found is None:
        raise OperationFailed(
            "ArchiveNotFound", "There is no object under the archive's key.", is_terminal=True
        )
    if not _is_of(found, archive):
        raise _corrupted("The archive is not the one that was proved.")


def _is_of(found: ArchiveObject, archive: Archive) -> bool:
    return (found.key, found.etag, found.size_bytes) == (archive.key, archive.etag, archive.size_bytes)


def _unreadable(message: str) -> OperationFailed:
    return OperationFailed("ArchiveUnreadable", message)


def _corrupted(message: str) -> OperationFailed:
    return OperationFailed("ArchiveCorrupted", message, is_terminal=True)
