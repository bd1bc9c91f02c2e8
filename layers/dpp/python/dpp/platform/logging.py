"""Structured JSON logs (RUN-31): one powertools logger a function, through whose handler every `dpp.*` module logs.

Domain modules call `logging.getLogger("dpp.<context>")` and pass fields in `extra`; only ids, amounts, states,
lengths and reason codes, never an input, a key or a secret.
"""

import logging

from aws_lambda_powertools import Logger


def service_logger(service: str) -> Logger:
    """The logger of one function; `service` is api, worker, reaper, sweeper, reconcile or retention.

    Powertools names its logger by the service, so the modules' loggers are no children of it: they are given its
    handler, and with it its formatter and the keys that a handler appends.
    """
    logger = Logger(service=service, log_uncaught_exceptions=False, use_rfc3339=True, utc=True)
    modules = logging.getLogger("dpp")
    modules.handlers = [logger.registered_handler]
    modules.setLevel(logger.log_level)
    modules.propagate = False  # Lambda's own handler, on the root, would write each line a second time
    return logger
