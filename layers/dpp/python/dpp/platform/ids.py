"""Identifiers: random UUIDs for runs and tokens, and trace ids, which a client may supply."""

import re
from uuid import UUID, uuid4

TRACE_ID_PATTERN = r"[A-Za-z0-9_.:-]{1,64}"
_TRACE_ID = re.compile(TRACE_ID_PATTERN, re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def new_id() -> UUID:
    """A random UUID (version 4), which reveals nothing about the run (RUN-11)."""
    return uuid4()


def trace_id_from(header: str | None) -> str:
    """The client's `X-Trace-Id` if it has 1–64 of `[A-Za-z0-9_.:-]`, otherwise a new one."""
    return header if header and _TRACE_ID.fullmatch(header) else f"t_{uuid4().hex}"


def parse_uuid(text: str) -> UUID | None:
    """The UUID in its canonical text form; None for any other text, braces and URNs included."""
    return UUID(text) if _UUID.fullmatch(text) else None
