"""Runs over HTTP: reads a submit, and builds the bodies of responses (RUN-2, RUN-3, RUN-10)."""

from typing import TYPE_CHECKING
from uuid import UUID

from pydantic import ValidationError

from dpp.money.micros import format_usd, parse_usd
from dpp.packs.inputs.ocr import object_context
from dpp.packs.registry import INPUT_MODELS
from dpp.platform.http.problem import VALIDATION_FAILED, FieldFault, ProblemError
from dpp.platform.http.request import VALIDATION_DETAIL, idempotency_key, read_body, validation_failed
from dpp.platform.keys.api_keys import Caller
from dpp.runs import submit_store
from dpp.runs.api.contract import (
    Cost,
    Poll,
    ReceiptMeta,
    Reservation,
    RunCreateRequest,
    RunMeta,
    RunProblem,
    RunReceipt,
    RunResult,
    RunResultPart,
    RunView,
)
from dpp.runs.errors import PackNotAvailable
from dpp.runs.machine import Status
from dpp.runs.model import BASELINE_FIELD, NO_BASELINE, Run, SubmitRequest
from dpp.runs.read import Found, Result

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

    from dpp.platform.db.postgres import Database


def read_request(event: "APIGatewayProxyEvent", trace_id: str, caller: Caller, bucket: str) -> SubmitRequest:
    """Read a submit from headers and body. Raises ProblemError and PackNotAvailable."""
    key = idempotency_key(event)
    return request_of(read_body(event, RunCreateRequest), key, trace_id, caller, bucket)


def request_of(body: RunCreateRequest, key: str, trace_id: str, caller: Caller, bucket: str) -> SubmitRequest:
    """The request of a body with valid inputs, whose objects are in `bucket`. Raises ProblemError, PackNotAvailable."""
    model = INPUT_MODELS.get(body.pack_type)
    if model is None:
        raise PackNotAvailable
    try:
        inputs = model.model_validate(body.inputs, context=object_context(caller.tenant_id, bucket))
    except ValidationError as error:
        raise validation_failed(error, ("inputs",)) from None
    reserved_usd_micros = parse_usd(body.reservation.max_cost_usd)
    _check_price(reserved_usd_micros, inputs.least_cost_usd_micros())
    return SubmitRequest(
        tenant_id=caller.tenant_id,
        rate_limit_per_minute=caller.rate_limit_per_minute,
        idempotency_key=key,
        pack_type=body.pack_type,
        inputs=body.inputs,
        reserved_usd_micros=reserved_usd_micros,
        timebox_sec=body.reservation.timebox_sec,
        min_reliability_score=body.reservation.min_reliability_score,
        inline_result=body.options.inline == 1,
        profile_version=body.meta.profile_version,
        trace_id=body.meta.trace_id or trace_id,
    )


def check_baseline(request: SubmitRequest, database: "Database") -> None:
    """Refuse to compare with a run that isn't an ended eval run of the tenant (RUN-28). Raises ProblemError 422."""
    named = request.inputs.get(BASELINE_FIELD)
    if named is None:
        return
    if database.using(submit_store.find_baseline, request.tenant_id, UUID(str(named))) is None:
        fault = FieldFault(f"/inputs/{BASELINE_FIELD}", NO_BASELINE)
        raise ProblemError(VALIDATION_FAILED, VALIDATION_DETAIL, faults=(fault,))


def _check_price(reserved_usd_micros: int, least_usd_micros: int) -> None:
    """Refuse a reservation that can't pay for any result. Raises ProblemError 422."""
    if reserved_usd_micros < least_usd_micros:
        fault = FieldFault(
            "/reservation/max_cost_usd", f"must be at least {format_usd(least_usd_micros)}, the least price of this run"
        )
        raise ProblemError(VALIDATION_FAILED, VALIDATION_DETAIL, faults=(fault,))


def receipt(run: Run) -> RunReceipt:
    """The receipt of a run: the same at the first submit and at every repetition."""
    return RunReceipt(
        run_id=run.id,
        reservation=Reservation(
            max_cost_usd=format_usd(run.reservation_max_cost_usd_micros),
            timebox_sec=run.timebox_sec,
            min_reliability_score=float(run.min_reliability_score),
        ),
        poll=Poll(href=f"/v1/runs/{run.id}"),
        meta=ReceiptMeta(trace_id=run.trace_id, profile_version=run.profile_version),
    )


def view(found: Found) -> RunView:
    """The response body of a read."""
    run = found.run
    return RunView(
        run_id=run.id,
        pack_type=run.pack_type,
        status=run.status,
        money_state=run.money_state,
        cost=Cost(
            reserved_usd=format_usd(found.costs.reserved_usd_micros),
            used_usd=format_usd(found.costs.used_usd_micros),
            minimum_fee_usd=format_usd(run.minimum_fee_usd_micros),
            budget_remaining_usd=format_usd(found.costs.budget_remaining_usd_micros),
        ),
        tokens_consumed=found.costs.tokens_consumed,
        result=_result(found.result) if found.result else None,
        problem=_problem(run),
        meta=RunMeta(
            created_at=run.created_at,
            updated_at=run.updated_at,
            trace_id=run.trace_id,
            profile_version=run.profile_version,
        ),
    )


def _result(result: Result) -> RunResult:
    return RunResult(
        presigned_url=result.url.url,
        sha256=result.pointer.sha256,
        expires_at=result.url.expires_at,
        inline=result.inline,
        inline_omitted="TOO_LARGE" if result.inline_too_large else None,
        parts=[
            RunResultPart(
                name=part.name,
                presigned_url=url.url,
                sha256=part.sha256,
                size_bytes=part.size_bytes,
                expires_at=url.expires_at,
            )
            for part, url in result.part_urls.items()
        ]
        or None,
    )


def _problem(run: Run) -> RunProblem | None:
    """The reason of a failed or disputed run; None for any other, also while its claim is open."""
    if run.status != Status.FAILED and not run.is_disputed:
        return None
    reason = run.last_error_reason_code or "MONEY_DISPUTED"
    return RunProblem(reason_code=reason, detail=run.last_error_detail or "")
