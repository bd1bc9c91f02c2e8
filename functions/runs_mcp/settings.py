"""What the function of the MCP endpoint reads from its environment."""

from dpp.runs.submit import SubmitSettings


class RunsMcpSettings(SubmitSettings):
    """Rows, budgets and the run queue: a call is a submit."""
