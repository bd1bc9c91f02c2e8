"""The result envelope (RUN-18; 001 §9.3): UTF-8 JSON of at most 1 MiB, with locked members."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from dpp.money.micros import format_usd, parse_usd
from dpp.packs.contract import PackReason, PackResult, PackSuccess
from dpp.runs.machine import Status
from dpp.runs.model import Run

SCHEMA_VERSION = "0.4.2.2"
MAX_ENVELOPE_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class Envelope:
    """An envelope to be stored."""

    body: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class StoredEnvelope:
    """The parts of a stored envelope that reconcile needs."""

    sha256: str
    completed: bool
    used_usd_micros: int


class EnvelopeRefused(ValueError):
    """The pack's result fits no envelope; the run fails with `reason` instead."""

    def __init__(self, reason: PackReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class EnvelopeUnreadable(ValueError):
    """The object at the envelope's key is not an envelope of this run."""


def build(run: Run, result: PackResult, charge_usd_micros: int) -> Envelope:
    """Build the envelope of a pack's result. `used_usd` is the charge, exact to four places.

    Raises EnvelopeRefused above 1 MiB and for NaN or infinities. A failure always fits.
    """
    document = {
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
    try:
        body = json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    except ValueError:
        raise EnvelopeRefused(PackReason.PACK_FAILED, "The result contains a number that JSON can't hold.") from None
    if len(body) > MAX_ENVELOPE_BYTES:
        raise EnvelopeRefused(PackReason.PACK_OUTPUT_TOO_LARGE, "The envelope exceeds 1 MiB.")
    return Envelope(body, hashlib.sha256(body).hexdigest())


def _parts(result: PackResult) -> dict[str, object]:
    if isinstance(result, PackSuccess):
        logs = {"discard_log": result.discard_log, "blocked_log": result.blocked_log}
        return {"data": result.data, "artifacts": result.artifacts, "logs": logs}
    problem = {"reason_code": result.reason_code, "detail": result.detail}
    return {"data": {"problem": problem}, "artifacts": {}, "logs": {"discard_log": [], "blocked_log": []}}


def _meta(run: Run, result: PackResult) -> dict[str, object]:
    meta: dict[str, object] = {"trace_id": run.trace_id, "profile_version": run.profile_version}
    # If the result was not reliable enough, the problem's detail has its score.
    return meta | {"reliability_score": result.reliability_score} if isinstance(result, PackSuccess) else meta


def read_stored(run: Run, body: bytes) -> StoredEnvelope:
    """Read an envelope that was found in S3. Raises EnvelopeUnreadable."""
    try:
        document = json.loads(body)
        cost = document["cost"]
        if document["run_id"] != run.id or not isinstance(cost, Mapping):
            raise EnvelopeUnreadable("the envelope belongs to another run")
        used, completed = parse_usd(cost["used_usd"]), document["status"] == Status.COMPLETED
    except (ValueError, KeyError, TypeError) as error:
        raise EnvelopeUnreadable(type(error).__name__) from None
    return StoredEnvelope(hashlib.sha256(body).hexdigest(), completed, used)
