"""Compress to one zstd frame and decompress it, in constant memory (RFC 8878).

Decompression is strict: there must be exactly one complete frame, with a checksum, and nothing after it.
"""

from collections.abc import Iterator

import zstandard

from dpp.workspaces.ports import Heartbeat
from dpp.workspaces.providers.tar_members import corrupted

_LEVEL = 3
_SLICE_BYTES = 512
"""Limits memory: 4 bytes of any frame decompress to at most 128 KiB, so a slice to at most 16 MiB."""

_LONGEST_HEADER_BYTES = 18
_MAX_WINDOW_BYTES = 8 << 20


def compressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Compress the pieces to one frame."""
    frame = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()
    for piece in pieces:
        if done := frame.compress(piece):
            yield done
    yield frame.flush()


def decompressed(chunks: Iterator[bytes], heartbeat: Heartbeat) -> Iterator[bytes]:
    """Decompress a frame. Raises OperationFailed `ArchiveCorrupted`, possibly only at the end, by the checksum."""
    frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
    head: bytes | None = b""
    for chunk in chunks:
        heartbeat()
        if head is not None:
            head += chunk[:_LONGEST_HEADER_BYTES]
            if len(head) >= _LONGEST_HEADER_BYTES:
                _check(head)
                head = None
        for start in range(0, len(chunk), _SLICE_BYTES):
            try:  # also raises for bytes after the frame
                content = frame.decompress(chunk[start : start + _SLICE_BYTES])
            except zstandard.ZstdError as cause:
                raise corrupted("The compressed frame is damaged.") from cause
            if content:
                yield content
    if head is not None:
        _check(head)
    if not frame.eof or frame.unused_data:
        raise corrupted("The compressed frame is incomplete, or something follows it.")


def _check(head: bytes) -> None:
    try:
        frame = zstandard.get_frame_parameters(head)
    except zstandard.ZstdError as cause:
        raise corrupted("The archive is not a compressed frame.") from cause
    if not frame.has_checksum:
        raise corrupted("The compressed frame has no checksum.")


class ZstdReader:
    """Reads the content of a frame (tar_members.ByteReader)."""

    def __init__(self, chunks: Iterator[bytes], heartbeat: Heartbeat) -> None:
        self._content = decompressed(chunks, heartbeat)
        self._buffer = bytearray()

    def read_exactly(self, size_bytes: int) -> bytes:
        """Read this many bytes. Raises OperationFailed `ArchiveCorrupted` if there are fewer."""
        while len(self._buffer) < size_bytes:
            piece = next(self._content, None)
            if piece is None:
                raise corrupted("The archive ends within a member.")
            self._buffer += piece
        taken = bytes(self._buffer[:size_bytes])
        del self._buffer[:size_bytes]
        return taken

    def read_rest(self) -> Iterator[bytes]:
        """Read all remaining bytes, to the end of the frame."""
        yield bytes(self._buffer)
        self._buffer.clear()
        yield from self._content
