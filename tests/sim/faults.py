"""What may go wrong, class by class; each can be switched off for a whole simulation or for one schedule."""

from enum import StrEnum


class Fault(StrEnum):
    """One class of faults."""

    REFUSED = "refused"
    """The call fails and has no effect."""
    REPLY_LOST = "reply lost"
    """The call takes effect, and the caller sees it fail, at once or after 5 s."""
    SLOW = "slow"
    """The call takes effect only after a while; a process whose time is over by then has vanished before it."""
    CRASH = "crash"
    """The process vanishes before the call."""
    CRASH_AFTER = "crash after"
    """The process vanishes once the call has taken effect."""
    CRASH_IN_FLIGHT = "crash in flight"
    """The process vanishes, and its call takes effect later all the same."""
    HEARTBEAT_STILL = "heartbeat still"
    """A worker's heartbeat gets no turn (a starved thread): its lease runs out while it works on."""
    MARK_LATE = "mark late"
    """Who has sent a message is slow to write so; a worker may have had it by then."""
    SCRIPTS_LOST = "scripts lost"
    """Redis has forgotten its scripts (a restart): the digest is unknown."""
    REDIS_LOSS = "redis loses writes"
    """A failover loses the writes of the last moments; reconcile's audit mends the ledger from Postgres."""
    REDIS_FLUSH = "redis starts empty"
    """Redis forgets everything; reconcile writes the ledger anew from Postgres."""
    MESSAGE_LOST = "message lost"
    """SQS took a message that nobody ever gets."""
    MESSAGE_DOUBLED = "message doubled"
    """A message is delivered twice, or again after it was deleted."""
    MESSAGE_DELAYED = "message delayed"
    """A message becomes visible late."""
    CLOCK_SKEW = "clock skew"
    """A function's own clock is up to 10 minutes wrong, before or behind."""


ANYWHERE = (
    Fault.REFUSED,
    Fault.REPLY_LOST,
    Fault.SLOW,
    Fault.CRASH,
    Fault.CRASH_AFTER,
    Fault.CRASH_IN_FLIGHT,
)
"""What may befall any call."""

ALL = frozenset(Fault)
