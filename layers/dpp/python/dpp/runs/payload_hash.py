"""The payload hash of a submit (RUN-5): equal for two requests that buy the same."""

import hashlib
import json
from collections.abc import Mapping

from dpp.money.micros import format_usd


def payload_hash(pack_type: str, inputs: Mapping[str, object], timebox_sec: int, max_cost_usd_micros: int) -> str:
    """SHA-256, in hex, over canonical JSON: sorted names, no blanks, UTF-8.

    Amounts are compared by value ("0.25" equals "0.2500"), inputs as the client wrote them. The trace id, client
    version and options are left out, because they don't change what is bought; `artifacts` are part of the inputs.
    """
    canonical = json.dumps(
        {
            "pack_type": pack_type,
            "inputs": inputs,
            "timebox_sec": timebox_sec,
            "max_cost_usd": format_usd(max_cost_usd_micros),
        },
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()
