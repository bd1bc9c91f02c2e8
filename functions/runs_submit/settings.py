"""What the submit function reads from its environment."""

from dpp.runs.submit import SubmitSettings


class RunsSubmitSettings(SubmitSettings):
    """Rows, budgets and the run queue."""
