"""The kinds of failures that a simulation can inject; each can be switched off."""

from enum import StrEnum


class Fault(StrEnum):
    """One kind of fault."""

    REFUSED = "refused"
    """The call fails and has no effect."""
    REPLY_LOST = "reply lost"
    """The call takes effect, and the caller gets an error, at once or after 5 s."""
    SLOW = "slow"
    """The call takes effect after a delay, unless its process reaches its timeout before."""
    CRASH = "crash"
    """The process dies before the call."""
    CRASH_AFTER = "crash after"
    """The process dies after the call has taken effect."""
    CRASH_IN_FLIGHT = "crash in flight"
    """The process dies, and its call takes effect later."""
    HEARTBEAT_STILL = "heartbeat still"
    """A worker's heartbeat thread never runs, so the lease expires during the work."""
    MARK_LATE = "mark late"
    """The sender of a message records late that it was sent; a worker may have received it before."""
    SCRIPTS_LOST = "scripts lost"
    """Redis has lost its script cache (a restart): it does not know the digest."""
    REDIS_LOSS = "redis loses writes"
    """A failover loses the last writes; the audit in reconcile repairs the ledger from Postgres."""
    REDIS_FLUSH = "redis starts empty"
    """Redis loses all data; reconcile rebuilds the ledger from Postgres."""
    MESSAGE_LOST = "message lost"
    """SQS accepts a message and never delivers it."""
    MESSAGE_DOUBLED = "message doubled"
    """A message is delivered twice, or again after it was deleted."""
    MESSAGE_DELAYED = "message delayed"
    """A message becomes visible late."""
    CLOCK_SKEW = "clock skew"
    """A function's own clock is wrong by up to 10 minutes."""


ANYWHERE = (Fault.REFUSED, Fault.REPLY_LOST, Fault.SLOW, Fault.CRASH, Fault.CRASH_AFTER, Fault.CRASH_IN_FLIGHT)
"""The faults that can strike any call."""

ALL = frozenset(Fault)
KEPT_DATA = ALL - {Fault.REDIS_LOSS, Fault.REDIS_FLUSH}
"""Redis keeps its data, so nothing may need a repair: a bug can't hide behind the repair."""
