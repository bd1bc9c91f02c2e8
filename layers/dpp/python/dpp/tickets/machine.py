"""The states of a ticket and every transition between them (000 §4; TIX-2).

A trigger of the table rejects any other transition, and docs/tickets.md is generated from `MACHINE`.
"""

from enum import StrEnum

from dpp.platform.state_machine import StateMachine, Transition


class TicketStatus(StrEnum):
    """The state of a ticket."""

    OPEN = "OPEN"
    IN_PROGRESS = "IN_PROGRESS"
    DONE = "DONE"
    FAILED = "FAILED"


_S = TicketStatus
MACHINE = StateMachine(
    (
        Transition(None, _S.OPEN, "file_ticket", "an operator"),
        Transition(_S.OPEN, _S.IN_PROGRESS, "take_open", "the ops cycle"),
        Transition(_S.IN_PROGRESS, _S.IN_PROGRESS, "take_again", "the ops cycle"),
        Transition(_S.IN_PROGRESS, _S.DONE, "finish", "the ops cycle"),
        Transition(_S.IN_PROGRESS, _S.FAILED, "finish", "the ops cycle"),
        Transition(_S.IN_PROGRESS, _S.FAILED, "reap", "the reaper"),
    ),
    terminal=frozenset({_S.DONE, _S.FAILED}),
)
