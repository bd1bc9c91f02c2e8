"""One zstd frame, compressed and read again in constant memory (RFC 8878).

Read strictly: the frame has a checksum of its content, it is the only one, it ends, and nothing follows it.
"""

from collections.abc import Iterator

import zstandard

from dpp.workspaces.ports import Beat
from dpp.workspaces.providers.tar_members import corrupted

_LEVEL = 3
_SLICE_BYTES = 512
"""A slice of a frame can become 128 KiB for every 4 bytes, so 16 MiB, whoever made it."""

_LONGEST_HEADER_BYTES = 18
_MAX_WINDOW_BYTES = 8 << 20


def compressed(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces as one frame."""
    frame = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()
    for piece in pieces:
        if done := frame.compress(piece):
            yield done
    yield frame.flush()


def decompressed(chunks: Iterator[bytes], beat: Beat) -> Iterator[bytes]:
    """A frame's content. Raises OperationFailed `ArchiveCorrupted`, at its very end where only its checksum tells."""
    frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
    head: bytes | None = b""
    for chunk in chunks:
        beat()
        if head is not None:
            head += chunk[:_LONGEST_HEADER_BYTES]
            if len(head) >= _LONGEST_HEADER_BYTES:
                _check(head)
                head = None
        for start in range(0, len(chunk), _SLICE_BYTES):
            try:  # it refuses what comes behind the frame, too
                content = frame.decompress(chunk[start : start + _SLICE_BYTES])
            except zstandard.ZstdError as cause:
                raise corrupted("The compressed frame is damaged.") from cause
            if content:
                yield content
    if head is not None:
        _check(head)
    if not frame.eof or frame.unused_data:
        raise corrupted("The compressed frame has no end, or one too early.")


def _check(head: bytes) -> None:
    try:
        frame = zstandard.get_frame_parameters(head)
    except zstandard.ZstdError as cause:
        raise corrupted("This is no compressed frame.") from cause
    if not frame.has_checksum:
        raise corrupted("The compressed frame has no checksum.")


class ZstdTape:
    """A frame's content as a tape: so many bytes at a time."""

    def __init__(self, chunks: Iterator[bytes], beat: Beat) -> None:
        self._content = decompressed(chunks, beat)
        self._buffer = bytearray()

    def exactly(self, size_bytes: int) -> bytes:
        """The next bytes. Raises OperationFailed `ArchiveCorrupted` where there are fewer."""
        while len(self._buffer) < size_bytes:
            piece = next(self._content, None)
            if piece is None:
                raise corrupted("The archive ends within a member.")
            self._buffer += piece
        taken = bytes(self._buffer[:size_bytes])
        del self._buffer[:size_bytes]
        return taken

    def rest(self) -> Iterator[bytes]:
        """All that is left, to the frame's end."""
        yield bytes(self._buffer)
        self._buffer.clear()
        yield from self._content
