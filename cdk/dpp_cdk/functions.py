"""The functions there are, as data: what each is given and what it may do. `function.py` makes them.

A function gets the variables that its settings model reads, and its role the grants written here; nothing else.
"""

from dataclasses import dataclass
from enum import Enum, auto

from dpp.platform.config import Settings
from dpp_cdk import timings
from dpp_cdk.timings import QueueTiming, ScheduleTiming, Timing
from health.settings import HealthSettings
from run_reaper.settings import RunReaperSettings
from run_reconcile.settings import RunReconcileSettings
from run_retention.settings import RunRetentionSettings
from run_sweeper.settings import RunSweeperSettings
from run_worker.settings import RunWorkerSettings
from runs_read.settings import RunsReadSettings
from runs_submit.settings import RunsSubmitSettings


class Resource(Enum):
    """What a grant may name; the stack knows the ARN of each."""

    RUN_QUEUE = auto()
    RESULTS_BUCKET = auto()
    RESULT_OBJECTS = auto()


class LayerName(Enum):
    """The layers there are; the value is the construct's id."""

    DEPS = "Deps"
    DOMAIN = "Domain"


@dataclass(frozen=True)
class Grant:
    """Exactly these actions on exactly this resource."""

    resource: Resource
    actions: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.actions or any("*" in action for action in self.actions):
            raise ValueError(f"a grant lists its actions, each by its whole name: {self}")


@dataclass(frozen=True)
class FunctionSpec:
    """One folder of `functions/`.

    `alone`: two at once would only do the same work twice, so one may run at a time, where the size reserves
    concurrency. What comes off a queue is not granted here: the event source grants it, on that queue.
    """

    name: str
    settings: type[Settings]
    timing: Timing
    memory_mib: int
    grants: tuple[Grant, ...] = ()
    alone: bool = False
    layers: tuple[LayerName, ...] = (LayerName.DEPS, LayerName.DOMAIN)

    def __post_init__(self) -> None:
        if not 128 <= self.memory_mib <= 10_240:
            raise ValueError(f"Lambda gives 128 to 10240 MiB: {self}")
        if self.alone and not isinstance(self.timing, ScheduleTiming):
            raise ValueError(
                f"only what the clock fires may run alone; a client or a queue would wait: {self}"
            )

    @property
    def construct_id(self) -> str:
        """`runs_submit` as `RunsSubmit`."""
        return self.name.title().replace("_", "")

    @property
    def async_retries(self) -> int | None:
        """What the clock fires is not repeated when it fails, since the next firing does its work."""
        return 0 if isinstance(self.timing, ScheduleTiming) else None


RUNS_SUBMIT = FunctionSpec(
    name="runs_submit",
    settings=RunsSubmitSettings,
    timing=timings.RUNS_SUBMIT,
    memory_mib=512,
    grants=(Grant(Resource.RUN_QUEUE, ("sqs:SendMessage",)),),
)
RUNS_READ = FunctionSpec(
    name="runs_read",
    settings=RunsReadSettings,
    timing=timings.RUNS_READ,
    memory_mib=512,
    # Read for `inline`; URLs are signed by the role of `signing.py`.
    grants=(Grant(Resource.RESULT_OBJECTS, ("s3:GetObject",)),),
)
HEALTH = FunctionSpec(
    name="health",
    settings=HealthSettings,
    timing=timings.HEALTH,
    memory_mib=256,
    grants=(
        Grant(Resource.RUN_QUEUE, ("sqs:GetQueueAttributes",)),
        Grant(Resource.RESULTS_BUCKET, ("s3:ListBucket",)),  # HeadBucket
    ),
)
RUN_WORKER = FunctionSpec(
    name="run_worker",
    settings=RunWorkerSettings,
    timing=timings.RUN_WORKER,
    memory_mib=1024,
    grants=(Grant(Resource.RESULT_OBJECTS, ("s3:PutObject",)),),
)
RUN_REAPER = FunctionSpec(
    name="run_reaper", settings=RunReaperSettings, timing=timings.RUN_REAPER, memory_mib=512, alone=True
)
RUN_SWEEPER = FunctionSpec(
    name="run_sweeper", settings=RunSweeperSettings, timing=timings.RUN_SWEEPER, memory_mib=512, alone=True
)
RUN_RECONCILE = FunctionSpec(
    name="run_reconcile",
    settings=RunReconcileSettings,
    timing=timings.RUN_RECONCILE,
    memory_mib=512,
    alone=True,
    grants=(
        Grant(Resource.RUN_QUEUE, ("sqs:SendMessage",)),
        Grant(Resource.RESULT_OBJECTS, ("s3:GetObject",)),
        # Without it S3 answers 403 for an object that isn't there, and a lost envelope looks like an outage.
        Grant(Resource.RESULTS_BUCKET, ("s3:ListBucket",)),
    ),
)
RUN_RETENTION = FunctionSpec(
    name="run_retention",
    settings=RunRetentionSettings,
    timing=timings.RUN_RETENTION,
    memory_mib=512,
    alone=True,
)

REQUEST_FUNCTIONS = (RUNS_SUBMIT, RUNS_READ, HEALTH)
SCHEDULED_FUNCTIONS = (RUN_REAPER, RUN_SWEEPER, RUN_RECONCILE, RUN_RETENTION)
FUNCTIONS = (*REQUEST_FUNCTIONS, RUN_WORKER, *SCHEDULED_FUNCTIONS)


def queue_timing(spec: FunctionSpec) -> QueueTiming:
    """The timing of a function that empties a queue. Raises ValueError for any other."""
    if not isinstance(spec.timing, QueueTiming):
        raise ValueError(f"{spec.name} is fed by no queue")  # noqa: TRY004 - a wrong table, not a wrong type
    return spec.timing
