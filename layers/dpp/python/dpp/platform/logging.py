"""Structured JSON logs (RUN-31): powertools' logger on the name `dpp`, under which every module logs.

Domain modules call `logging.getLogger("dpp.<context>")` and pass fields in `extra`; only ids, amounts, states,
lengths and reason codes, never an input, a key or a secret.
"""

from aws_lambda_powertools import Logger


def service_logger(service: str) -> Logger:
    """The logger of one function; `service` is api, worker, reaper, sweeper or reconcile."""
    return Logger(service=service, name="dpp", log_uncaught_exceptions=False)
