"""What the general reads from his environment."""

from dpp.lifecycle.config import StateSettings, TaskSettings, WakesEnvoy, WakesKing
from dpp.platform.config import StorageSettings
from dpp.runs.submit import SubmitSettings


class LifecycleGeneralSettings(
    SubmitSettings,
    StorageSettings,
    StateSettings,
    TaskSettings,
    WakesKing,
    WakesEnvoy,
):
    """Rows, budgets, the run queue, runs' results, the tasks' own bucket and budget, and whom he wakes."""
