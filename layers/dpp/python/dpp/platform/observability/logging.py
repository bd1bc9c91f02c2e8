"""Structured JSON logs (RUN-31): one powertools logger a function, through whose handler every `dpp.*` module logs.

Domain modules call `logging.getLogger("dpp.<context>")` and pass fields in `extra`; only ids, amounts, states,
lengths and reason codes, never an input, a key or a secret.
"""

import logging
import traceback

from aws_lambda_powertools import Logger

# At DEBUG these write requests whole, with bodies and signatures, and the messages of exceptions. Lambda's own setting
# of the level (AWS_LAMBDA_LOG_LEVEL) is the root's, and must not reach them, nor must POWERTOOLS_DEBUG.
_TALKATIVE = (
    "aws_lambda_powertools",
    "boto3",
    "botocore",
    "s3transfer",
    "urllib3",
    "httpcore",
    "httpx",
    "psycopg",
    "redis",
)


def service_logger(service: str) -> Logger:
    """The logger of one function; `service` is api, worker, reaper, sweeper, reconcile, retention or packs.

    Powertools names its logger by the service, so the modules' loggers are no children of it: they are given its
    handler, and with it its formatter and the keys that a handler appends.
    """
    logger = Logger(service=service, log_uncaught_exceptions=False, use_rfc3339=True, utc=True)
    modules = logging.getLogger("dpp")
    modules.handlers = [logger.registered_handler]
    modules.setLevel(logger.log_level)
    modules.propagate = False  # Lambda's own handler, on the root, would write each line a second time
    for library in _TALKATIVE:
        logging.getLogger(library).setLevel(logging.WARNING)
    return logger


def where(error: BaseException) -> dict[str, object]:
    """The error's class and frames, without its message: a library's message may hold what a client sent (RUN-31)."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "class": f"{type(error).__module__}.{type(error).__qualname__}",
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
