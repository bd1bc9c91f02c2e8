"""The result envelope (RUN-18; 001 §9.3): UTF-8 JSON of at most 1 MiB, with locked members.

The largest members of `data` and `artifacts` of a larger envelope become parts, objects of their own. What stands in
the envelope for a part is `{"part": {"name", "sha256", "size_bytes"}}`.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from dpp.money.micros import format_usd, parse_usd
from dpp.packs.contract import PackFailure, PackReason, PackResult, PackSuccess
from dpp.runs.machine import Status
from dpp.runs.model import ResultPart, Run

SCHEMA_VERSION = "0.4.2.2"
MAX_ENVELOPE_BYTES = 1_048_576
_SECTIONS_OF_PARTS = ("data", "artifacts")
_PART_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_LEAST_PART_BYTES = 256
"""More than what stands in the envelope for a part, so that moving a part always saves space."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope to be stored, and the bodies of the parts that were moved out of it."""

    body: bytes
    sha256: str
    parts: Mapping[ResultPart, bytes]


@dataclass(frozen=True, slots=True)
class StoredEnvelope:
    """The parts of a stored envelope that reconcile needs."""

    sha256: str
    completed: bool
    used_usd_micros: int
    tokens_consumed: int
    parts: tuple[ResultPart, ...]


class EnvelopeRefused(ValueError):
    """The pack's result fits no envelope; the run fails with `reason` instead."""

    def __init__(self, reason: PackReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class EnvelopeUnreadable(ValueError):
    """The object at the envelope's key is not an envelope of this run."""


def build(run: Run, result: PackResult, charge_usd_micros: int) -> Envelope:
    """Build the envelope of a pack's result. `used_usd` is the charge, exact to four places.

    A failure's envelope has the problem beside what the pack found nevertheless. Raises EnvelopeRefused
    if the rest without parts exceeds 1 MiB, and for NaN or infinities; a failure without findings always fits.
    """
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.id,
        "pack_type": run.pack_type,
        "status": Status.COMPLETED if isinstance(result, PackSuccess) else Status.FAILED,
        "generated_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "cost": {
            "reserved_usd": format_usd(run.reservation_max_cost_usd_micros),
            "used_usd": format_usd(charge_usd_micros),
            "minimum_fee_usd": format_usd(run.minimum_fee_usd_micros),
        },
        **_parts(result),
        "meta": _meta(run, result),
    }
    body = _json(document)
    parts: dict[ResultPart, bytes] = {}
    if len(body) > MAX_ENVELOPE_BYTES:
        parts = _move_parts(document, len(body))
        body = _json(document)
    if len(body) > MAX_ENVELOPE_BYTES:
        raise EnvelopeRefused(PackReason.PACK_OUTPUT_TOO_LARGE, "The envelope exceeds 1 MiB even without its parts.")
    return Envelope(body, hashlib.sha256(body).hexdigest(), parts)


def _json(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except ValueError:
        raise EnvelopeRefused(PackReason.PACK_FAILED, "The result contains a number that JSON can't hold.") from None


def _move_parts(document: dict[str, Any], size_bytes: int) -> dict[ResultPart, bytes]:
    """Replace members of the document, the largest first, until it fits; return what was moved."""
    members = [
        (section, member, _json(value))
        for section in _SECTIONS_OF_PARTS
        for member, value in document[section].items()
        if _PART_NAME.fullmatch(member)
    ]
    parts = {}
    for section, member, body in sorted(members, key=lambda found: len(found[2]), reverse=True):
        if size_bytes <= MAX_ENVELOPE_BYTES or len(body) <= _LEAST_PART_BYTES:
            break
        part = ResultPart(f"{section}.{member}", hashlib.sha256(body).hexdigest(), len(body))
        parts[part] = body
        document[section] = document[section] | {member: {"part": asdict(part)}}
        size_bytes -= len(body) - _LEAST_PART_BYTES
    return parts


def _parts(result: PackResult) -> dict[str, object]:
    data: dict[str, object] = dict(result.data)
    if isinstance(result, PackFailure):
        data["problem"] = {"reason_code": result.reason_code, "detail": result.detail}
    logs = {"discard_log": result.discard_log, "blocked_log": result.blocked_log}
    return {"data": data, "artifacts": result.artifacts, "logs": logs}


def _meta(run: Run, result: PackResult) -> dict[str, object]:
    meta = {"trace_id": run.trace_id, "profile_version": run.profile_version, "tokens_consumed": result.tokens_consumed}
    return meta if result.reliability_score is None else meta | {"reliability_score": result.reliability_score}


def read_stored(run: Run, body: bytes) -> StoredEnvelope:
    """Read an envelope that was found in S3. Raises EnvelopeUnreadable."""
    try:
        document = json.loads(body)
        cost = document["cost"]
        if document["run_id"] != run.id or not isinstance(cost, Mapping):
            raise EnvelopeUnreadable("the envelope belongs to another run")
        used, completed = parse_usd(cost["used_usd"]), document["status"] == Status.COMPLETED
        tokens = int(document["meta"].get("tokens_consumed", 0))
        parts = tuple(
            ResultPart(**member["part"])
            for section in _SECTIONS_OF_PARTS
            for member in document[section].values()
            if isinstance(member, dict) and member.keys() == {"part"}
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvelopeUnreadable(type(error).__name__) from None
    return StoredEnvelope(hashlib.sha256(body).hexdigest(), completed, used, tokens, parts)
