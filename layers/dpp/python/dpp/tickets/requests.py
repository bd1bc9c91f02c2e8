"""The parameters of each ticket type (TIX-1). The executors are in `functions/ops_cycle/executors.py`."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from dpp.money.micros import positive_usd
from dpp.packs.contract import PackType
from dpp.platform.http.fields import CanonicalUuid
from dpp.tickets.model import RequestType

MAX_REDRIVEN = 100
"""The number of messages that one ops cycle has time for."""


class Params(BaseModel):
    """Base of the parameters; unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ExecutionParams(Params):
    """EXECUTION_ENABLE and EXECUTION_DISABLE: one pack, or all packs if it is omitted."""

    pack_type: PackType | None = None


class BudgetCreditParams(Params):
    """BUDGET_CREDIT: US dollars as text, with at most 4 decimal places."""

    tenant_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    amount_usd: Annotated[str, StringConstraints(strict=True), AfterValidator(positive_usd)]


class DlqRedriveParams(Params):
    """DLQ_REDRIVE: the dead letters of these runs, or of all; at most `limit` messages are read."""

    run_ids: Annotated[list[CanonicalUuid], Field(min_length=1, max_length=MAX_REDRIVEN)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_REDRIVEN, strict=True)] = MAX_REDRIVEN


PARAMS: Mapping[RequestType, type[Params]] = {
    RequestType.EXECUTION_ENABLE: ExecutionParams,
    RequestType.EXECUTION_DISABLE: ExecutionParams,
    RequestType.BUDGET_CREDIT: BudgetCreditParams,
    RequestType.DLQ_REDRIVE: DlqRedriveParams,
}


def read_params(request_type: RequestType, given: Mapping[str, object]) -> dict[str, Any]:
    """The parameters as JSON, without omitted fields. Raises pydantic's ValidationError."""
    return PARAMS[request_type].model_validate(dict(given)).model_dump(mode="json", exclude_none=True)
