"""Read a run (RUN-10, RUN-11, RUN-12): one Redis call, one row, and for a result one signed URL or one object."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dpp.money.ledger import Ledger
from dpp.platform.aws.signing import PresignedUrl
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.db.postgres import Database
from dpp.platform.db.rate_limit import RateState
from dpp.platform.errors import StorageUnavailable
from dpp.platform.ids import parse_uuid
from dpp.platform.keys.api_keys import Caller
from dpp.runs import admission, store
from dpp.runs.api.contract import INLINE_LIMIT_BYTES, PRESIGNED_URL_TTL_SECONDS
from dpp.runs.errors import RateLimited, RunExpired, RunNotFound
from dpp.runs.machine import Status
from dpp.runs.model import Costs, ResultPart, ResultPointer, Run

_NO_RUN = UUID(int=0)


@dataclass(frozen=True, slots=True)
class ReadEffects:
    """Connections and clients that a read uses."""

    database: Database
    ledger: Ledger
    storage: ObjectStore


@dataclass(frozen=True, slots=True)
class Result:
    """An ended run's envelope: its URL, and the envelope itself if it was requested and is small."""

    pointer: ResultPointer
    url: PresignedUrl
    part_urls: Mapping[ResultPart, PresignedUrl]
    inline: dict[str, Any] | None
    inline_too_large: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A run of the caller, with the figures of the response's headers."""

    run: Run
    costs: Costs
    rate: RateState
    result: Result | None


def read(run_id: str, caller: Caller, effects: ReadEffects) -> Found:
    """Read the caller's run. Raises RateLimited, RunExpired, and RunNotFound for an unknown, foreign or malformed id.

    A malformed id is looked up too, as an id that no run has, so that its response takes as long (D13).
    """
    seen = admission.observe(effects.ledger, caller)
    balance = Costs(budget_remaining_usd_micros=seen.balance_usd_micros)
    if not seen.allowed:
        raise RateLimited(rate=seen.rate, costs=balance)
    wanted = parse_uuid(run_id) or _NO_RUN
    found = effects.database.using(store.find_for_owner, caller.tenant_id, wanted)
    if found is None:
        raise RunNotFound(rate=seen.rate, costs=balance)
    run, is_past_retention = found
    costs = Costs.of(run, seen.balance_usd_micros)
    if is_past_retention or run.status == Status.EXPIRED:
        raise RunExpired(run_id=run.id, rate=seen.rate, costs=costs)
    return Found(run, costs, seen.rate, _result_of(run, effects.storage))


def _result_of(run: Run, storage: ObjectStore) -> Result | None:
    pointer = run.result
    if run.status not in {Status.COMPLETED, Status.FAILED} or pointer is None:
        return None
    url = storage.presign_get(pointer.key, PRESIGNED_URL_TTL_SECONDS)
    part_urls = {part: storage.presign_get(pointer.part_key(part), PRESIGNED_URL_TTL_SECONDS) for part in pointer.parts}
    if not run.inline_result:
        return Result(pointer, url, part_urls, None, inline_too_large=False)
    body = storage.get(pointer.key)
    if body is None:
        raise StorageUnavailable(f"the envelope of run {run.id} is missing")
    too_large = len(body) > INLINE_LIMIT_BYTES
    return Result(pointer, url, part_urls, None if too_large else json.loads(body), inline_too_large=too_large)
