"""What the submit function is made of, built once a container."""

import os
from functools import cache

from dpp.runs.submit import SubmitEffects
from runs_submit.settings import RunsSubmitSettings


@cache
def wiring() -> SubmitEffects:
    """Read the environment and build; connections open at their first use."""
    return SubmitEffects.connect(RunsSubmitSettings.load(os.environ))
