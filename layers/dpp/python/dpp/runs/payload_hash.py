"""The payload hash of a submit (RUN-5): what must be the same for two requests to be one."""

import hashlib
import json
from collections.abc import Mapping

from dpp.money.micros import format_usd


def payload_hash(
    pack_type: str, inputs: Mapping[str, object], timebox_sec: int, max_cost_usd_micros: int
) -> str:
    """SHA-256, in hex, over canonical JSON: names sorted, no blanks, UTF-8.

    Amounts count by value ("0.25" and "0.2500" are one), inputs as the client wrote them. Trace id, client
    version and options are left out: they change nothing about what is bought. (`artifacts` are part of the
    inputs of the packs that make any.)
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
