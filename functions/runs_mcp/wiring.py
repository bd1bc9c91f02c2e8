"""What the function of the MCP endpoint is made of, built once a container."""

import os
from functools import cache

from dpp.runs.submit import SubmitEffects
from runs_mcp.settings import RunsMcpSettings


@cache
def wiring() -> SubmitEffects:
    """Read the environment and build; connections open at their first use."""
    return SubmitEffects.connect(RunsMcpSettings.load(os.environ))
