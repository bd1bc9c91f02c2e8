"""The functions there are, as data: what each is given and what it may do. `function.py` makes them.

A function gets the variables that its settings model reads, and its role the grants written here; nothing else.

None has SnapStart or provisioned concurrency. The first request of a container waits about a second for its imports
(`make bench-cold`), four fifths of which the third-party packages take alone, as their `__init__`s load more than
is used: 0.59 of the instructions of the cookbook's handler (1.40 of 2.39 billion, by valgrind), so that half of
that handler is out of reach with these packages. A snapshot costs by the hour and version, a kept-warm instance by the
hour, and both would be paid for starts that a busy deployment hardly has. A handler reads nothing at import, so either
may be switched on.
"""

from dataclasses import dataclass
from enum import Enum, auto

from auth_errors_api.settings import AuthErrorsApiSettings
from auth_errors_consume.settings import AuthErrorsConsumeSettings
from auth_errors_publish.settings import AuthErrorsPublishSettings
from dpp.platform.config import Settings
from dpp_cdk import timings
from dpp_cdk.sizes import Size
from dpp_cdk.timings import (
    DeployTiming,
    InvokedTiming,
    OperatorTiming,
    QueueTiming,
    RequestTiming,
    ScheduleTiming,
    Timing,
)
from health.settings import HealthSettings
from lifecycle_chamberlain.settings import LifecycleChamberlainSettings
from migrate.settings import MigrateSettings
from operate.settings import OperateSettings
from ops_cycle.settings import OpsCycleSettings
from pack_outside.settings import PackOutsideSettings
from run_reaper.settings import RunReaperSettings
from run_reconcile.settings import RunReconcileSettings
from run_retention.settings import RunRetentionSettings
from run_sweeper.settings import RunSweeperSettings
from run_worker.settings import RunWorkerSettings
from runs_read.settings import RunsReadSettings
from runs_submit.settings import RunsSubmitSettings
from tickets_api.settings import TicketsApiSettings
from workspaces_api.settings import WorkspacesApiSettings
from workspaces_control.settings import WorkspacesControlSettings
from workspaces_storage.settings import WorkspacesStorageSettings

LIVE = "live"
"""The alias of the version that callers get, where releases are gradual."""


class Resource(Enum):
    """What a grant may name; the stack knows the ARN of each."""

    RUN_QUEUE = auto()
    DEAD_LETTERS = auto()
    AUTH_ERROR_QUEUE = auto()
    AUTH_ERROR_DEAD_LETTERS = auto()
    AUTH_ERROR_WAKE = auto()
    RESULTS_BUCKET = auto()
    RESULT_OBJECTS = auto()
    INPUT_OBJECTS = auto()
    REPORT_OBJECTS = auto()
    STATE_OBJECTS = auto()
    PACK_OUTSIDE = auto()
    DECISION_MODEL = auto()
    WORKSPACE_LOOKS = auto()
    WORKSPACE_WORKS = auto()
    ARCHIVES_BUCKET = auto()
    ARCHIVE_OBJECTS = auto()


class LayerName(Enum):
    """The layers there are; the value is the construct's id."""

    DEPS = "Deps"
    DOMAIN = "Domain"
    MIGRATIONS = "Migrations"
    OPERATE = "Operate"
    OCR = "Ocr"


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
    concurrency. `in_network` false: the function stands outside of the VPC, with the internet and without a way
    to the database. What comes off a queue is not granted here: the event source grants it, on that queue. A
    secret is granted to whom its variable is given. A grant on a resource that a deployment lacks falls away.
    `mounts_homes`: the file system of workspaces is a folder of the function's, where the deployment has one; it is
    given what the provider on AWS reads, too. `of_workspaces`: made where the deployment has workspaces.
    """

    name: str
    settings: type[Settings]
    timing: Timing
    memory_mib: int
    grants: tuple[Grant, ...] = ()
    alone: bool = False
    in_network: bool = True
    layers: tuple[LayerName, ...] = (LayerName.DEPS, LayerName.DOMAIN)
    mounts_homes: bool = False
    of_workspaces: bool = False

    def __post_init__(self) -> None:
        if self.mounts_homes and not self.in_network:
            raise ValueError(
                f"a file system is mounted over the network, which this stands outside of: {self}"
            )
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
        """What the clock fires is not repeated when it fails, since the next firing does its work.

        A migration neither: its caller was told already, or is past waiting. Nor what an operator asks: whether to
        repeat a command is for who typed it.
        """
        return 0 if isinstance(self.timing, ScheduleTiming | DeployTiming | OperatorTiming) else None

    @property
    def has_releases(self) -> bool:
        """A migration is no release: it runs once, as it is. An operator gets what was deployed last, by its name."""
        return not isinstance(self.timing, DeployTiming | OperatorTiming)

    @property
    def is_shifted_gradually(self) -> bool:
        """What clients wait for; a job that fails is done by its next firing, and one at a time can't be two."""
        return isinstance(self.timing, RequestTiming | QueueTiming | InvokedTiming)

    def function_name(self, stage: str) -> str:
        """What the function is called in its account and region."""
        return f"dpp-{stage}-{self.name}"

    def callable_name(self, stage: str, *, gradual: bool) -> str:
        """What a caller calls by name: the function, or its alias where releases are gradual."""
        return f"{self.function_name(stage)}:{LIVE}" if gradual else self.function_name(stage)

    def reserved_concurrency(self, size: Size) -> int | None:
        """How many may run at once at most, or None for as many as the account has."""
        return 1 if self.alone and size.reserves_concurrency else None


# What an operator and a redrive do with dead letters: look at them, hide them meanwhile, delete what is dealt with.
_LOOK_AT_LETTERS = (
    "sqs:ReceiveMessage",
    "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibility",
    "sqs:GetQueueAttributes",
)
_DEAD_LETTERS = Grant(Resource.DEAD_LETTERS, _LOOK_AT_LETTERS)
# Whoever makes an event, or a dead one to be sent again, wakes the publisher (AUTH-4).
_WAKE_PUBLISHER = Grant(Resource.AUTH_ERROR_WAKE, ("sqs:SendMessage",))
# The reports' copies (TIX-4); who reads one gets it from Postgres.
_REPORTS = Grant(Resource.REPORT_OBJECTS, ("s3:PutObject",))

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
TICKETS_API = FunctionSpec(
    name="tickets_api",
    settings=TicketsApiSettings,
    timing=timings.TICKETS_API,
    memory_mib=512,
    grants=(_REPORTS,),
)
AUTH_ERRORS_API = FunctionSpec(
    name="auth_errors_api",
    settings=AuthErrorsApiSettings,
    timing=timings.AUTH_ERRORS_API,
    memory_mib=512,
    grants=(_WAKE_PUBLISHER,),
)
AUTH_ERRORS_PUBLISH = FunctionSpec(
    name="auth_errors_publish",
    settings=AuthErrorsPublishSettings,
    timing=timings.AUTH_ERRORS_PUBLISH,
    memory_mib=512,
    grants=(Grant(Resource.AUTH_ERROR_QUEUE, ("sqs:SendMessage",)),),
)
AUTH_ERRORS_CONSUME = FunctionSpec(
    name="auth_errors_consume",
    settings=AuthErrorsConsumeSettings,
    timing=timings.AUTH_ERRORS_CONSUME,
    memory_mib=512,
    grants=(Grant(Resource.AUTH_ERROR_DEAD_LETTERS, ("sqs:SendMessage",)), _WAKE_PUBLISHER),
)
# Whoever changes what is wanted of a workspace has it looked at; without the hint the beat does (WS-5).
_HINT = Grant(Resource.WORKSPACE_LOOKS, ("sqs:SendMessage",))
_HAND_OVER = Grant(Resource.WORKSPACE_WORKS, ("sqs:SendMessage",))
# Without ListBucket S3 answers 403 for an archive that isn't there, and a lost one looks like an outage.
_SEE_ARCHIVES = (
    Grant(Resource.ARCHIVE_OBJECTS, ("s3:GetObject",)),
    Grant(Resource.ARCHIVES_BUCKET, ("s3:ListBucket",)),
)
WORKSPACES_API = FunctionSpec(
    name="workspaces_api",
    settings=WorkspacesApiSettings,
    timing=timings.WORKSPACES_API,
    memory_mib=512,
    of_workspaces=True,
    grants=(_HINT,),
)
WORKSPACES_CONTROL = FunctionSpec(
    name="workspaces_control",
    settings=WorkspacesControlSettings,
    timing=timings.WORKSPACES_CONTROL,
    memory_mib=512,
    of_workspaces=True,
    mounts_homes=True,
    grants=(_HINT, _HAND_OVER, *_SEE_ARCHIVES),
)
WORKSPACES_STORAGE = FunctionSpec(
    name="workspaces_storage",
    settings=WorkspacesStorageSettings,
    timing=timings.WORKSPACES_STORAGE,
    memory_mib=1769,  # one CPU: a home is compressed as fast as that goes
    of_workspaces=True,
    mounts_homes=True,
    grants=(
        _HINT,
        _HAND_OVER,
        Grant(
            Resource.ARCHIVE_OBJECTS,
            ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"),
        ),
        Grant(Resource.ARCHIVES_BUCKET, ("s3:ListBucket",)),
    ),
)
RUN_WORKER = FunctionSpec(
    name="run_worker",
    settings=RunWorkerSettings,
    timing=timings.RUN_WORKER,
    memory_mib=1769,  # from here on a function has one CPU to itself, which reading a page is a matter of
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.OCR),
    grants=(
        Grant(Resource.RESULT_OBJECTS, ("s3:PutObject",)),
        Grant(Resource.INPUT_OBJECTS, ("s3:GetObject",)),  # by the URLs that it signs for its pack process
        Grant(Resource.PACK_OUTSIDE, ("lambda:InvokeFunction",)),
    ),
)
PACK_OUTSIDE = FunctionSpec(
    name="pack_outside",
    settings=PackOutsideSettings,
    timing=timings.PACK_OUTSIDE,
    memory_mib=1024,
    in_network=False,
    grants=(Grant(Resource.DECISION_MODEL, ("bedrock:InvokeModel",)),),
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
OPS_CYCLE = FunctionSpec(
    name="ops_cycle",
    settings=OpsCycleSettings,
    timing=timings.OPS_CYCLE,
    memory_mib=512,
    alone=True,
    grants=(Grant(Resource.RUN_QUEUE, ("sqs:SendMessage",)), _DEAD_LETTERS, _REPORTS),
)
# What tasks left, once its row is gone (LIFE-3, LIFE-4).
_DELETE_STATE = Grant(Resource.STATE_OBJECTS, ("s3:DeleteObject",))
LIFECYCLE_CHAMBERLAIN = FunctionSpec(
    name="lifecycle_chamberlain",
    settings=LifecycleChamberlainSettings,
    timing=timings.LIFECYCLE_CHAMBERLAIN,
    memory_mib=512,
    alone=True,
    grants=(_DELETE_STATE,),
)
MIGRATE = FunctionSpec(
    name="migrate",
    settings=MigrateSettings,
    timing=timings.MIGRATE,
    memory_mib=512,
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.MIGRATIONS),
)
# No API route, no event source: whom IAM gives lambda:InvokeFunction on it may call it, and nobody else.
OPERATE = FunctionSpec(
    name="operate",
    settings=OperateSettings,
    timing=timings.OPERATE,
    memory_mib=512,
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.OPERATE),
    grants=(
        Grant(Resource.RUN_QUEUE, ("sqs:SendMessage",)),
        _DEAD_LETTERS,
        Grant(Resource.AUTH_ERROR_DEAD_LETTERS, _LOOK_AT_LETTERS),
        _WAKE_PUBLISHER,
        _REPORTS,
        Grant(Resource.RESULT_OBJECTS, ("s3:GetObject",)),
        # As reconcile: to tell a lost envelope from an outage.
        Grant(Resource.RESULTS_BUCKET, ("s3:ListBucket",)),
        _HINT,
        _HAND_OVER,
        *_SEE_ARCHIVES,
        _DELETE_STATE,
    ),
)

REQUEST_FUNCTIONS = (RUNS_SUBMIT, RUNS_READ, HEALTH, TICKETS_API, AUTH_ERRORS_API, WORKSPACES_API)
SCHEDULED_FUNCTIONS = (
    RUN_REAPER,
    RUN_SWEEPER,
    RUN_RECONCILE,
    RUN_RETENTION,
    OPS_CYCLE,
    LIFECYCLE_CHAMBERLAIN,
)
EVENT_FUNCTIONS = (AUTH_ERRORS_PUBLISH, AUTH_ERRORS_CONSUME, WORKSPACES_CONTROL, WORKSPACES_STORAGE)
FUNCTIONS = (
    *REQUEST_FUNCTIONS,
    RUN_WORKER,
    PACK_OUTSIDE,
    *EVENT_FUNCTIONS,
    *SCHEDULED_FUNCTIONS,
    MIGRATE,
    OPERATE,
)
"""All that deployments have; the roles of dpp/lifecycle that carry an event to its answer are in none so far."""


def functions_of(*, workspaces: bool) -> tuple[FunctionSpec, ...]:
    """Those that a deployment has, with or without workspaces."""
    return tuple(spec for spec in FUNCTIONS if workspaces or not spec.of_workspaces)
