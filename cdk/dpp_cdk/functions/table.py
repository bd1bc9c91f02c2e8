"""The functions there are, as data: what each is given and what it may do. `function.py` makes them.

A function gets the variables that its settings model reads, and its role the grants written here; nothing else.

None has SnapStart or provisioned concurrency. The first request of a container waits about a second for its imports
(`make bench-cold`), four fifths of which the third-party packages take alone, as their `__init__`s load more than
is used: 0.59 of the instructions of the cookbook's handler (1.40 of 2.39 billion, by valgrind), so that half of
that handler is out of reach with these packages. A snapshot costs by the hour and version, a kept-warm instance by the
hour, and both would be paid for starts that a busy deployment hardly has. A handler reads nothing at import, so either
may be switched on.
"""

from collections.abc import Collection

from api_docs.settings import ApiDocsSettings
from auth_errors_api.settings import AuthErrorsApiSettings
from auth_errors_consume.settings import AuthErrorsConsumeSettings
from auth_errors_publish.settings import AuthErrorsPublishSettings
from dpp_cdk.functions.spec import FunctionSpec, Grant, LayerName, Part, Resource
from dpp_cdk.settings import timings
from health.settings import HealthSettings
from lifecycle_chamberlain.settings import LifecycleChamberlainSettings
from lifecycle_envoy.settings import LifecycleEnvoySettings
from lifecycle_general.settings import LifecycleGeneralSettings
from lifecycle_king.settings import LifecycleKingSettings
from lifecycle_outside.settings import LifecycleOutsideSettings
from lifecycle_sentinel.settings import LifecycleSentinelSettings
from lifecycle_webhook.settings import LifecycleWebhookSettings
from migrate.settings import MigrateSettings
from operate.settings import OperateSettings
from ops_cycle.settings import OpsCycleSettings
from pack_outside.settings import PackOutsideSettings
from run_reaper.settings import RunReaperSettings
from run_reconcile.settings import RunReconcileSettings
from run_retention.settings import RunRetentionSettings
from run_sweeper.settings import RunSweeperSettings
from run_worker.settings import RunWorkerSettings
from runs_mcp.settings import RunsMcpSettings
from runs_read.settings import RunsReadSettings
from runs_submit.settings import RunsSubmitSettings
from tickets_api.settings import TicketsApiSettings
from workspaces_api.settings import WorkspacesApiSettings
from workspaces_control.settings import WorkspacesControlSettings
from workspaces_storage.settings import WorkspacesStorageSettings

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
RUNS_MCP = FunctionSpec(
    name="runs_mcp",
    settings=RunsMcpSettings,
    timing=timings.RUNS_MCP,
    memory_mib=512,
    grants=RUNS_SUBMIT.grants,  # a call of a tool is a submit
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
# Whoever asks gets what is in its layer: no variable, no grant, no network.
API_DOCS = FunctionSpec(
    name="api_docs",
    settings=ApiDocsSettings,
    timing=timings.API_DOCS,
    memory_mib=256,
    in_network=False,
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.API_DOCS),
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
    part=Part.WORKSPACES,
    grants=(_HINT,),
)
WORKSPACES_CONTROL = FunctionSpec(
    name="workspaces_control",
    settings=WorkspacesControlSettings,
    timing=timings.WORKSPACES_CONTROL,
    memory_mib=512,
    part=Part.WORKSPACES,
    mounts_homes=True,
    grants=(_HINT, _HAND_OVER, *_SEE_ARCHIVES),
)
WORKSPACES_STORAGE = FunctionSpec(
    name="workspaces_storage",
    settings=WorkspacesStorageSettings,
    timing=timings.WORKSPACES_STORAGE,
    memory_mib=1769,  # one CPU: a home is compressed as fast as that goes
    part=Part.WORKSPACES,
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
# Who makes work for another role wakes it; without that its schedule finds the work within a minute. Two of the king,
# general or envoy at once share what there is.
_WAKE_KING, _WAKE_GENERAL, _WAKE_ENVOY = (
    Grant(role, ("lambda:InvokeFunction",)) for role in (Resource.KING, Resource.GENERAL, Resource.ENVOY)
)
# What tasks left, once its row is gone (LIFE-3, LIFE-4).
_DELETE_STATE = Grant(Resource.STATE_OBJECTS, ("s3:DeleteObject",))
LIFECYCLE_CHAMBERLAIN = FunctionSpec(
    name="lifecycle_chamberlain",
    settings=LifecycleChamberlainSettings,
    timing=timings.LIFECYCLE_CHAMBERLAIN,
    memory_mib=512,
    alone=True,
    grants=(_DELETE_STATE, _WAKE_ENVOY),
)
# The roles that carry an event to its answer (LIFE-1 … LIFE-7, LIFE-10).
_ASK_OUTSIDE = Grant(Resource.LIFECYCLE_OUTSIDE, ("lambda:InvokeFunction",))
LIFECYCLE_SENTINEL = FunctionSpec(
    name="lifecycle_sentinel",
    settings=LifecycleSentinelSettings,
    timing=timings.LIFECYCLE_SENTINEL,
    memory_mib=512,
    alone=True,
    part=Part.LIFECYCLE,
    grants=(_ASK_OUTSIDE, _WAKE_KING),
)
LIFECYCLE_WEBHOOK = FunctionSpec(
    name="lifecycle_webhook",
    settings=LifecycleWebhookSettings,
    timing=timings.LIFECYCLE_WEBHOOK,
    memory_mib=512,
    part=Part.LIFECYCLE,
    grants=(_WAKE_KING, _WAKE_GENERAL),
)
LIFECYCLE_KING = FunctionSpec(
    name="lifecycle_king",
    settings=LifecycleKingSettings,
    timing=timings.LIFECYCLE_KING,
    memory_mib=512,
    part=Part.LIFECYCLE,
    grants=(_WAKE_GENERAL, _WAKE_ENVOY),
)
LIFECYCLE_GENERAL = FunctionSpec(
    name="lifecycle_general",
    settings=LifecycleGeneralSettings,
    timing=timings.LIFECYCLE_GENERAL,
    memory_mib=512,
    part=Part.LIFECYCLE,
    grants=(
        Grant(Resource.RUN_QUEUE, ("sqs:SendMessage",)),
        Grant(Resource.RESULT_OBJECTS, ("s3:GetObject",)),
        # As reconcile: to tell a lost envelope from an outage.
        Grant(Resource.RESULTS_BUCKET, ("s3:ListBucket",)),
        Grant(Resource.STATE_OBJECTS, ("s3:PutObject",)),
        _WAKE_KING,
        _WAKE_ENVOY,
    ),
)
LIFECYCLE_ENVOY = FunctionSpec(
    name="lifecycle_envoy",
    settings=LifecycleEnvoySettings,
    timing=timings.LIFECYCLE_ENVOY,
    memory_mib=512,
    part=Part.LIFECYCLE,
    grants=(_ASK_OUTSIDE,),
)
LIFECYCLE_OUTSIDE = FunctionSpec(
    name="lifecycle_outside",
    settings=LifecycleOutsideSettings,
    timing=timings.LIFECYCLE_OUTSIDE,
    memory_mib=512,
    in_network=False,
    part=Part.LIFECYCLE,
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
        Grant(Resource.RUN_QUEUE, ("sqs:SendMessage", "sqs:GetQueueAttributes")),  # a redrive; how many wait
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
        _WAKE_GENERAL,
    ),
)

REQUEST_FUNCTIONS = (
    RUNS_SUBMIT,
    RUNS_READ,
    RUNS_MCP,
    HEALTH,
    API_DOCS,
    TICKETS_API,
    AUTH_ERRORS_API,
    WORKSPACES_API,
    LIFECYCLE_WEBHOOK,
)
JOBS = (RUN_REAPER, RUN_SWEEPER, RUN_RECONCILE, RUN_RETENTION, OPS_CYCLE, LIFECYCLE_CHAMBERLAIN)
ROLES = (LIFECYCLE_SENTINEL, LIFECYCLE_KING, LIFECYCLE_GENERAL, LIFECYCLE_ENVOY)
"""Whose heartbeats the chamberlain watches (LIFE-11)."""
SCHEDULED_FUNCTIONS = (*JOBS, *ROLES)
EVENT_FUNCTIONS = (AUTH_ERRORS_PUBLISH, AUTH_ERRORS_CONSUME, WORKSPACES_CONTROL, WORKSPACES_STORAGE)
FUNCTIONS = (
    *REQUEST_FUNCTIONS,
    RUN_WORKER,
    PACK_OUTSIDE,
    *EVENT_FUNCTIONS,
    *SCHEDULED_FUNCTIONS,
    LIFECYCLE_OUTSIDE,
    MIGRATE,
    OPERATE,
)


def functions_of(parts: Collection[Part]) -> tuple[FunctionSpec, ...]:
    """Those that a deployment with these parts has."""
    return tuple(spec for spec in FUNCTIONS if spec.is_of(parts))
