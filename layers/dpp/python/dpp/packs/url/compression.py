"""Decompresses bodies piece by piece, never beyond a bound (RUN-26, RFC 9110 §8.4.1).

As browsers do: what stands behind the end of the compressed data is ignored, and what a cut or damaged stream
contained up to there is kept.
"""

import zlib
from collections.abc import Callable
from typing import Protocol

import zstandard

from dpp.packs.url.reasons import Discard, DiscardedError

ACCEPTED = b"gzip, br, zstd"
_PIECE_BYTES = 256
"""A zstd block of four bytes stands for 128 KB, so a piece becomes 8 MB at most."""
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
"""The largest window that a server may use (RFC 9659)."""


_MAX_MEMBERS = 1_000
"""Of a gzip or zstd body; a stream of nothing but empty members ends here."""


class _Member(Protocol):
    """One gzip member, brotli stream or zstd frame."""

    def feed(self, piece: bytes, room: int) -> bytes:
        """The data that `piece` decodes to; beyond `room` bytes there may be less of it. Raises _BrokenError."""

    @property
    def rest(self) -> bytes | None:
        """The data behind the member's end; None before its end."""


class _BrokenError(Exception):
    """The data is not what it should be; `decoded` is what the last piece contained before the fault."""

    def __init__(self, decoded: bytes = b"") -> None:
        super().__init__()
        self.decoded = decoded


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def feed(self, piece: bytes, room: int) -> bytes:
        before = self._stream.copy()
        try:
            return self._stream.decompress(piece, room)
        except zlib.error:
            # The call that fails returns nothing, so what precedes the fault is read byte by byte.
            decoded = b""
            for at in range(len(piece)):
                try:
                    decoded += before.decompress(piece[at : at + 1], max(1, room - len(decoded)))
                except zlib.error:
                    break
            raise _BrokenError(decoded) from None

    @property
    def rest(self) -> bytes | None:
        return self._stream.unused_data if self._stream.eof else None


class _Brotli:
    def __init__(self) -> None:
        import brotli  # noqa: PLC0415 - in the layer that only the functions with this pack have

        self._new = brotli.Decompressor
        self._error = brotli.error
        self._stream = self._new()
        self._fed: list[bytes] = []

    def feed(self, piece: bytes, room: int) -> bytes:
        try:
            decoded = bytes(self._stream.process(piece, output_buffer_limit=room))
        except self._error:
            return self._byte_by_byte(piece, room)
        self._fed.append(piece)
        return decoded

    def _byte_by_byte(self, piece: bytes, room: int) -> bytes:
        """Read again up to the fault or the end: the call that fails returns nothing, also for data behind the end."""
        self._stream, decoded = self._new(), b""
        for earlier in self._fed:
            self._stream.process(earlier)
        for at in range(len(piece)):
            try:
                decoded += self._stream.process(piece[at : at + 1], output_buffer_limit=max(1, room - len(decoded)))
            except self._error:
                raise _BrokenError(decoded) from None
            if self._stream.is_finished():
                break
        return decoded

    @property
    def rest(self) -> bytes | None:
        return b"" if self._stream.is_finished() else None


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES).decompressobj()

    def feed(self, piece: bytes, room: int) -> bytes:  # noqa: ARG002 - bounded by the piece
        try:
            return self._stream.decompress(piece)
        except zstandard.ZstdError:
            raise _BrokenError from None

    @property
    def rest(self) -> bytes | None:
        return self._stream.unused_data if self._stream.eof else None


class Decoder:
    """Decodes a body chunk by chunk. `cut` says whether the data so far lacks its end or is damaged."""

    def __init__(self, new_member: Callable[[], _Member] | None, *, max_members: int = _MAX_MEMBERS) -> None:
        self._new_member = new_member
        self._max_members = max_members
        self._member: _Member | None = None
        self._members = 0
        self._decoded = 0
        self._of_member = 0
        self._over = False
        self.cut = False

    def feed(self, chunk: bytes, room: int) -> bytes:
        """Decode the next chunk to at most `room` bytes.

        Raises DiscardedError with PROTOCOL_ERROR if the body is not compressed as it says.
        """
        if self._new_member is None:
            return chunk[:room]
        decoded = bytearray()
        for at in range(0, len(chunk), _PIECE_BYTES):
            piece = chunk[at : at + _PIECE_BYTES]
            while piece and not self._over and len(decoded) < room:
                part, piece = self._fed(self._new_member, piece, room - len(decoded))
                decoded += part
                self._decoded += len(part)
        return bytes(decoded[:room])

    def _fed(self, new_member: Callable[[], _Member], piece: bytes, room: int) -> tuple[bytes, bytes]:
        """The data that `piece` decodes to within the current member or a new one, and what is left of it."""
        if self._member is None:
            if self._members == self._max_members:
                self._over, self.cut = True, self._max_members > 1
                return b"", b""
            self._member, self._of_member = new_member(), 0
            self._members += 1
        try:
            part = self._member.feed(piece, room)
            rest = self._member.rest
        except _BrokenError as error:
            if self._members == 1 and not (self._decoded or error.decoded):
                raise DiscardedError(Discard.PROTOCOL_ERROR) from None
            part, rest, self._over = error.decoded, None, True
        self._of_member += len(part)
        # What begins like another member and yields nothing is none.
        self.cut = rest is None and (self._members == 1 or self._of_member > 0)
        if rest is not None:
            self._member = None
        return part, rest or b""


def decoder(content_encoding: str) -> Decoder:
    """Return the decoder of a Content-Encoding. Raises DiscardedError for one that was not offered."""
    match content_encoding.strip().lower():
        case "" | "identity":
            return Decoder(None)
        case "gzip" | "x-gzip":
            return Decoder(_Gzip)
        case "br":
            return Decoder(_Brotli, max_members=1)  # streams are not concatenated
        case "zstd":
            return Decoder(_Zstd)
        case _:
            # One encoding at a time: gzip in gzip is how small bombs get large.
            raise DiscardedError(Discard.UNSUPPORTED_ENCODING)
