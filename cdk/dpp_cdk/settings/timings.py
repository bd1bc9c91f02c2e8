"""All timeouts and the rules between them. A combination that breaks a rule raises ValueError at synthesis."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpp.auth_errors.config import DEAD_LETTER_RETENTION_DAYS, QUEUE_RETENTION_DAYS
from dpp.auth_errors.outbox import consume, publish
from dpp.lifecycle.flow import egress, notifier, outside, runner, tick
from dpp.lifecycle.flow.intake import poller
from dpp.lifecycle.flow.model import Source
from dpp.lifecycle.retention import cleaner
from dpp.packs.outside import START_SECONDS
from dpp.platform.aws import clients
from dpp.tickets import cycle, process, reap

GATEWAY_TIMEOUT_SECONDS = 29
"""API Gateway's integration timeout; a function behind it must answer sooner."""

MAX_TIMEBOX_SECONDS = 90
"""The longest run of a pack (RUN-3)."""

MAX_FUNCTION_SECONDS = 900
"""The longest timeout of a Lambda function."""

MAX_RETENTION_DAYS = 14
"""The longest retention of a message in SQS."""

ROOM_TO_ANSWER_SECONDS = 5
"""The time that an API function needs in addition to one AWS call that times out."""

_DAY_SECONDS = 24 * 3600

ADVISED_VISIBILITY_FACTOR = 6
"""AWS recommends a visibility timeout of six times the function's timeout (Lambda guide, "Using Lambda with Amazon
SQS"), so that a throttled poller can retry before the message becomes visible again."""


@dataclass(frozen=True)
class RequestTiming:
    """A function behind the API."""

    timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds >= GATEWAY_TIMEOUT_SECONDS:
            raise ValueError(f"an API function must time out before the gateway does: {self}")


@dataclass(frozen=True)
class QueueTiming:
    """A queue and the function that consumes it.

    A message that becomes visible while its function still works on it is worked on twice, so the visibility timeout is
    at least the time of a whole batch (AWS rejects one below the function's timeout). Below six times the timeout,
    `short_because` gives the reason. `max_receives` None: no dead-letter queue. A dead-letter queue keeps messages as
    long as SQS can, unless `dead_letter_days` is less.
    """

    timeout_seconds: int
    visibility_seconds: int
    max_receives: int | None
    delay_seconds: int = 0
    batch_size: int = 1
    retention_seconds: int = 4 * _DAY_SECONDS
    dead_letter_days: int = MAX_RETENTION_DAYS
    short_because: str = ""

    def __post_init__(self) -> None:
        if self.visibility_seconds < self.timeout_seconds:
            raise ValueError(f"the message would become visible while it is worked on: {self}")
        if self.visibility_seconds < ADVISED_VISIBILITY_FACTOR * self.timeout_seconds:
            if not self.short_because:
                raise ValueError(f"the visibility is below six timeouts: set short_because to the reason: {self}")
            if self.batch_size != 1:
                raise ValueError(f"a message behind another in the batch would exceed its visibility: {self}")
        if self.max_receives is not None and self.max_receives < 2:
            raise ValueError(f"a single failure would make a message a dead letter: {self}")
        if self.retention_seconds < self.delay_seconds + self.visibility_seconds:
            raise ValueError(f"the message would expire before a retry: {self}")
        # A dead letter's retention counts from its first send (SQS guide, "Using dead-letter queues").
        if self.dead_letter_days * _DAY_SECONDS <= self.retention_seconds:
            raise ValueError(f"a late dead letter would expire at once: {self}")
        if self.dead_letter_days > MAX_RETENTION_DAYS:
            raise ValueError(f"SQS keeps messages for at most {MAX_RETENTION_DAYS} days: {self}")


@dataclass(frozen=True)
class ScheduleTiming:
    """A scheduled function; its work is bounded, so that one tick ends before the next."""

    timeout_seconds: int
    every_seconds: int = 60

    def __post_init__(self) -> None:
        if self.timeout_seconds > self.every_seconds:
            raise ValueError(f"a tick would overlap the next: {self}")


@dataclass(frozen=True)
class DeployTiming:
    """A function that runs during a deployment; CloudFormation waits for it a little longer than its timeout."""

    timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds > MAX_FUNCTION_SECONDS:
            raise ValueError(f"Lambda's longest timeout is {MAX_FUNCTION_SECONDS} s: {self}")

    @property
    def patience_seconds(self) -> int:
        """CloudFormation's timeout, after which the function has certainly ended."""
        return self.timeout_seconds + 60


@dataclass(frozen=True)
class InvokedTiming:
    """A function that another function calls and waits for; the caller's timeout must be longer."""

    timeout_seconds: int
    caller_timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds >= self.caller_timeout_seconds:
            raise ValueError(f"the caller would time out before the answer: {self}")


@dataclass(frozen=True)
class OperatorTiming:
    """A function that an operator waits for."""

    timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds > MAX_FUNCTION_SECONDS:
            raise ValueError(f"Lambda's longest timeout is {MAX_FUNCTION_SECONDS} s: {self}")


type Timing = RequestTiming | QueueTiming | ScheduleTiming | DeployTiming | InvokedTiming | OperatorTiming


@dataclass(frozen=True)
class LeaseTiming:
    """An exclusive lease and the functions that take it.

    A holder that outlived its lease would work concurrently with the next one.
    """

    lease_seconds: int
    holders: Sequence[Timing]

    def __post_init__(self) -> None:
        if any(holder.timeout_seconds >= self.lease_seconds for holder in self.holders):
            raise ValueError(f"a function could outlive its lease: {self}")


def _half_minute_queue(schedule: ScheduleTiming) -> QueueTiming:
    """Rules run once a minute (D10); the tick in between is the same event, delayed by half a minute."""
    return QueueTiming(
        timeout_seconds=schedule.timeout_seconds,
        visibility_seconds=30,
        max_receives=None,
        delay_seconds=30,
        retention_seconds=60,
        short_because="a tick that is a minute old is useless: the next one follows",
    )


RUNS_SUBMIT = RequestTiming(timeout_seconds=15)
RUNS_READ = RequestTiming(timeout_seconds=15)
RUNS_MCP = RequestTiming(timeout_seconds=15)
HEALTH = RequestTiming(timeout_seconds=10)
API_DOCS = RequestTiming(timeout_seconds=10)
TICKETS_API = RequestTiming(timeout_seconds=15)
AUTH_ERRORS_API = RequestTiming(timeout_seconds=15)
WORKSPACES_API = RequestTiming(timeout_seconds=15)

# After an AWS call that times out there must be time to release the reservation and to answer.
for _timing in (RUNS_SUBMIT, RUNS_READ, RUNS_MCP, TICKETS_API, AUTH_ERRORS_API, WORKSPACES_API):
    if _timing.timeout_seconds < clients.LONGEST_CALL_SECONDS + ROOM_TO_ANSWER_SECONDS:
        raise ValueError("an API function would time out before it could answer that AWS is unavailable")

# RUN-15: visibility 120 s, three receives. Beside the timebox the worker has 30 s to load inputs, store the envelope
# and finalize. After its timeout the lease (120 s, too) has expired, and the reaper takes the run.
RUN_WORKER = QueueTiming(
    timeout_seconds=120,
    visibility_seconds=120,
    max_receives=3,
    short_because="RUN-15 locks 120 s; the heartbeat extends it, and the maximum concurrency avoids throttled pollers",
)
if RUN_WORKER.timeout_seconds < MAX_TIMEBOX_SECONDS + 30:
    raise ValueError("the worker would time out before it could finalize a run that used its whole timebox")

# The timebox, up to 15 s to start the pack process, 2 s to end it; the caller waits as long and then finalizes.
PACK_OUTSIDE = InvokedTiming(
    timeout_seconds=MAX_TIMEBOX_SECONDS + START_SECONDS + 5, caller_timeout_seconds=RUN_WORKER.timeout_seconds
)

RUN_REAPER = ScheduleTiming(timeout_seconds=25, every_seconds=30)
RUN_REAPER_HALF_MINUTE = _half_minute_queue(RUN_REAPER)
RUN_SWEEPER = ScheduleTiming(timeout_seconds=60)
RUN_RECONCILE = ScheduleTiming(timeout_seconds=60)
RUN_RETENTION = ScheduleTiming(timeout_seconds=60)
OPS_CYCLE = ScheduleTiming(timeout_seconds=60)
LIFECYCLE_CHAMBERLAIN = ScheduleTiming(timeout_seconds=60)

# LIFE-1 … LIFE-7: each role accepts work for `tick.TIME_LIMIT_SECONDS`, the sentinel for its time per source.
LIFECYCLE_SENTINEL = ScheduleTiming(timeout_seconds=60)
LIFECYCLE_KING = ScheduleTiming(timeout_seconds=30)
LIFECYCLE_GENERAL = ScheduleTiming(timeout_seconds=30, every_seconds=30)
LIFECYCLE_GENERAL_HALF_MINUTE = _half_minute_queue(LIFECYCLE_GENERAL)
LIFECYCLE_ENVOY = ScheduleTiming(timeout_seconds=45)
LIFECYCLE_WEBHOOK = RequestTiming(timeout_seconds=15)
LIFECYCLE_OUTSIDE = InvokedTiming(
    timeout_seconds=outside.REPLY_SECONDS - 1, caller_timeout_seconds=outside.REPLY_SECONDS
)
if LIFECYCLE_OUTSIDE.timeout_seconds <= egress.DEADLINE_SECONDS:
    raise ValueError("lifecycle_outside would time out before it could report that the other side does not answer")
if LIFECYCLE_SENTINEL.timeout_seconds <= len(Source) * (poller.POLL_TIME_SECONDS + outside.REPLY_SECONDS):
    raise ValueError("the sentinel would time out during a poll")
if LIFECYCLE_ENVOY.timeout_seconds <= tick.TIME_LIMIT_SECONDS + outside.REPLY_SECONDS:
    raise ValueError("the envoy would time out during its last message, which would then be sent twice")

# AUTH-5, AUTH-8: the ledger counts attempts and makes failed events dead letters. A receive is not an attempt: a
# message that came too early, or during an outage, returns without one. So SQS's maximum of receives is above twice the
# largest retry setting, and above ten hours of an outage at one receive per visibility timeout. It is the last resort
# for a message that throttled pollers receive repeatedly, or that kills its function before the attempt is recorded;
# its event is sent again from the outbox.
AUTH_ERRORS_CONSUME = QueueTiming(
    timeout_seconds=25,
    visibility_seconds=150,
    max_receives=250,
    batch_size=10,
    retention_seconds=QUEUE_RETENTION_DAYS * _DAY_SECONDS,
    dead_letter_days=DEAD_LETTER_RETENTION_DAYS,
)
# AUTH-4: a message only wakes the publisher; one that is minutes old has been superseded by a tick.
AUTH_ERRORS_PUBLISH = QueueTiming(
    timeout_seconds=30, visibility_seconds=180, max_receives=None, batch_size=10, retention_seconds=300
)

# WS-5, D10: a message only names a workspace to observe. One that is lost, or expired after its hour, is sent again by
# the tick, from the rows.
WORKSPACES_CONTROL = QueueTiming(
    timeout_seconds=60, visibility_seconds=360, max_receives=None, batch_size=5, retention_seconds=3600
)
# WS-10: the size of a home is limited by Lambda's longest timeout. The row hands unfinished work over again.
WORKSPACES_STORAGE = QueueTiming(
    timeout_seconds=MAX_FUNCTION_SECONDS,
    visibility_seconds=MAX_FUNCTION_SECONDS,
    max_receives=None,
    retention_seconds=4 * 3600,
    short_because="the row's lease excludes a second delivery, and the maximum concurrency avoids throttled pollers",
)

MIGRATE = DeployTiming(timeout_seconds=600)
OPERATE = OperatorTiming(timeout_seconds=120)

# TIX-5, TIX-6: the domain defines the leases but knows no functions; here each lease is checked against its holders.
TICKET_REAPER_LEASE = LeaseTiming(reap.LEASE_SECONDS, (TICKETS_API, OPS_CYCLE, OPERATE))
OPS_CYCLE_LEASE = LeaseTiming(cycle.LEASE_SECONDS, (OPS_CYCLE,))
TASK_LEASE = LeaseTiming(runner.LEASE_SECONDS, (LIFECYCLE_GENERAL,))
MESSAGE_LEASE = LeaseTiming(notifier.LEASE_SECONDS, (LIFECYCLE_ENVOY,))
CHAMBERLAIN_LEASE = LeaseTiming(cleaner.LEASE_SECONDS, (LIFECYCLE_CHAMBERLAIN, OPERATE))
TICKET_SILENCE = LeaseTiming(process.SILENT_SECONDS, (OPS_CYCLE,))
# AUTH-4, AUTH-5: an owner has ended before its event is taken over, and a consumer before its lease expires.
OUTBOX_SILENCE = LeaseTiming(publish.SILENT_SECONDS, (AUTH_ERRORS_PUBLISH,))
LEDGER_LEASE = LeaseTiming(consume.LEASE_SECONDS, (AUTH_ERRORS_CONSUME,))
if AUTH_ERRORS_PUBLISH.timeout_seconds < publish.TIME_LIMIT_SECONDS * 1.5:
    raise ValueError("the publisher would time out during its last claim")
if OPS_CYCLE.timeout_seconds < process.TIME_LIMIT_SECONDS * 2:
    raise ValueError("the ops cycle would time out during its last ticket")
