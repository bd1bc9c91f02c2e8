"""The members of a home's tar, exactly as we write them and nothing else (POSIX.1-2001 pax, ustar headers).

tarfile makes and reads the blocks; it is not trusted with a whole archive, since it takes a header that it can't read
for the end, keeps times as floats, and would accept an archive without an end.
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
"""The two empty blocks that an archive ends with."""

ROOT = "."
LINKED = "DPP.linked"
"""The pax key of a file that later members are hard links to; a reader need remember no other."""

_ENCODING, _ERRORS = "utf-8", "surrogateescape"
_BINARY = "hdrcharset"
_MAX_PAX_BYTES = 1 << 20
_NAME_MAX_BYTES = 255
_MAX_SIZE_BYTES = 2**63 - 1
_MAX_OWNER = 2**32 - 2  # the number behind it means: leave the owner as it is (chown(2))
_NANOSECONDS = 10**9
_KNOWN = frozenset({"path", "linkpath", "size", "uid", "gid", "mtime", LINKED, _BINARY})
_MTIME = re.compile(r"(-?)([0-9]{1,18})(?:\.([0-9]{1,9}))?")
_NUMBER = re.compile(r"[0-9]{1,20}")


class Kind(Enum):
    """What a member is, by its type in the header."""

    FILE = tarfile.REGTYPE
    HARD_LINK = tarfile.LNKTYPE
    SYMLINK = tarfile.SYMTYPE
    FOLDER = tarfile.DIRTYPE


@dataclass(frozen=True, slots=True)
class Member:
    """One file, folder or link of a home. `names`: the way to it from the root, whose own are none.

    `target`: a symlink's text, or the file that a hard link is another name of. `is_linked`: hard links to it follow.
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


class Tape(Protocol):
    """What members are read from."""

    def exactly(self, size_bytes: int) -> bytes:
        """The next bytes. Raises OperationFailed `ArchiveCorrupted` where there are fewer."""
        ...

    def rest(self) -> Iterator[bytes]:
        """All that is left."""
        ...


def refused(message: str) -> OperationFailed:
    """An archive that is whole and holds what no home of ours may."""
    return OperationFailed("ArchiveRefused", message, is_terminal=True)


def corrupted(message: str) -> OperationFailed:
    """An archive that is not what was stored."""
    return OperationFailed("ArchiveCorrupted", message, is_terminal=True)


def header_of(member: Member) -> bytes:
    """The blocks before a member's content."""
    info = tarfile.TarInfo("/".join(member.names) or ROOT)
    info.type, info.mode, info.uid, info.gid = member.kind.value, member.mode, member.uid, member.gid
    info.size, info.linkname = member.size_bytes, member.target
    info.mtime = max(0, member.mtime_ns // _NANOSECONDS)
    info.pax_headers = {"mtime": _decimal(member.mtime_ns)}
    if member.is_linked:
        info.pax_headers[LINKED] = "1"
    return info.tobuf(tarfile.PAX_FORMAT, _ENCODING, _ERRORS)


def padding_of(size_bytes: int) -> bytes:
    """What fills a content's last block."""
    return bytes(-size_bytes % BLOCK_BYTES)


def next_member(tape: Tape) -> Member | None:
    """The next member, its content still on the tape; None at the archive's end, after which there is nothing.

    Raises OperationFailed `ArchiveCorrupted` or `ArchiveRefused`.
    """
    info = _header(tape)
    if info is None:
        return None
    pax: Mapping[str, str] = {}
    if info.type == tarfile.XHDTYPE:
        pax = _pax_of(tape, info.size)
        info = _header(tape)
        if info is None:
            raise corrupted("The archive ends within a member.")
    return _member(info, pax)


def _header(tape: Tape) -> tarfile.TarInfo | None:
    block = tape.exactly(BLOCK_BYTES)
    if not any(block):
        if any(tape.exactly(BLOCK_BYTES)) or any(piece.strip(b"\0") for piece in tape.rest()):
            raise corrupted("Something stands behind the archive's end.")
        return None
    try:
        return tarfile.TarInfo.frombuf(block, _ENCODING, _ERRORS)
    except tarfile.HeaderError as cause:
        raise corrupted("A member's header is damaged.") from cause


def _pax_of(tape: Tape, size_bytes: int) -> dict[str, str]:
    if not 0 < size_bytes <= _MAX_PAX_BYTES:
        raise corrupted("An extended header is empty or out of all proportion.")
    data = tape.exactly(size_bytes)
    skip_padding(tape, size_bytes)
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
            raise refused("An extended header says what no home's does.")
        records[name] = value[:-1].decode(_ENCODING, _ERRORS)
        data = data[length:]
    return records


def skip_padding(tape: Tape, size_bytes: int) -> None:
    """Pass the rest of a content's last block, which must be empty."""
    if any(tape.exactly(-size_bytes % BLOCK_BYTES)):
        raise corrupted("Something stands between two members.")


def _member(info: tarfile.TarInfo, pax: Mapping[str, str]) -> Member:
    try:
        kind = Kind(info.type)
    except ValueError:
        raise refused("A member is neither file, folder nor link.") from None
    target = pax.get("linkpath", info.linkname)
    size_bytes = _number(pax, "size", info.size, _MAX_SIZE_BYTES)
    if kind is not Kind.FILE and size_bytes:
        raise refused("A member has a content that its kind can't have.")
    if kind in (Kind.SYMLINK, Kind.HARD_LINK) and (not target or "\0" in target):
        raise refused("A link leads to nothing.")
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
    """A member's way from the root. Raises OperationFailed `ArchiveRefused` for one that could lead out of it."""
    if path == ROOT:
        return ()
    names = tuple(path.split("/"))
    for name in names:
        if name in ("", ".", "..") or "\0" in name or len(name.encode(_ENCODING, _ERRORS)) > _NAME_MAX_BYTES:
            raise refused("A member's name is not one of a file in a home.")
    return names


def _number(pax: Mapping[str, str], key: str, otherwise: int, most: int) -> int:
    digits = pax.get(key, str(otherwise))
    if not _NUMBER.fullmatch(digits) or int(digits) > most:
        raise corrupted("A header has no number where one belongs, or one that can't be.")
    return int(digits)


def _decimal(nanoseconds: int) -> str:
    seconds, rest = divmod(abs(nanoseconds), _NANOSECONDS)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}.{rest:09}"


def _nanoseconds(decimal: str) -> int:
    found = _MTIME.fullmatch(decimal)
    if found is None:
        raise corrupted("An extended header has no time where one belongs.")
    sign, seconds, rest = found.groups()
    exact = int(seconds) * _NANOSECONDS + int((rest or "").ljust(9, "0"))
    return -exact if sign else exact
