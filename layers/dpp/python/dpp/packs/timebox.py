"""Tells when a pack has to be done."""

import time

from dpp.packs.contract import PackRequest


def deadline_of(request: PackRequest, *, reserve_seconds: float, reserve_share: float) -> float:
    """The end (`time.monotonic()`) of the pack's work, if the timebox begins now.

    The rest is reserved for handing over the result: `reserve_seconds`, but at most `reserve_share` of the timebox.
    """
    reserve = min(reserve_seconds, reserve_share * request.timebox_sec)
    return time.monotonic() + request.timebox_sec - reserve
