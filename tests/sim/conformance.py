"""The same calls on a model and on the real thing, for the conformance tests beside this file."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, cast

import psycopg
from hypothesis import HealthCheck, settings

from dpp.money import credits as accounts
from dpp.money.keys import KeySpace
from dpp.money.ledger import Ledger, LedgerError
from dpp.platform.db.postgres import Connection
from dpp.platform.errors import DependencyUnavailable
from dpp.runs.errors import DuplicateKey, SwitchedOff
from dpp.runs.operations.switch import DecisionConflict
from dpp_cli.local.servers import ValkeyServer
from tests.sim.faults import Fault
from tests.sim.model_postgres import Tables
from tests.sim.model_redis import Keys
from tests.sim.ports import SimConnection, SimRedis

HASH, OTHER_HASH = "ab" * 32, "cd" * 32
TENANT = "t_conformance"
EXAMPLES = settings(
    max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Direct:
    """A wire on which nothing is late and nothing fails."""

    def call(self, _port: str, _operation: str, effect: Callable[[], Any], *_: object) -> Any:
        return effect()

    def wait(self, _milliseconds: int, ready: Callable[[], bool]) -> bool:
        return ready()

    def strikes(self, _fault: Fault) -> bool:
        return False

    def delay_ms(self) -> int:
        return 0

    def now_ms(self) -> int:
        return int(time.time() * 1000)

    def now(self) -> datetime:
        return datetime.now(UTC)


@contextmanager
def both(database_url: str) -> Iterator[tuple[Connection, Connection]]:
    """The model's connection and a real one, with one tenant each."""
    wire: Any = Direct()
    model = cast(Connection, SimConnection(wire, Tables()))
    with psycopg.connect(database_url, autocommit=True) as real:
        real.execute("SET session_replication_role = replica")  # else only tombstones go
        real.execute("DELETE FROM runs")
        real.execute("SET session_replication_role = origin")
        real.execute("DELETE FROM execution_switches")
        for connection in (model, real):
            accounts.create_tenant(connection, TENANT, "A tenant")
        yield model, real


def outcome(call: Callable[[], object]) -> object:
    """What a call answers, or which error it raises."""
    try:
        return call()
    except DuplicateKey:
        return "DuplicateKey"
    except SwitchedOff:
        return "SwitchedOff"
    except DecisionConflict as error:
        return "DecisionConflict", str(error)
    except psycopg.IntegrityError as error:
        return "refused", error.diag.constraint_name
    except (LedgerError, DependencyUnavailable) as error:
        return type(error).__name__, str(error)


@contextmanager
def two_ledgers(server: ValkeyServer) -> Iterator[tuple[Ledger, Ledger]]:
    wire: Any = Direct()
    client: Any = SimRedis(wire, Keys(), lambda _names: None)
    real = Ledger.connect(server.url)
    try:
        yield Ledger(client, KeySpace()), real
    finally:
        real.client.close()
