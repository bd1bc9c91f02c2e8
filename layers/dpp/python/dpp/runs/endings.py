"""The end of a run, as the metrics count it (docs/metrics.md). Pure: no clock, no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dpp.packs.contract import PackReason
from dpp.runs.machine import FinalizeStage, Reason, Status
from dpp.runs.model import Run


class ReasonClass(StrEnum):
    """Reason codes by who has to act on them, so that an alarm needs no list of codes."""

    NONE = "NONE"
    """Completed."""
    INPUTS = "INPUTS"
    """The client's inputs were invalid, or the result was less reliable than requested."""
    LIMIT = "LIMIT"
    """The pack exceeded its timebox, or a limit of memory, disk or output."""
    PACK = "PACK"
    """The pack failed or crashed."""
    PROVIDER = "PROVIDER"
    """A provider that the pack called failed."""
    PLATFORM = "PLATFORM"
    """A worker died, the queue did not deliver, a result was lost, or the ledger can't prove a charge."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one run. `outcome` is COMPLETED, FAILED or DISPUTED; amounts in USD micros."""

    outcome: str
    reason: ReasonClass
    charge_usd_micros: int
    refund_usd_micros: int


_CLASSES: Mapping[str, ReasonClass] = {
    PackReason.PACK_INPUTS_INVALID: ReasonClass.INPUTS,
    PackReason.PACK_NOT_AVAILABLE: ReasonClass.INPUTS,
    PackReason.PACK_RELIABILITY_BELOW_MINIMUM: ReasonClass.INPUTS,
    PackReason.PACK_COST_ABOVE_MAXIMUM: ReasonClass.INPUTS,
    PackReason.PACK_TIMEBOX_EXCEEDED: ReasonClass.LIMIT,
    PackReason.PACK_OUTPUT_TOO_LARGE: ReasonClass.LIMIT,
    PackReason.PACK_MEMORY_EXCEEDED: ReasonClass.LIMIT,
    PackReason.PACK_DISK_EXCEEDED: ReasonClass.LIMIT,
    PackReason.PACK_FAILED: ReasonClass.PACK,
    PackReason.PACK_CRASHED: ReasonClass.PACK,
    PackReason.PACK_CANCELLED: ReasonClass.PACK,
    PackReason.PACK_PROVIDER_FAILED: ReasonClass.PROVIDER,
    PackReason.PACK_PROVIDER_TIMEOUT: ReasonClass.PROVIDER,
    Reason.QUEUE_ENQUEUE_FAILED: ReasonClass.PLATFORM,
    Reason.WORKER_TIMEOUT: ReasonClass.PLATFORM,
    Reason.RESERVATION_EXPIRED: ReasonClass.PLATFORM,
    Reason.RESULT_MISSING: ReasonClass.PLATFORM,
    Reason.MESSAGE_DROPPED: ReasonClass.PLATFORM,
}


def ending_of(run: Run) -> Ending | None:
    """The end of a run that was just committed or disputed; None for any other change of a run."""
    if run.is_disputed:
        return Ending("DISPUTED", ReasonClass.PLATFORM, charge_usd_micros=0, refund_usd_micros=0)
    if run.finalize_stage != FinalizeStage.COMMITTED or run.status == Status.EXPIRED:
        return None
    charge = run.actual_cost_usd_micros or 0
    refund = run.reservation_max_cost_usd_micros - charge
    return Ending(str(run.status), reason_class(run.last_error_reason_code), charge, refund)


def reason_class(reason_code: str | None) -> ReasonClass:
    """The class of a reason code; PLATFORM for one without a class, so that an alarm shows it."""
    return ReasonClass.NONE if reason_code is None else _CLASSES.get(reason_code, ReasonClass.PLATFORM)
