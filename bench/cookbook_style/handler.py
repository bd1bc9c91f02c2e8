"""The handler that bench/cold.py compares ours with: of the same size, in the style of the Powertools documentation and
the aws-lambda-handler-cookbook. Written for this comparison; it serves nothing.

It creates everything at import: logger, tracer, metrics, the resolver with validation, the models, the environment
parsed by pydantic, and a boto3 resource.
"""

import os
from typing import Annotated, Any, Literal
from uuid import UUID, uuid4

import boto3
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.openapi.params import Header
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import BaseModel, ConfigDict, Field, HttpUrl


class Environment(BaseModel):
    """Environment variables."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    service: str = Field(alias="POWERTOOLS_SERVICE_NAME")
    log_level: Literal["DEBUG", "INFO", "ERROR"] = Field(alias="LOG_LEVEL")
    table_name: str = Field(alias="TABLE_NAME", min_length=1)
    queue_url: HttpUrl = Field(alias="QUEUE_URL")


class Reservation(BaseModel):
    """Highest price and time."""

    max_cost_usd: str = Field(pattern=r"^[0-9]+\.[0-9]{1,4}$")
    timebox_sec: int = Field(default=90, ge=1, le=90)
    min_reliability_score: float = Field(default=0.8, ge=0, le=1)


class Options(BaseModel):
    """Options of the answer."""

    inline: Literal[0, 1] = 0


class RunRequest(BaseModel):
    """The body of a submit."""

    pack_type: Literal["decision", "url", "ocr", "compliance", "eval"]
    inputs: dict[str, Any]
    reservation: Reservation
    options: Options = Options()


class Receipt(BaseModel):
    """The answer to a submit."""

    run_id: UUID
    status: str
    reservation: Reservation


class Problem(BaseModel):
    """An error."""

    title: str
    reason_code: str


ENVIRONMENT = Environment.model_validate(dict(os.environ))
logger = Logger(service=ENVIRONMENT.service, level=ENVIRONMENT.log_level)
tracer = Tracer(service=ENVIRONMENT.service)
metrics = Metrics(namespace="Runs", service=ENVIRONMENT.service)
app = APIGatewayRestResolver(enable_validation=True)
table = boto3.resource("dynamodb").Table(ENVIRONMENT.table_name)


@app.post(
    "/v1/runs",
    summary="Submit a run",
    responses={
        202: {"description": "Accepted", "content": {"application/json": {"model": Receipt}}},
        402: {"description": "Insufficient budget", "content": {"application/json": {"model": Problem}}},
    },
)
@tracer.capture_method(capture_response=False)
def submit_run(
    request: RunRequest, idempotency_key: Annotated[str, Header(min_length=8, max_length=64)]
) -> Response[Receipt]:
    run_id = uuid4()
    table.put_item(Item={"pk": str(run_id), "key": idempotency_key, **request.model_dump(mode="json")})
    metrics.add_metric(name="Submits", unit=MetricUnit.Count, value=1)
    receipt = Receipt(run_id=run_id, status="QUEUED", reservation=request.reservation)
    return Response(status_code=202, content_type="application/json", body=receipt)


@logger.inject_lambda_context
@metrics.log_metrics(capture_cold_start_metric=True)
@tracer.capture_lambda_handler(capture_response=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
