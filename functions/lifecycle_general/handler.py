"""The general (runner): has tasks carried out by runs (LIFE-2 … LIFE-4).

Runs on a schedule and when another role wakes it.
"""

from functools import cache
from typing import Any

from dpp.lifecycle.config import StateSettings, TaskSettings, WakesEnvoy, WakesKing
from dpp.lifecycle.flow.runner import RunnerEffects, Step, run_tasks
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import StorageSettings
from dpp.platform.observability.logging import service_logger
from dpp.platform.observability.meter import Meter
from dpp.platform.observability.metrics import TASK_STEPS
from dpp.platform.scheduled_job import scheduled_job
from dpp.runs.submit import SubmitEffects, SubmitSettings
from lifecycle_general.task_runs import PipelineTaskRuns

logger = service_logger("lifecycle_general")
meter = Meter()


class LifecycleGeneralSettings(SubmitSettings, StorageSettings, StateSettings, TaskSettings, WakesKing, WakesEnvoy):
    """Rows, budgets, the run queue, runs' results, the tasks' bucket and budget, and the roles that it wakes."""


@cache
def wiring() -> RunnerEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleGeneralSettings.load()
    submits = SubmitEffects.connect(settings)
    return RunnerEffects(
        submits.database,
        PipelineTaskRuns(submits, ObjectStore(settings.results_bucket), settings),
        ObjectStore(settings.state_bucket),
        WakeByInvocation(settings.functions),
        settings.max_attempts,
    )


@scheduled_job(logger, meter)
def handler() -> dict[str, Any]:
    """Run one tick."""
    report = run_tasks(wiring()).as_dict()
    for step in (*Step, "LEFT"):
        meter.add(TASK_STEPS, report[step.lower()], Step=step)
    return report
