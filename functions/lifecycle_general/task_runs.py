"""Task runs: runs of the decision pack, submitted like any other and paid for by the tenant of tasks.

An attempt's key is the run's idempotency key, so an attempt that is sent again returns the same run (RUN-4). Reading a
run counts against neither rate limit nor balance.
"""

import hashlib
import json
from uuid import UUID

from pydantic import ValidationError

from dpp.lifecycle.config import TaskSettings
from dpp.lifecycle.flow.errors import TaskRunRefused, TaskRunsUnavailable
from dpp.lifecycle.flow.ports import TaskRunReport, TaskRunRequest, TaskRunState
from dpp.money.ledger import LedgerError
from dpp.money.micros import format_usd
from dpp.packs.contract import PackReason, PackType
from dpp.packs.registry import INPUT_MODELS
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.keys import api_keys
from dpp.platform.keys.api_keys import Caller
from dpp.runs import store
from dpp.runs.api.contract import PROFILE_VERSION
from dpp.runs.errors import (
    EnqueueFailed,
    ExecutionDisabled,
    IdempotencyInProgress,
    InsufficientBudget,
    RateLimited,
    RunsError,
)
from dpp.runs.machine import Reason, Status
from dpp.runs.model import Run, SubmitRequest
from dpp.runs.submit import SubmitEffects, submit

_TEMPORARY = (InsufficientBudget, RateLimited, ExecutionDisabled, IdempotencyInProgress, EnqueueFailed)
DAMAGED = "RESULT_DAMAGED"
_STATES = {Status.COMPLETED: TaskRunState.SUCCEEDED, Status.FAILED: TaskRunState.FAILED}


class PipelineTaskRuns:
    """Task runs in the run pipeline."""

    def __init__(self, submits: SubmitEffects, results: ObjectStore, settings: TaskSettings) -> None:
        self._submits = submits
        self._results = results
        self._settings = settings

    def send(self, task: TaskRunRequest) -> UUID:
        """Submit a run and return its id. Raises TaskRunRefused, TaskRunsUnavailable, DependencyUnavailable."""
        request = self._request(task)
        try:
            return submit(request, self._submits).run.run_id
        except _TEMPORARY as error:
            raise TaskRunsUnavailable(str(error)) from None
        except RunsError as error:
            raise TaskRunRefused(str(error)) from None
        except LedgerError:
            raise TaskRunRefused("the ledger refused the amount") from None

    def report(self, run_id: UUID) -> TaskRunReport | None:
        """Report on a run; None past its retention (D7). Raises PostgresUnavailable, StorageUnavailable."""
        found = self._submits.database.using(store.find_for_owner, self._settings.tenant_id, run_id)
        if found is None:
            return None
        run, is_past_retention = found
        if is_past_retention or run.status is Status.EXPIRED:
            return None
        if run.status is Status.COMPLETED:
            return self._completed(run)
        return _report(
            run,
            _STATES.get(run.status, TaskRunState.AT_WORK),
            reason_code=run.last_error_reason_code if run.status is Status.FAILED else None,
            detail=run.last_error_detail if run.status is Status.FAILED else None,
        )

    def _completed(self, run: Run) -> TaskRunReport:
        """Report with the envelope. If it is missing or damaged the attempt failed, since it will not come back."""
        body = None if run.result is None else self._results.get(run.result.key)
        if run.result is None or body is None:
            return _report(
                run, TaskRunState.FAILED, reason_code=Reason.RESULT_MISSING, detail="its envelope is missing"
            )
        if hashlib.sha256(body).hexdigest() != run.result.sha256:
            return _report(
                run, TaskRunState.FAILED, reason_code=DAMAGED, detail="its envelope is damaged: the checksum differs"
            )
        return _report(run, TaskRunState.SUCCEEDED, raw=json.loads(body))

    def _caller(self) -> Caller:
        tenant_id = self._settings.tenant_id
        caller = self._submits.database.using(api_keys.caller_of, tenant_id)
        if caller is None:
            raise TaskRunsUnavailable(f"tenant {tenant_id} does not exist or is not active")
        return caller

    def _request(self, task: TaskRunRequest) -> SubmitRequest:
        inputs: dict[str, object] = {"question": task.question}
        if task.context is not None:
            inputs["context"] = task.context
        try:
            INPUT_MODELS[PackType.DECISION].model_validate(inputs)
        except ValidationError:
            raise TaskRunRefused("the decision pack does not accept this question") from None
        settings, caller = self._settings, self._caller()
        return SubmitRequest(
            tenant_id=caller.tenant_id,
            rate_limit_per_minute=caller.rate_limit_per_minute,
            idempotency_key=task.key,
            pack_type=PackType.DECISION,
            inputs=inputs,
            reserved_usd_micros=settings.max_cost_usd_micros,
            timebox_sec=settings.timebox_sec,
            min_reliability_score=settings.min_reliability_score,
            inline_result=False,
            profile_version=PROFILE_VERSION,
            trace_id=task.session_id,
        )


def _report(
    run: Run,
    state: TaskRunState,
    *,
    reason_code: str | None = None,
    detail: str | None = None,
    raw: dict[str, object] | None = None,
) -> TaskRunReport:
    return TaskRunReport(
        run_id=run.run_id,
        state=state,
        charged_usd=format_usd(run.actual_cost_usd_micros or 0),
        tokens_consumed=run.tokens_consumed,
        created_at=run.created_at,
        updated_at=run.updated_at,
        reason_code=reason_code,
        detail=detail,
        needs_person=reason_code == PackReason.PACK_RELIABILITY_BELOW_MINIMUM,
        raw=raw,
    )
