"""Messages in the queues of workspaces (D10): observe a workspace or a page of the fleet, tick, long work, collection.

A message only says where to look; the rows say what to do. So a lost, repeated or late message costs only time, and an
unknown one is logged and dropped. The JSON keys are older than the names here, and stay for messages under way.
"""

import json
from dataclasses import dataclass
from uuid import UUID

from dpp.platform.ids import parse_uuid
from dpp.workspaces.store import NO_BOUND

MAX_DELAY_SECONDS = 900
"""The longest delay of an SQS message."""


@dataclass(frozen=True, slots=True)
class Observe:
    """Observe this workspace and take its next step."""

    workspace_id: UUID


@dataclass(frozen=True, slots=True)
class Work:
    """Do the long work of this workspace's operation."""

    workspace_id: UUID


@dataclass(frozen=True, slots=True)
class ObservePage:
    """Observe the page of the fleet above this sequence. `tick_number` selects whose archives are checked."""

    above: int
    tick_number: int


@dataclass(frozen=True, slots=True)
class Collect:
    """Collect unprotected archives after this key."""

    after: str | None


@dataclass(frozen=True, slots=True)
class Tick:
    """A tick. `is_minute`: sent by the schedule, each minute; a second one follows half a minute later (D10)."""

    is_minute: bool


type Message = Observe | Work | ObservePage | Collect | Tick


def body_of(message: Message) -> str:
    """The message as JSON."""
    match message:
        case Observe(workspace_id):
            return json.dumps({"look": str(workspace_id)})
        case Work(workspace_id):
            return json.dumps({"work": str(workspace_id)})
        case ObservePage(above, tick_number):
            return json.dumps({"fleet": {"above": above, "turn": tick_number}})
        case Collect(after):
            return json.dumps({"collect": {"after": after}})
        case Tick(is_minute):
            return json.dumps({"beat": "minute" if is_minute else "half"})


def parse(body: str) -> Message | None:
    """Parse a message; None if it is not one. An event of EventBridge's schedule is a tick."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    match found:
        case {"look": str(text)} if (workspace_id := parse_uuid(text)) is not None:
            return Observe(workspace_id)
        case {"work": str(text)} if (workspace_id := parse_uuid(text)) is not None:
            return Work(workspace_id)
        case {"fleet": {"above": int(above), "turn": int(number)}} if 0 <= above < NO_BOUND:
            return ObservePage(above, number)
        case {"collect": {"after": str() | None as after}}:
            return Collect(after)
        case {"detail-type": "Scheduled Event" as kind} | {"beat": "minute" | "half" as kind}:
            return Tick(is_minute=kind != "half")
        case _:
            return None
