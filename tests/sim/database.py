"""One Postgres database in memory: rows, constraints, locks, and the statements compiled from the platform's SQL."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from dpp.money.books import QUERIES as MONEY
from dpp.runs.operations.switch import Switch
from dpp.runs.store import QUERIES as RUNS
from tests.sim.schema import ViolatedReference, ViolatedUnique, keys_of, tables, violated
from tests.sim.sql import Answer, Params, Row, Statement, Update, compile_statement

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""The start of every simulation."""
_NAMES: Mapping[str, str] = {queries[name]: name for queries in (RUNS, MONEY) for name in queries.names()}


@dataclass(slots=True)
class Database:
    """The rows of each table by primary key, and what the simulation records beside them."""

    stored: dict[str, dict[Any, Row]] = field(default_factory=lambda: {name: {} for name in tables()})
    decisions: list[Switch] = field(default_factory=list)
    """Decisions on the execution switch whose operator received a reply."""
    begun_while_disabled: list[tuple[UUID, str]] = field(default_factory=list)
    """Runs that were inserted or leased while their execution was disabled."""
    locks: dict[str, object] = field(default_factory=dict)
    """Lock -> the connection that holds it until its transaction ends."""
    _generated: int = 0

    @classmethod
    def of(cls, rows: Mapping[str, Iterable[Row]]) -> "Database":
        """A database with these rows, as read from a real one."""
        database = cls()
        for name, found in rows.items():
            columns = tables()[name].uniques[0].columns
            database.stored[name] = {keys_of(row, columns): row for row in found}
        return database

    def rows(self, table: str) -> list[Row]:
        """All rows of a table, in the order of their insertion."""
        return list(self.stored[table].values())

    @property
    def runs(self) -> dict[UUID, Row]:
        """The runs by id."""
        return self.stored["runs"]

    def insert(
        self, name: str, values: Row, now: datetime, keys: tuple[str, ...] | None, update: Update | None
    ) -> Row | None:
        """Insert a row, or update the one with equal `keys` (ON CONFLICT); None where nothing was written."""
        table = tables()[name]
        row: Row = {column: table.stored(column, values.get(column)) for column in table.columns}
        for column, default in table.defaults.items():
            if column not in values:
                row[column] = default(now)
        if table.generated:
            self._generated += 1
            row[table.generated] = self._generated
        table.check(row)
        if keys is not None:
            same = [other for other in self.rows(name) if keys_of(other, keys) == keys_of(row, keys)]
            if same:
                changes = update(same[0], row) if update else None
                return None if changes is None else self.update(name, same[0], changes, now)
        if key := violated(table, self.rows(name), row):
            raise ViolatedUnique(key.name)
        for column, referenced in table.references:
            if row[column] not in self.stored[referenced]:
                raise ViolatedReference(f"{name}_{column}_fkey")
        self.stored[name][keys_of(row, table.uniques[0].columns)] = row
        self._written(name, {}, row)
        return row

    def update(self, name: str, row: Row, changes: Row, now: datetime) -> Row:
        """Replace a row by its changed version, which is returned."""
        table = tables()[name]
        changed = row | {column: table.stored(column, value) for column, value in changes.items()}
        table.check(changed)
        others = [other for other in self.rows(name) if other is not row]
        if key := violated(table, others, changed):
            raise ViolatedUnique(key.name)
        self.stored[name][keys_of(row, table.uniques[0].columns)] = changed
        self._written(name, row, changed)
        return changed

    def is_disabled(self, pack_type: str) -> bool:
        """True if an operator has disabled the execution of a pack."""
        found = (self.stored["execution_switches"].get(scope) for scope in ("*", pack_type))
        return any(switch is not None and not switch["enabled"] for switch in found)

    def _written(self, table: str, old: Row, new: Row) -> None:
        """Do what the triggers on `runs` do, and record runs that begin while they are disabled."""
        if table != "runs":
            return
        for row, sign in ((old, -1), (new, 1)):
            if row.get("money_state") == "SETTLED":
                self._add_charge(row, sign * row["actual_cost_usd_micros"])
        began = {(None, "QUEUED"): "inserted", ("QUEUED", "PROCESSING"): "leased"}
        how = began.get((old.get("status"), new["status"]))
        if how and self.is_disabled(new["pack_type"]):
            self.begun_while_disabled.append((new["run_id"], how))

    def _add_charge(self, run: Row, usd_micros: int) -> None:
        """As `add_charge` of migration 0008."""
        tenant_id, slot = run["tenant_id"], run["run_id"].int & 15
        charges = self.stored["ledger_charges"]
        row = charges.setdefault(
            (tenant_id, slot), {"tenant_id": tenant_id, "slot": slot, "charges_usd_micros": 0}
        )
        row["charges_usd_micros"] += usd_micros


def name_of(sql: str) -> str:
    """The name of a statement. Raises KeyError for a statement that is in neither file of queries."""
    return _NAMES[sql]


@cache
def _compiled(sql: str) -> Statement:
    return compile_statement(sql, {name: table.relation for name, table in tables().items()})


def execute(database: Database, sql: str, params: Params | None, now: datetime) -> Answer:
    """Run one statement of the platform."""
    return _compiled(sql).run(database, params or {}, now)


def writes_runs(sql: str) -> bool:
    """True if a statement waits while `runs` is locked against writes."""
    return "runs" in _compiled(sql).writes


def locked_by(sql: str, params: Params | None) -> str | None:
    """The lock that a statement takes until its transaction ends."""
    statement = _compiled(sql)
    if statement.locks is None:
        return None
    return " ".join([statement.locks, *(str((params or {})[name]) for name in statement.parameters)])
