"""What the operator commands are run by, built once a container."""

import os
from collections.abc import Callable, Sequence
from functools import cache

from dpp_cli.operator.app import operator_app
from operate.command import Ran, run
from operate.settings import OperateSettings


@cache
def wiring() -> Callable[[Sequence[str], int], Ran]:
    """Check the environment whole, which each command then reads for itself. Raises ConfigurationError."""
    OperateSettings.load(os.environ)
    app = operator_app()
    return lambda words, columns: run(app, words, columns)
