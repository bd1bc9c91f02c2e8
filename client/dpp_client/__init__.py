"""A client of DPP's HTTP API: submit a run with a maximum price, wait for its end, fetch its verified result.

    with Client(url, api_key) as dpp:
        receipt = dpp.submit("decision", {"question": "What does moving cost?"}, "0.2500")
        run = dpp.wait(receipt)
        print(dpp.result(run).data)

It needs httpx and pydantic and nothing of the platform. docs/client.md tells the rest.
"""

from dpp_client.client import Client
from dpp_client.errors import (
    Conflict,
    DppError,
    ExecutionDisabled,
    Fault,
    InProgress,
    InsufficientBudget,
    NoResult,
    NotReached,
    PackNotAvailable,
    RateLimited,
    ResultMismatch,
    ResultUnavailable,
    RunExpired,
    RunFailed,
    RunNotFound,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    ValidationFailed,
    WaitTimedOut,
)
from dpp_client.models import Cost, Poll, Problem, Receipt, ReceiptMeta, Reservation, Result, Run, RunMeta, StoredResult
from dpp_client.money import usd_text
from dpp_client.retry import Clock

__all__ = [
    "Client",
    "Clock",
    "Conflict",
    "Cost",
    "DppError",
    "ExecutionDisabled",
    "Fault",
    "InProgress",
    "InsufficientBudget",
    "NoResult",
    "NotReached",
    "PackNotAvailable",
    "Poll",
    "Problem",
    "RateLimited",
    "Receipt",
    "ReceiptMeta",
    "Reservation",
    "Result",
    "ResultMismatch",
    "ResultUnavailable",
    "Run",
    "RunExpired",
    "RunFailed",
    "RunMeta",
    "RunNotFound",
    "StoredResult",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "ValidationFailed",
    "WaitTimedOut",
    "usd_text",
]
