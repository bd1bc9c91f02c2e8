"""What travels in the queues of workspaces (D10): looks, pages of the fleet, beats, long work, collections.

A message only says where to look; what is to be done stands in the rows. So one that is lost, doubled or late costs
nothing but time, and one that nobody understands is dropped with a line in the log.
"""

import json
from dataclasses import dataclass
from uuid import UUID

from dpp.platform.ids import parse_uuid
from dpp.workspaces.store import NO_BOUND

MAX_DELAY_SECONDS = 900
"""As long as SQS holds a message back."""


@dataclass(frozen=True, slots=True)
class Look:
    """Observe this workspace and take its next step."""

    workspace_id: UUID


@dataclass(frozen=True, slots=True)
class Work:
    """Do the long work of this workspace's operation."""

    workspace_id: UUID


@dataclass(frozen=True, slots=True)
class Fleet:
    """Observe the page of the fleet above this sequence; `turn` says whose archives are asked for."""

    above: int
    turn: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Collect archives that nothing protects, behind this key."""

    after: str | None


@dataclass(frozen=True, slots=True)
class Beat:
    """Time has passed; `is_minute`: the clock's own, which is followed by another half a minute later (D10)."""

    is_minute: bool


type Message = Look | Work | Fleet | Collect | Beat


def body_of(message: Message) -> str:
    """The message as text."""
    match message:
        case Look(workspace_id):
            return json.dumps({"look": str(workspace_id)})
        case Work(workspace_id):
            return json.dumps({"work": str(workspace_id)})
        case Fleet(above, turn):
            return json.dumps({"fleet": {"above": above, "turn": turn}})
        case Collect(after):
            return json.dumps({"collect": {"after": after}})
        case Beat(is_minute):
            return json.dumps({"beat": "minute" if is_minute else "half"})


def parse(body: str) -> Message | None:
    """The message of a text; None for what is none. The clock's own event is a beat."""
    try:
        told = json.loads(body)
    except ValueError:
        return None
    clock = isinstance(told, dict) and told.get("detail-type") == "Scheduled Event"
    return Beat(is_minute=True) if clock else _message(told)


def _message(told: object) -> Message | None:
    match told:
        case {"look": str(text)} if (workspace_id := parse_uuid(text)) is not None:
            return Look(workspace_id)
        case {"work": str(text)} if (workspace_id := parse_uuid(text)) is not None:
            return Work(workspace_id)
        case {"fleet": {"above": int(above), "turn": int(turn)}} if 0 <= above < NO_BOUND:
            return Fleet(above, turn)
        case {"collect": {"after": str() | None as after}}:
            return Collect(after)
        case {"beat": "half" | "minute" as kind}:
            return Beat(is_minute=kind == "minute")
        case _:
            return None
