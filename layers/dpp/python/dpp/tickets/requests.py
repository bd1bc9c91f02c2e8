"""What a ticket may ask for: the parameters of each type (TIX-1). Nothing here knows how it is done."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from dpp.money.micros import AmountError, parse_usd
from dpp.packs.contract import PackType
from dpp.platform.http.fields import CanonicalUuid
from dpp.tickets.model import RequestType

MAX_REDRIVEN = 100
"""As many messages as one firing of the ops cycle has time for."""


def _amount(text: str) -> str:
    try:
        micros = parse_usd(text)
    except AmountError as error:
        raise ValueError(str(error)) from None
    if micros == 0:
        raise ValueError("must be more than nothing")
    return text


class Params(BaseModel):
    """Base of the parameters: nothing unknown is taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ExecutionParams(Params):
    """Of EXECUTION_ENABLE and EXECUTION_DISABLE: one pack, or without one all of them."""

    pack_type: PackType | None = None


class BudgetCreditParams(Params):
    """Of BUDGET_CREDIT: US dollars with at most 4 places, as text."""

    tenant_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    amount_usd: Annotated[str, StringConstraints(strict=True), AfterValidator(_amount)]


class DlqRedriveParams(Params):
    """Of DLQ_REDRIVE: the dead letters of these runs, or without them all; at most `limit` are looked at."""

    run_ids: Annotated[list[CanonicalUuid], Field(min_length=1, max_length=MAX_REDRIVEN)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_REDRIVEN, strict=True)] = MAX_REDRIVEN


PARAMS: Mapping[RequestType, type[Params]] = {
    RequestType.EXECUTION_ENABLE: ExecutionParams,
    RequestType.EXECUTION_DISABLE: ExecutionParams,
    RequestType.BUDGET_CREDIT: BudgetCreditParams,
    RequestType.DLQ_REDRIVE: DlqRedriveParams,
}


def read_params(request_type: RequestType, given: Mapping[str, object]) -> dict[str, Any]:
    """The parameters as they are filed: as JSON, without what was not said. Raises pydantic's ValidationError."""
    return PARAMS[request_type].model_validate(dict(given)).model_dump(mode="json", exclude_none=True)
