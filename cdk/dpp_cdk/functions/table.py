"""The functions, as data: timing, memory, grants and layers of each. `function.py` builds them.

A function gets the environment variables that its settings model reads and the grants listed here, nothing else.

None has SnapStart or provisioned concurrency. The first request of a container waits about a second for its imports
(`make bench-cold`). Third-party packages account for four fifths of that, because their `__init__`s load more than is
used: 0.59 of the instructions of the cookbook's handler (1.40 of 2.39 billion, by valgrind), so no handler with these
packages can take less than half as long as that one. A snapshot costs by the hour and version, a kept-warm instance by
the hour; both would be paid for starts that are rare in a busy deployment. A handler reads nothing at import, so either
can be switched on.
"""

from collections.abc import Collection

from dpp_cdk.functions.spec import FunctionSpec, Grant, LayerName, Part, Resource
from dpp_cdk.settings import timings

_SEND_RUN = Grant(Resource.RUN_QUEUE, ("sqs:SendMessage",))
_READ_RESULT = Grant(Resource.RESULT_OBJECTS, ("s3:GetObject",))
# Without ListBucket S3 answers 403 for a missing object, so a lost one would look like an outage.
_LIST_RESULTS = Grant(Resource.RESULTS_BUCKET, ("s3:ListBucket",))
_READ_ARCHIVE = Grant(Resource.ARCHIVE_OBJECTS, ("s3:GetObject",))
_LIST_ARCHIVES = Grant(Resource.ARCHIVES_BUCKET, ("s3:ListBucket",))
# An operator or a redrive receives dead letters, hides them meanwhile, and deletes those that are dealt with.
_HANDLE_MESSAGES = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")
_DEAD_LETTERS = Grant(Resource.DEAD_LETTERS, _HANDLE_MESSAGES)
# A function that writes an event, or sends a dead one again, wakes the publisher (AUTH-4).
_WAKE_PUBLISHER = Grant(Resource.AUTH_ERROR_WAKE, ("sqs:SendMessage",))
# The reports' copies (TIX-4); readers get a report from Postgres.
_REPORTS = Grant(Resource.REPORT_OBJECTS, ("s3:PutObject",))
# A function that changes a workspace's desired state has it observed; the tick finds lost hints (WS-5).
_HINT = Grant(Resource.WORKSPACE_OBSERVE_QUEUE, ("sqs:SendMessage",))
_HAND_OVER = Grant(Resource.WORKSPACE_WORK_QUEUE, ("sqs:SendMessage",))
# A role that makes work for another role wakes it; otherwise the other's schedule finds the work within a minute. Two
# concurrent invocations of king, general or envoy share the work.
_WAKE_KING, _WAKE_GENERAL, _WAKE_ENVOY = (
    Grant(role, ("lambda:InvokeFunction",)) for role in (Resource.KING, Resource.GENERAL, Resource.ENVOY)
)
_CALL_OUTSIDE = Grant(Resource.LIFECYCLE_OUTSIDE, ("lambda:InvokeFunction",))
# The objects of tasks whose rows are deleted (LIFE-3, LIFE-4).
_DELETE_STATE = Grant(Resource.STATE_OBJECTS, ("s3:DeleteObject",))

# API functions
RUNS_SUBMIT = FunctionSpec("runs_submit", timings.RUNS_SUBMIT, grants=(_SEND_RUN,))
# Reads results for `inline`; URLs are signed by the role of `signing.py`.
RUNS_READ = FunctionSpec("runs_read", timings.RUNS_READ, grants=(_READ_RESULT,))
# A tool call is a submit.
RUNS_MCP = FunctionSpec("runs_mcp", timings.RUNS_MCP, grants=RUNS_SUBMIT.grants)
HEALTH = FunctionSpec(
    "health",
    timings.HEALTH,
    memory_mib=256,
    grants=(Grant(Resource.RUN_QUEUE, ("sqs:GetQueueAttributes",)), _LIST_RESULTS),  # HeadBucket
)
# Serves the files of its layer to anybody: no variable, no grant, no network.
API_DOCS = FunctionSpec(
    "api_docs",
    timings.API_DOCS,
    memory_mib=256,
    in_network=False,
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.API_DOCS),
)
TICKETS_API = FunctionSpec("tickets_api", timings.TICKETS_API, grants=(_REPORTS,))
AUTH_ERRORS_API = FunctionSpec("auth_errors_api", timings.AUTH_ERRORS_API, grants=(_WAKE_PUBLISHER,))
WORKSPACES_API = FunctionSpec("workspaces_api", timings.WORKSPACES_API, part=Part.WORKSPACES, grants=(_HINT,))
LIFECYCLE_WEBHOOK = FunctionSpec(
    "lifecycle_webhook", timings.LIFECYCLE_WEBHOOK, part=Part.LIFECYCLE, grants=(_WAKE_KING, _WAKE_GENERAL)
)

# Functions of queues
RUN_WORKER = FunctionSpec(
    "run_worker",
    timings.RUN_WORKER,
    memory_mib=1769,  # the least memory with a whole CPU, which decides how fast ocr reads a page
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.OCR, LayerName.URL),
    grants=(
        # Writes envelopes, and reads the one that an eval run is compared with.
        Grant(Resource.RESULT_OBJECTS, ("s3:GetObject", "s3:PutObject")),
        Grant(Resource.INPUT_OBJECTS, ("s3:GetObject",)),  # by the URLs that it signs for its pack process
        Grant(Resource.PACK_OUTSIDE, ("lambda:InvokeFunction",)),
    ),
)
AUTH_ERRORS_PUBLISH = FunctionSpec(
    "auth_errors_publish", timings.AUTH_ERRORS_PUBLISH, grants=(Grant(Resource.AUTH_ERROR_QUEUE, ("sqs:SendMessage",)),)
)
AUTH_ERRORS_CONSUME = FunctionSpec(
    "auth_errors_consume",
    timings.AUTH_ERRORS_CONSUME,
    grants=(Grant(Resource.AUTH_ERROR_DEAD_LETTERS, ("sqs:SendMessage",)), _WAKE_PUBLISHER),
)
WORKSPACES_CONTROL = FunctionSpec(
    "workspaces_control",
    timings.WORKSPACES_CONTROL,
    part=Part.WORKSPACES,
    mounts_homes=True,
    grants=(_HINT, _HAND_OVER, _READ_ARCHIVE, _LIST_ARCHIVES),
)
WORKSPACES_STORAGE = FunctionSpec(
    "workspaces_storage",
    timings.WORKSPACES_STORAGE,
    memory_mib=1769,  # a whole CPU, which decides how fast a home is compressed
    part=Part.WORKSPACES,
    mounts_homes=True,
    grants=(
        _HINT,
        _HAND_OVER,
        Grant(Resource.ARCHIVE_OBJECTS, ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")),
        _LIST_ARCHIVES,
    ),
)

# Functions that other functions call, outside of the VPC
PACK_OUTSIDE = FunctionSpec(
    "pack_outside",
    timings.PACK_OUTSIDE,
    memory_mib=1024,
    in_network=False,
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.URL),
    grants=(Grant(Resource.DECISION_MODEL, ("bedrock:InvokeModel",)),),
)
LIFECYCLE_OUTSIDE = FunctionSpec("lifecycle_outside", timings.LIFECYCLE_OUTSIDE, in_network=False, part=Part.LIFECYCLE)

# Scheduled jobs
RUN_REAPER = FunctionSpec("run_reaper", timings.RUN_REAPER, alone=True)
RUN_SWEEPER = FunctionSpec("run_sweeper", timings.RUN_SWEEPER, alone=True)
RUN_RECONCILE = FunctionSpec(
    "run_reconcile", timings.RUN_RECONCILE, alone=True, grants=(_SEND_RUN, _READ_RESULT, _LIST_RESULTS)
)
RUN_RETENTION = FunctionSpec("run_retention", timings.RUN_RETENTION, alone=True)
OPS_CYCLE = FunctionSpec("ops_cycle", timings.OPS_CYCLE, alone=True, grants=(_SEND_RUN, _DEAD_LETTERS, _REPORTS))
LIFECYCLE_CHAMBERLAIN = FunctionSpec(
    "lifecycle_chamberlain", timings.LIFECYCLE_CHAMBERLAIN, alone=True, grants=(_DELETE_STATE, _WAKE_ENVOY)
)

# The roles that carry an event to its answer (LIFE-1 … LIFE-7, LIFE-10)
LIFECYCLE_SENTINEL = FunctionSpec(
    "lifecycle_sentinel",
    timings.LIFECYCLE_SENTINEL,
    alone=True,
    part=Part.LIFECYCLE,
    grants=(_CALL_OUTSIDE, _WAKE_KING),
)
LIFECYCLE_KING = FunctionSpec(
    "lifecycle_king", timings.LIFECYCLE_KING, part=Part.LIFECYCLE, grants=(_WAKE_GENERAL, _WAKE_ENVOY)
)
LIFECYCLE_GENERAL = FunctionSpec(
    "lifecycle_general",
    timings.LIFECYCLE_GENERAL,
    part=Part.LIFECYCLE,
    grants=(
        _SEND_RUN,
        _READ_RESULT,
        _LIST_RESULTS,
        Grant(Resource.STATE_OBJECTS, ("s3:PutObject",)),
        _WAKE_KING,
        _WAKE_ENVOY,
    ),
)
LIFECYCLE_ENVOY = FunctionSpec("lifecycle_envoy", timings.LIFECYCLE_ENVOY, part=Part.LIFECYCLE, grants=(_CALL_OUTSIDE,))

# Functions that are invoked by name
MIGRATE = FunctionSpec("migrate", timings.MIGRATE, layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.MIGRATIONS))
# No API route and no event source: only callers to whom IAM gives lambda:InvokeFunction on it.
OPERATE = FunctionSpec(
    "operate",
    timings.OPERATE,
    layers=(LayerName.DEPS, LayerName.DOMAIN, LayerName.OPERATE),
    grants=(
        Grant(Resource.RUN_QUEUE, ("sqs:SendMessage", "sqs:GetQueueAttributes")),  # redrive; the queue's depth
        _DEAD_LETTERS,
        Grant(Resource.AUTH_ERROR_DEAD_LETTERS, _HANDLE_MESSAGES),
        _WAKE_PUBLISHER,
        _REPORTS,
        _READ_RESULT,
        _LIST_RESULTS,
        _HINT,
        _HAND_OVER,
        _READ_ARCHIVE,
        _LIST_ARCHIVES,
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
"""The roles whose heartbeats the chamberlain checks (LIFE-11)."""
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
    """The functions of a deployment with these parts."""
    return tuple(spec for spec in FUNCTIONS if spec.is_of(parts))
