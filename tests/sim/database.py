"""A Postgres database in memory: SQLite, which runs the platform's own statements in its dialect.

The simulator therefore has the statements of production, guards and all, and no second version of them.
test_conformance_rows.py compares the statements with a real Postgres.
"""

import json
import re
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar
from uuid import UUID

import psycopg
import sqlglot
from psycopg import errors
from psycopg.types.json import Jsonb
from sqlglot import exp

from dpp.money.books import QUERIES as MONEY
from dpp.runs.operations.switch import Switch
from dpp.runs.store import QUERIES as RUNS
from dpp.runs.submit_store import QUERIES as SUBMIT
from tests.sim.dialect import to_sqlite
from tests.sim.schema import column_types, schema

type Row = dict[str, Any]
type Params = Mapping[str, Any]

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
"""The start of every simulation."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NOW = "transaction_time"
"""The parameter that takes the place of now()."""
_PARAMETER = re.compile(r"%\((\w+)\)s")
_NAMES: Mapping[str, str] = {queries[name]: name for queries in (RUNS, SUBMIT, MONEY) for name in queries.names()}
_LOADED: Mapping[str, Callable[[Any], Any]] = {
    "TIMESTAMPTZ": lambda value: _EPOCH + timedelta(microseconds=value),
    "UUID": UUID,
    "BOOLEAN": bool,
    "JSONB": json.loads,
    "DECIMAL": lambda value: Decimal(str(value)),
}
"""Postgres type -> how a stored value becomes the value that psycopg returns."""
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "regexp": lambda pattern, text: None if text is None else re.search(pattern, text) is not None,
    "floor": lambda value: int(value // 1),
}


class _Violation(psycopg.Error):
    """Names the violated constraint, as psycopg's errors do."""

    constraint = ""
    diag = property(lambda self: SimpleNamespace(constraint_name=self.constraint))


_VIOLATIONS: Mapping[str, type[_Violation]] = {
    "CHECK": type("CheckViolation", (_Violation, errors.CheckViolation), {}),
    "UNIQUE": type("UniqueViolation", (_Violation, errors.UniqueViolation), {}),
    "FOREIGN KEY": type("ForeignKeyViolation", (_Violation, errors.ForeignKeyViolation), {}),
    "NOT NULL": type("NotNullViolation", (_Violation, errors.NotNullViolation), {}),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a statement."""

    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[Any, ...]] = ()
    rowcount: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A statement for SQLite; one with data-modifying common table expressions has several parts."""

    sql: str
    parameters: tuple[str, ...]
    columns: tuple[str, ...]
    loads: tuple[Callable[[Any], Any] | None, ...]
    writes: str | None = None
    """The table that it changes."""
    into: str | None = None
    """The temporary table that takes its rows, for the parts after it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the platform, prepared for SQLite."""

    parts: tuple[Part, ...] = ()
    locks: str | None = None
    """The table that it locks, or in which it locks the rows that it reads, until its transaction ends."""


@dataclass(slots=True, weakref_slot=True)
class Database:
    """One database, and what the simulation records beside it."""

    decisions: list[Switch] = field(default_factory=list)
    """Decisions on the execution switch whose operator received a reply."""
    locks: dict[str, object] = field(default_factory=dict)
    """Lock -> the connection that holds it until its transaction ends."""
    _sqlite: sqlite3.Connection = field(init=False)
    _read: dict[str, tuple[int, list[Row]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sqlite = _POOL.take()
        weakref.finalize(self, _POOL.give_back, self._sqlite)

    def execute(self, sql: str, params: Params | None, now: datetime) -> Answer:
        """Run one statement of the platform."""
        _Clock.now_micros = (now - _EPOCH) // _MICROSECOND
        parts = _prepared(sql).parts
        if len(parts) > 1:
            self._sqlite.execute("BEGIN")
        try:
            answers = [self._execute(part, {**(params or {}), _NOW: now}) for part in parts]
        except BaseException:
            if self._sqlite.in_transaction:
                self._sqlite.execute("ROLLBACK")
            raise
        if self._sqlite.in_transaction:
            self._sqlite.execute("COMMIT")
        return answers[-1] if answers else Answer()

    def _execute(self, part: Part, params: Params) -> Answer:
        try:
            cursor = self._sqlite.execute(part.sql, {name: _stored(params[name]) for name in part.parameters})
            rows = cursor.fetchall()
        except sqlite3.IntegrityError as error:
            raise _violation(str(error), part.writes) from None
        if part.into is not None:
            self._keep(part.into, part.columns, rows)
        loaded = [_loaded(part.loads, row) for row in rows]
        return Answer(part.columns, loaded, len(rows) if part.columns else cursor.rowcount)

    def rows(self, table: str) -> list[Row]:
        """All rows of a table, in the order of their insertion."""
        changes, rows = self._read.get(table, (-1, []))
        if changes != self._sqlite.total_changes:
            cursor = self._sqlite.execute(f"SELECT * FROM {table} ORDER BY rowid")
            names = [column[0] for column in cursor.description]
            loads = [_LOADED.get(column_types().get(name, "")) for name in names]
            rows = [dict(zip(names, _loaded(loads, row), strict=True)) for row in cursor]
            self._read[table] = (self._sqlite.total_changes, rows)
        return rows

    def _keep(self, table: str, columns: tuple[str, ...], rows: list[Any]) -> None:
        self._sqlite.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table} ({', '.join(columns)})")
        self._sqlite.execute(f"DELETE FROM temp.{table}")
        self._sqlite.executemany(f"INSERT INTO temp.{table} VALUES ({', '.join('?' * len(columns))})", rows)


def _loaded(loads: Sequence[Callable[[Any], Any] | None], row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        [value if load is None or value is None else load(value) for load, value in zip(loads, row, strict=True)]
    )


def name_of(sql: str) -> str:
    """The name of a statement. Raises KeyError for a statement of a file that this module does not import."""
    return _NAMES[sql]


def writes_runs(sql: str) -> bool:
    """True if a statement waits while `runs` is locked against writes."""
    return any(part.writes == "runs" for part in _prepared(sql).parts)


def locked_by(sql: str, params: Params | None) -> str | None:
    """The lock that a statement takes until its transaction ends."""
    statement = _prepared(sql)
    if statement.locks is None:
        return None
    names = [name for part in statement.parts for name in part.parameters if name != _NOW]
    return " ".join([statement.locks, *(str((params or {})[name]) for name in names)])


class _Clock:
    """The time that the SQL function now() returns."""

    now_micros: ClassVar[int] = 0


class _Pool:
    """SQLite connections with the schema; a new one, with its statements to prepare, costs more than a schedule."""

    def __init__(self) -> None:
        self._free: list[sqlite3.Connection] = []
        weakref.finalize(self, self._close, self._free)

    def take(self) -> sqlite3.Connection:
        """A connection to an empty database."""
        connection = self._free.pop() if self._free else _connect()
        for table in ("begun_while_disabled", *reversed(schema().tables)):  # first the rows that refer to others
            connection.execute(f"DELETE FROM {table}")
        return connection

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Its database is not needed any more."""
        self._free.append(connection)

    @staticmethod
    def _close(connections: list[sqlite3.Connection]) -> None:
        for connection in connections:
            connection.close()


_POOL = _Pool()


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    for name, function in _FUNCTIONS.items():
        connection.create_function(name, -1, function, deterministic=True)
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.create_function("now", 0, lambda: _Clock.now_micros)
    for statement in schema().statements:
        connection.executescript(statement)
    return connection


@cache
def _prepared(sql: str) -> Statement:
    if lock := re.match(r"(?:--.*\n)*LOCK TABLE (\w+)", sql):
        return Statement(locks=lock[1])
    tree = sqlglot.parse_one(_PARAMETER.sub(r":\1", sql), read="postgres")
    if isinstance(tree, exp.Set):
        return Statement()
    locked = tree.find(exp.Table) if tree.find(exp.Lock) else None
    return Statement(tuple(_parts(tree)), locked.name if locked else None)


def _parts(tree: exp.Expr) -> Iterator[Part]:
    with_ = tree.args.get("with_")
    for expression in with_.expressions if with_ else ():
        yield _part(expression.this, expression.alias)
    tree.set("with_", None)
    yield _part(tree)


def _part(tree: exp.Expr, into: str | None = None) -> Part:
    returning = tree if isinstance(tree, exp.Select) else tree.args.get("returning")
    columns = returning.expressions if returning else []
    target = tree.find(exp.Table) if isinstance(tree, exp.Insert | exp.Update) else None
    for node in list(tree.find_all(exp.CurrentTimestamp)):
        node.replace(exp.Placeholder(this=_NOW))
    return Part(
        to_sqlite(tree),
        tuple({node.name: None for node in tree.find_all(exp.Placeholder)}),
        tuple(column.alias_or_name or "?column?" for column in columns),
        tuple(_LOADED.get(_type(column)) for column in columns),
        target.name if target else None,
        into if columns else None,
    )


def _type(column: exp.Expr) -> str:
    """The Postgres type of a returned column, if its values need a conversion."""
    value = column.unalias()
    if isinstance(value, exp.Column):
        return column_types()[value.name]
    if isinstance(value, exp.Predicate):
        return "BOOLEAN"
    return "JSONB" if any(node.name.upper() == "JSONB_AGG" for node in value.find_all(exp.Anonymous)) else ""


def _stored(value: Any) -> Any:
    """A parameter as SQLite stores it."""
    match value:
        case datetime():
            return (value - _EPOCH) // _MICROSECOND
        case UUID() | StrEnum():
            return str(value)
        case Jsonb():
            return json.dumps(value.obj)
        case list():
            return json.dumps(value, default=str)
    return value


def _violation(message: str, table: str | None) -> psycopg.Error:
    """psycopg's error for SQLite's, with the name of the constraint in Postgres."""
    kind, _, detail = message.partition(" constraint failed")
    error = _VIOLATIONS[kind](message)
    names = schema().tables[table or ""]
    match kind:
        case "UNIQUE":
            error.constraint = names.keys[detail.removeprefix(": ")]
        case "FOREIGN KEY":
            [error.constraint] = names.references
        case _:
            error.constraint = detail.removeprefix(": ")
    return error
