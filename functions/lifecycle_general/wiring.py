"""What the general is made of, built once a container."""

import os
from functools import cache

from dpp.lifecycle.flow.runner import RunnerEffects
from dpp.lifecycle.flow.wake import WakeByInvocation
from dpp.platform.aws.storage import ObjectStore
from dpp.runs.submit import SubmitEffects
from lifecycle_general.settings import LifecycleGeneralSettings
from lifecycle_general.task_runs import PipelineTaskRuns


@cache
def wiring() -> RunnerEffects:
    """Read the environment and build; connections open at their first use."""
    settings = LifecycleGeneralSettings.load(os.environ)
    submits = SubmitEffects.connect(settings)
    return RunnerEffects(
        submits.database,
        PipelineTaskRuns(submits, ObjectStore(settings.results_bucket), settings),
        ObjectStore(settings.state_bucket),
        WakeByInvocation(settings.functions),
        settings.max_attempts,
    )
