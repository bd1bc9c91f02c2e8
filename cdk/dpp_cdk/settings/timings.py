"""Every timeout, and the rules between them: a pair that breaks a rule can't be built, so never deployed."""

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
"""API Gateway gives up on an integration after this; a function behind it must answer sooner."""

MAX_TIMEBOX_SECONDS = 90
"""The longest a pack may run (RUN-3)."""

MAX_FUNCTION_SECONDS = 900
"""The longest a Lambda function may run."""

MAX_RETENTION_DAYS = 14
"""The longest that SQS keeps a message."""

ROOM_TO_ANSWER_SECONDS = 5
"""What a function behind the API has for all else than a call that AWS leaves unanswered."""

_DAY_SECONDS = 24 * 3600

ADVISED_VISIBILITY_FACTOR = 6
"""AWS advises a visibility timeout of six times the function's (Lambda guide, "Using Lambda with Amazon SQS"), so
that a poller that was throttled has time to try again before the message comes back."""


@dataclass(frozen=True)
class RequestTiming:
    """A function behind the API."""

    timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds >= GATEWAY_TIMEOUT_SECONDS:
            raise ValueError(f"a request function must end before the gateway does: {self}")


@dataclass(frozen=True)
class QueueTiming:
    """A queue and the function that empties it.

    A message that becomes visible while its function still works on it is worked on twice, so `visibility`
    is at least what a whole batch may take (AWS refuses the mapping below the timeout). Below six times the
    timeout, `short_because` says why that is right here. `max_receives` None: no dead-letter queue. One keeps a message
    as long as SQS can, unless `dead_letter_days` says less: an operator on holiday still finds it.
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
            raise ValueError(f"the message would come back while it is worked on: {self}")
        if self.visibility_seconds < ADVISED_VISIBILITY_FACTOR * self.timeout_seconds:
            if not self.short_because:
                raise ValueError(f"visibility is below six timeouts, and nothing says why: {self}")
            if self.batch_size != 1:
                raise ValueError(f"a message that waits behind another would use up its visibility: {self}")
        if self.max_receives is not None and self.max_receives < 2:
            raise ValueError(f"one hiccup would send a message to the dead letters: {self}")
        if self.retention_seconds < self.delay_seconds + self.visibility_seconds:
            raise ValueError(f"the message would be gone before it could be tried again: {self}")
        # A dead letter's time runs from its first sending (SQS guide, "Using dead-letter queues").
        if self.dead_letter_days * _DAY_SECONDS <= self.retention_seconds:
            raise ValueError(f"a message that died late would be gone at once: {self}")
        if self.dead_letter_days > MAX_RETENTION_DAYS:
            raise ValueError(f"SQS keeps nothing so long: {self}")


@dataclass(frozen=True)
class ScheduleTiming:
    """A function fired by the clock; its work is bounded, so that one firing ends before the next."""

    timeout_seconds: int
    every_seconds: int = 60

    def __post_init__(self) -> None:
        if self.timeout_seconds > self.every_seconds:
            raise ValueError(f"one firing would run into the next: {self}")


@dataclass(frozen=True)
class DeployTiming:
    """A function that runs during a deployment; CloudFormation waits for its answer a little longer than it may run."""

    timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds > MAX_FUNCTION_SECONDS:
            raise ValueError(f"Lambda runs nothing so long: {self}")

    @property
    def patience_seconds(self) -> int:
        """How long CloudFormation waits, past which the function is known to be dead."""
        return self.timeout_seconds + 60


@dataclass(frozen=True)
class InvokedTiming:
    """A function that another one asks and waits for, which must live longer."""

    timeout_seconds: int
    caller_timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds >= self.caller_timeout_seconds:
            raise ValueError(f"the caller would be gone before the answer: {self}")


@dataclass(frozen=True)
class OperatorTiming:
    """A function that a person waits for."""

    timeout_seconds: int

    def __post_init__(self) -> None:
        if self.timeout_seconds > MAX_FUNCTION_SECONDS:
            raise ValueError(f"Lambda runs nothing so long: {self}")


type Timing = RequestTiming | QueueTiming | ScheduleTiming | DeployTiming | InvokedTiming | OperatorTiming


@dataclass(frozen=True)
class LeaseTiming:
    """What one may do at a time, and the functions that do it.

    A holder that outlived its lease would be at it while the next one is: for some time it would be done twice.
    """

    lease_seconds: int
    holders: Sequence[Timing]

    def __post_init__(self) -> None:
        if any(holder.timeout_seconds >= self.lease_seconds for holder in self.holders):
            raise ValueError(f"a function would live on after its lease: {self}")


def _half_minute_beat(fired: ScheduleTiming) -> QueueTiming:
    """Rules fire once a minute (D10); the beat in between is the same event, delayed by half of it."""
    return QueueTiming(
        timeout_seconds=fired.timeout_seconds,
        visibility_seconds=30,
        max_receives=None,
        delay_seconds=30,
        retention_seconds=60,
        short_because="a beat that is a minute old is worth nothing: the next one is there",
    )


RUNS_SUBMIT = RequestTiming(timeout_seconds=15)
RUNS_READ = RequestTiming(timeout_seconds=15)
RUNS_MCP = RequestTiming(timeout_seconds=15)
HEALTH = RequestTiming(timeout_seconds=10)
API_DOCS = RequestTiming(timeout_seconds=10)
TICKETS_API = RequestTiming(timeout_seconds=15)
AUTH_ERRORS_API = RequestTiming(timeout_seconds=15)
WORKSPACES_API = RequestTiming(timeout_seconds=15)

# Who waits for AWS in vain has time left to give back what it has reserved, and to say so.
for _asks in (RUNS_SUBMIT, RUNS_READ, RUNS_MCP, TICKETS_API, AUTH_ERRORS_API, WORKSPACES_API):
    if _asks.timeout_seconds < clients.LONGEST_CALL_SECONDS + ROOM_TO_ANSWER_SECONDS:
        raise ValueError("a function behind the API would be killed before it could answer that AWS doesn't")

# RUN-15: visibility 120 s, three receives. The timebox leaves the worker 30 s to load inputs, store the
# envelope and finalize; past its timeout the lease (120 s too) is over, and the reaper takes the run.
RUN_WORKER = QueueTiming(
    timeout_seconds=120,
    visibility_seconds=120,
    max_receives=3,
    short_because="RUN-15 locks 120 s; the heartbeat extends it, and a maximum concurrency keeps pollers unthrottled",
)
if RUN_WORKER.timeout_seconds < MAX_TIMEBOX_SECONDS + 30:
    raise ValueError("the worker would be cut off before it could finalize a run that took its whole timebox")

# The timebox, up to 15 s for the pack process to start, 2 s to end it; the caller waits as long and then finalizes.
PACK_OUTSIDE = InvokedTiming(
    timeout_seconds=MAX_TIMEBOX_SECONDS + START_SECONDS + 5, caller_timeout_seconds=RUN_WORKER.timeout_seconds
)

RUN_REAPER = ScheduleTiming(timeout_seconds=25, every_seconds=30)
RUN_REAPER_BEAT = _half_minute_beat(RUN_REAPER)
RUN_SWEEPER = ScheduleTiming(timeout_seconds=60)
RUN_RECONCILE = ScheduleTiming(timeout_seconds=60)
RUN_RETENTION = ScheduleTiming(timeout_seconds=60)
OPS_CYCLE = ScheduleTiming(timeout_seconds=60)
LIFECYCLE_CHAMBERLAIN = ScheduleTiming(timeout_seconds=60)

# LIFE-1 … LIFE-7: each takes up work for `tick.TIME_LIMIT_SECONDS`, the sentinel for his time a source.
LIFECYCLE_SENTINEL = ScheduleTiming(timeout_seconds=60)
LIFECYCLE_KING = ScheduleTiming(timeout_seconds=30)
LIFECYCLE_GENERAL = ScheduleTiming(timeout_seconds=30, every_seconds=30)
LIFECYCLE_GENERAL_BEAT = _half_minute_beat(LIFECYCLE_GENERAL)
LIFECYCLE_ENVOY = ScheduleTiming(timeout_seconds=45)
LIFECYCLE_WEBHOOK = RequestTiming(timeout_seconds=15)
LIFECYCLE_OUTSIDE = InvokedTiming(
    timeout_seconds=outside.REPLY_SECONDS - 1, caller_timeout_seconds=outside.REPLY_SECONDS
)
if LIFECYCLE_OUTSIDE.timeout_seconds <= egress.DEADLINE_SECONDS:
    raise ValueError("the way outside would be cut off before it could say that nobody answered")
if LIFECYCLE_SENTINEL.timeout_seconds <= len(Source) * (poller.POLL_TIME_SECONDS + outside.REPLY_SECONDS):
    raise ValueError("the sentinel would be cut off in a poll")
if LIFECYCLE_ENVOY.timeout_seconds <= tick.TIME_LIMIT_SECONDS + outside.REPLY_SECONDS:
    raise ValueError(
        "the envoy would be cut off in the message that he took last, and it would be sent twice"
    )

# AUTH-5, AUTH-8: the ledger counts the tries and buries what fails. A receive is no try: what came too early or met an
# outage comes again for nothing. So SQS's own count lies beyond twice the retries that may be set, and beyond ten hours
# of an outage, at one receive in a visibility timeout. It is the last net, for a message that throttled pollers took
# again and again, or that ends its function before it is written down; its event is sent again from the outbox.
AUTH_ERRORS_CONSUME = QueueTiming(
    timeout_seconds=25,
    visibility_seconds=150,
    max_receives=250,
    batch_size=10,
    retention_seconds=QUEUE_RETENTION_DAYS * _DAY_SECONDS,
    dead_letter_days=DEAD_LETTER_RETENTION_DAYS,
)
# AUTH-4: a message only wakes; one that is minutes old says nothing that the schedule's beat hasn't said since.
AUTH_ERRORS_PUBLISH = QueueTiming(
    timeout_seconds=30, visibility_seconds=180, max_receives=None, batch_size=10, retention_seconds=300
)

# WS-5, D10: a message only says where to look. One that is lost, or that nobody could work on within its hour, is sent
# again by the beat, from what the rows say.
WORKSPACES_CONTROL = QueueTiming(
    timeout_seconds=60, visibility_seconds=360, max_receives=None, batch_size=5, retention_seconds=3600
)
# WS-10: a home as large as fits into the longest that a function may run. The row hands work over again.
WORKSPACES_STORAGE = QueueTiming(
    timeout_seconds=MAX_FUNCTION_SECONDS,
    visibility_seconds=MAX_FUNCTION_SECONDS,
    max_receives=None,
    retention_seconds=4 * 3600,
    short_because="the lease of the row keeps a second delivery out, and a maximum concurrency pollers unthrottled",
)

MIGRATE = DeployTiming(timeout_seconds=600)
OPERATE = OperatorTiming(timeout_seconds=120)

# TIX-5, TIX-6: the leases stand in the domain, which knows no function; here they meet who holds them.
TICKET_REAPER_LEASE = LeaseTiming(reap.LEASE_SECONDS, (TICKETS_API, OPS_CYCLE, OPERATE))
OPS_CYCLE_LEASE = LeaseTiming(cycle.LEASE_SECONDS, (OPS_CYCLE,))
TASK_LEASE = LeaseTiming(runner.LEASE_SECONDS, (LIFECYCLE_GENERAL,))
MESSAGE_LEASE = LeaseTiming(notifier.LEASE_SECONDS, (LIFECYCLE_ENVOY,))
CHAMBERLAIN_LEASE = LeaseTiming(cleaner.LEASE_SECONDS, (LIFECYCLE_CHAMBERLAIN, OPERATE))
TICKET_SILENCE = LeaseTiming(process.SILENT_SECONDS, (OPS_CYCLE,))
# AUTH-4, AUTH-5: an owner is dead before its event is taken over, and a consumer before its lease is over.
OUTBOX_SILENCE = LeaseTiming(publish.SILENT_SECONDS, (AUTH_ERRORS_PUBLISH,))
LEDGER_LEASE = LeaseTiming(consume.LEASE_SECONDS, (AUTH_ERRORS_CONSUME,))
if AUTH_ERRORS_PUBLISH.timeout_seconds < publish.TIME_LIMIT_SECONDS * 1.5:
    raise ValueError("the publisher would be cut off in what it claimed last")
if OPS_CYCLE.timeout_seconds < process.TIME_LIMIT_SECONDS * 2:
    raise ValueError("the ops cycle would be cut off in the ticket that it took last")
