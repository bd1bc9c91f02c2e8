"""The members of a home's tar, in exactly the form that `header_of` writes (POSIX.1-2001 pax, ustar headers).

tarfile writes and reads single headers only. It is not used for whole archives, since it takes an unreadable header for
the end, keeps times as floats, and accepts an archive without an end.
"""

import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from dpp.workspaces.errors import OperationFailed

BLOCK_BYTES = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK_BYTES)
"""The two zero blocks that end an archive."""

ROOT = "."
LINKED = "DPP.linked"
"""The pax key that marks a file with later hard links; a reader has to remember only these files."""

_ENCODING, _ERRORS = "utf-8", "surrogateescape"
_BINARY = "hdrcharset"
_MAX_PAX_BYTES = 1 << 20
_NAME_MAX_BYTES = 255
_MAX_SIZE_BYTES = 2**63 - 1
_MAX_OWNER = 2**32 - 2  # the next number means: keep the owner (chown(2))
_NANOSECONDS = 10**9
_KNOWN = frozenset({"path", "linkpath", "size", "uid", "gid", "mtime", LINKED, _BINARY})
_MTIME = re.compile(r"(-?)([0-9]{1,18})(?:\.([0-9]{1,9}))?")
_NUMBER = re.compile(r"[0-9]{1,20}")


class Kind(Enum):
    """The kind of a member, by the type in its header."""

    FILE = tarfile.REGTYPE
    HARD_LINK = tarfile.LNKTYPE
    SYMLINK = tarfile.SYMTYPE
    FOLDER = tarfile.DIRTYPE


@dataclass(frozen=True, slots=True)
class Member:
    """A file, folder or link of a home. `names`: its path from the root; empty for the root itself.

    `target`: the text of a symlink, or the path of a hard link's file. `is_linked`: hard links to this file follow.
    """

    kind: Kind
    names: tuple[str, ...]
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size_bytes: int = 0
    target: str = ""
    is_linked: bool = False


class ByteReader(Protocol):
    """The source of an uncompressed tar."""

    def read_exactly(self, size_bytes: int) -> bytes:
        """Read this many bytes. Raises OperationFailed `ArchiveCorrupted` if there are fewer."""
        ...

    def read_rest(self) -> Iterator[bytes]:
        """Read all remaining bytes."""
        ...


def refused(message: str) -> OperationFailed:
    """The error for an intact archive whose content is not allowed in a home."""
    return OperationFailed("ArchiveRefused", message, is_terminal=True)


def corrupted(message: str) -> OperationFailed:
    """The error for a damaged archive."""
    return OperationFailed("ArchiveCorrupted", message, is_terminal=True)


def header_of(member: Member) -> bytes:
    """The header blocks of a member."""
    info = tarfile.TarInfo("/".join(member.names) or ROOT)
    info.type, info.mode, info.uid, info.gid = member.kind.value, member.mode, member.uid, member.gid
    info.size, info.linkname = member.size_bytes, member.target
    info.mtime = max(0, member.mtime_ns // _NANOSECONDS)
    info.pax_headers = {"mtime": _decimal(member.mtime_ns)}
    if member.is_linked:
        info.pax_headers[LINKED] = "1"
    return info.tobuf(tarfile.PAX_FORMAT, _ENCODING, _ERRORS)


def padding_of(size_bytes: int) -> bytes:
    """The padding of a content's last block."""
    return bytes(-size_bytes % BLOCK_BYTES)


def next_member(reader: ByteReader) -> Member | None:
    """Read the next member, without its content; None at the end of the archive, which nothing may follow.

    Raises OperationFailed `ArchiveCorrupted` or `ArchiveRefused`.
    """
    info = _header(reader)
    if info is None:
        return None
    pax: Mapping[str, str] = {}
    if info.type == tarfile.XHDTYPE:
        pax = _pax_of(reader, info.size)
        info = _header(reader)
        if info is None:
            raise corrupted("The archive ends within a member.")
    return _member(info, pax)


def _header(reader: ByteReader) -> tarfile.TarInfo | None:
    block = reader.read_exactly(BLOCK_BYTES)
    if not any(block):
        if any(reader.read_exactly(BLOCK_BYTES)) or any(piece.strip(b"\0") for piece in reader.read_rest()):
            raise corrupted("The archive has content after its end.")
        return None
    try:
        return tarfile.TarInfo.frombuf(block, _ENCODING, _ERRORS)
    except tarfile.HeaderError as cause:
        raise corrupted("The header of a member is damaged.") from cause


def _pax_of(reader: ByteReader, size_bytes: int) -> dict[str, str]:
    if not 0 < size_bytes <= _MAX_PAX_BYTES:
        raise corrupted("An extended header is empty or too large.")
    data = reader.read_exactly(size_bytes)
    skip_padding(reader, size_bytes)
    records: dict[str, str] = {}
    while data:
        digits, _, _ = data[:20].partition(b" ")
        length = int(digits) if digits.isdigit() else 0
        record = data[len(digits) + 1 : length]
        key, is_there, value = record.partition(b"=")
        if length > len(data) or not is_there or not record.endswith(b"\n"):
            raise corrupted("An extended header is damaged.")
        name = key.decode(_ENCODING, _ERRORS)
        if name not in _KNOWN or name in records:
            raise refused("An extended header has a key that is not allowed.")
        records[name] = value[:-1].decode(_ENCODING, _ERRORS)
        data = data[length:]
    return records


def skip_padding(reader: ByteReader, size_bytes: int) -> None:
    """Skip the padding of a content's last block, which must be zero."""
    if any(reader.read_exactly(-size_bytes % BLOCK_BYTES)):
        raise corrupted("The archive has content between two members.")


def _member(info: tarfile.TarInfo, pax: Mapping[str, str]) -> Member:
    try:
        kind = Kind(info.type)
    except ValueError:
        raise refused("A member is neither a file nor a folder nor a link.") from None
    target = pax.get("linkpath", info.linkname)
    size_bytes = _number(pax, "size", info.size, _MAX_SIZE_BYTES)
    if kind is not Kind.FILE and size_bytes:
        raise refused("A member that is not a file has content.")
    if kind in (Kind.SYMLINK, Kind.HARD_LINK) and (not target or "\0" in target):
        raise refused("A link has no valid target.")
    return Member(
        kind=kind,
        names=names_of(pax.get("path", info.name).removesuffix("/" if kind is Kind.FOLDER else "")),
        mode=info.mode & 0o7777,
        uid=_number(pax, "uid", info.uid, _MAX_OWNER),
        gid=_number(pax, "gid", info.gid, _MAX_OWNER),
        mtime_ns=_nanoseconds(pax["mtime"]) if "mtime" in pax else int(info.mtime) * _NANOSECONDS,
        size_bytes=size_bytes,
        target=target,
        is_linked=LINKED in pax,
    )


def names_of(path: str) -> tuple[str, ...]:
    """Split a member's path. Raises OperationFailed `ArchiveRefused` for a path that could lead out of the home."""
    if path == ROOT:
        return ()
    names = tuple(path.split("/"))
    for name in names:
        if name in ("", ".", "..") or "\0" in name or len(name.encode(_ENCODING, _ERRORS)) > _NAME_MAX_BYTES:
            raise refused("The name of a member is not allowed in a home.")
    return names


def _number(pax: Mapping[str, str], key: str, default: int, maximum: int) -> int:
    digits = pax.get(key, str(default))
    if not _NUMBER.fullmatch(digits) or int(digits) > maximum:
        raise corrupted("A header has an invalid number.")
    return int(digits)


def _decimal(nanoseconds: int) -> str:
    seconds, rest = divmod(abs(nanoseconds), _NANOSECONDS)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}.{rest:09}"


def _nanoseconds(decimal: str) -> int:
    found = _MTIME.fullmatch(decimal)
    if found is None:
        raise corrupted("An extended header has an invalid time.")
    sign, seconds, rest = found.groups()
    exact = int(seconds) * _NANOSECONDS + int((rest or "").ljust(9, "0"))
    return -exact if sign else exact
