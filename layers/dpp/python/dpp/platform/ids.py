"""Identifiers: random UUIDs for runs and tokens, trace ids taken from the client where they are fit."""

import re
from uuid import UUID, uuid4

TRACE_ID_PATTERN = r"[A-Za-z0-9_.:-]{1,64}"
_TRACE_ID = re.compile(TRACE_ID_PATTERN, re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def new_id() -> UUID:
    """A random UUID (version 4): nothing about the run can be guessed from it (RUN-11)."""
    return uuid4()


def trace_id_from(header: str | None) -> str:
    """The client's `X-Trace-Id` if it is 1–64 of `[A-Za-z0-9_.:-]`, else a new one."""
    return header if header and _TRACE_ID.fullmatch(header) else f"t_{uuid4().hex}"


def parse_uuid(text: str) -> UUID | None:
    """The UUID of its canonical text form; None for anything else, braces and URNs too."""
    return UUID(text) if _UUID.fullmatch(text) else None
