"""Structured JSON logs (RUN-31): one powertools logger per function, whose handler also serves all `dpp.*` modules.

Domain modules call `logging.getLogger("dpp.<context>")` and pass fields in `extra`: only ids, amounts, states, lengths
and reason codes, never an input, a key or a secret.
"""

import logging
import traceback

from aws_lambda_powertools import Logger

# At DEBUG these libraries log whole requests, with bodies and signatures, and messages of exceptions. Lambda's log
# level (AWS_LAMBDA_LOG_LEVEL) sets the root logger and must not reach them, and neither must POWERTOOLS_DEBUG.
_VERBOSE = (
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
    """Create the logger of one function; `service` is the log's field of that name.

    Powertools names its logger by the service, so the modules' loggers are not its children. They get its handler, and
    with it the formatter and the appended keys.
    """
    logger = Logger(service=service, log_uncaught_exceptions=False, use_rfc3339=True, utc=True)
    modules = logging.getLogger("dpp")
    modules.handlers = [logger.registered_handler]
    modules.setLevel(logger.log_level)
    modules.propagate = False  # otherwise Lambda's handler on the root logger would write each line again
    for library in _VERBOSE:
        logging.getLogger(library).setLevel(logging.WARNING)
    return logger


def where(error: BaseException) -> dict[str, object]:
    """The error's class and frames, without its message, which may quote client data (RUN-31)."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "class": f"{type(error).__module__}.{type(error).__qualname__}",
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
