"""The page's figures on real servers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import uuid4

import psycopg
import pytest

from dpp_cli.operator.connect import Reach
from dpp_cli.top.gather import Gatherer, TopSettings
from dpp_cli.top.model import Condition, Snapshot
from tests.support.world import World


@dataclass(frozen=True)
class Watch:
    """A world, its dead-letter queues, and the page that looks at it."""

    world: World
    look: Callable[[], Snapshot]
    dead_letters: str
    event_dead_letters: str

    def conditions(self) -> dict[str, Condition]:
        """Return the current problems by entry and subject."""
        return {f"{one.entry.rpartition('#')[2]} {one.subject}".strip(): one for one in self.look().conditions}

    def wrong(self) -> set[str]:
        """Their names alone."""
        return set(self.conditions())

    def write(self, *statements: str) -> None:
        """Rows as they would stand, whatever way would have led there."""
        with psycopg.connect(self.world.database_url, autocommit=True) as connection:
            connection.execute("SET session_replication_role = replica")
            for statement in statements:
                connection.execute(statement.encode())


def environ(world: World, dead_letters: str, event_dead_letters: str) -> dict[str, str]:
    """The settings of `dpp top`."""
    return world.environ() | {
        "DPP_RUN_DEAD_LETTER_QUEUE_URL": dead_letters,
        "DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL": event_dead_letters,
    }


@pytest.fixture
def watch(world: World) -> Iterator[Watch]:
    dead, of_events = (str(world.sqs.create_queue(QueueName=f"dead-{uuid4().hex}")["QueueUrl"]) for _ in range(2))
    settings = TopSettings.load(environ(world, dead, of_events))
    with Gatherer(Reach(settings, None)) as look:
        yield Watch(world, look, dead, of_events)
