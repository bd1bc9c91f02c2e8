"""The tables that runs and money use, read from the migrations: columns, defaults, keys and constraints."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlglot
from psycopg import errors
from psycopg.types.json import Jsonb
from sqlglot import exp

from tests.sim.sql import Relation, Row, compile_condition, compile_default

_MIGRATIONS = Path(__file__).parents[2] / "migrations/sql"
_TABLES = (
    "tenants",
    "budget_credits",
    "runs",
    "run_inputs",
    "ledger_audits",
    "ledger_rebuilds",
    "ledger_charges",
    "execution_switches",
)
_CREATE = re.compile(
    rf"^CREATE TABLE (?:{'|'.join(_TABLES)}) \(.*?^\)|^CREATE UNIQUE INDEX \w+ ON (?:{'|'.join(_TABLES)}) .*?(?=;$)",
    re.MULTILINE | re.DOTALL,
)
_ALTER = re.compile(rf"^ALTER TABLE (?:{'|'.join(_TABLES)})\b", re.MULTILINE)

type Condition = Callable[[Row], bool | None]


class Violation(Exception):
    """Names the constraint that a row violates, as psycopg's errors do."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"violates constraint {constraint}")
        self.constraint = constraint

    diag = property(lambda self: SimpleNamespace(constraint_name=self.constraint))


class ViolatedCheck(Violation, errors.CheckViolation):
    """A CHECK constraint."""


class ViolatedUnique(Violation, errors.UniqueViolation):
    """A primary key or unique index."""


class ViolatedReference(Violation, errors.ForeignKeyViolation):
    """A foreign key."""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A primary key or unique index; a partial one covers the rows for which `covers` is true."""

    name: str
    columns: tuple[str, ...]
    covers: Condition


@dataclass(slots=True)
class Table:
    """One table. A generated column is numbered from 1."""

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    """Column -> its type."""
    defaults: dict[str, Callable[[datetime], Any]] = field(default_factory=dict)
    generated: str | None = None
    not_null: list[str] = field(default_factory=list)
    checks: list[tuple[str, Condition]] = field(default_factory=list)
    """In the order in which Postgres checks them: by name."""
    uniques: list[UniqueKey] = field(default_factory=list)
    """The primary key is the first."""
    references: list[tuple[str, str]] = field(default_factory=list)
    """(column, table)."""

    @property
    def relation(self) -> Relation:
        """The table, as statements see it."""
        documents = frozenset(name for name, kind in self.columns.items() if kind == "JSONB")
        return Relation(f"db.rows({self.name!r})", tuple(self.columns), documents)

    def stored(self, column: str, value: Any) -> Any:
        """A value as Postgres stores it in a column."""
        if value is None:
            return None
        match self.columns[column]:
            case "TEXT":
                return str(value)
            case "DECIMAL":
                return Decimal(str(value))
            case "JSONB":
                return json.loads(json.dumps(value.obj if isinstance(value, Jsonb) else value))
        return value

    def check(self, row: Row) -> None:
        """Raise ViolatedCheck or NotNullViolation for the first constraint that the row violates."""
        for column in self.not_null:
            if row[column] is None:
                raise errors.NotNullViolation(column)
        for name, holds in self.checks:
            if holds(row) is False:
                raise ViolatedCheck(name)


@cache
def tables() -> Mapping[str, Table]:
    """The tables by name."""
    found: dict[str, Table] = {}
    for path in sorted(_MIGRATIONS.glob("*.up.sql")):
        text = path.read_text(encoding="utf-8")
        if altered := _ALTER.search(text):
            raise NotImplementedError(f"tests/sim/schema.py does not read {altered[0]} of {path.name}")
        for statement in _CREATE.findall(text):
            tree = sqlglot.parse_one(statement, read="postgres")
            if isinstance(tree.this, exp.Schema):
                found[tree.this.this.name] = _table(tree.this)
            else:
                _add_index(found, tree.this)
    return found


def _table(schema: exp.Schema) -> Table:
    table = Table(schema.this.name)
    columns = [part for part in schema.expressions if isinstance(part, exp.ColumnDef)]
    table.columns = {column.name: column.kind.sql("postgres") for column in columns if column.kind}
    for column in columns:
        for constraint in column.constraints:
            _add_to_column(table, column.name, constraint.kind)
    for part in schema.expressions:
        if isinstance(part, exp.PrimaryKey):
            _add_unique(table, f"{table.name}_pkey", [key.name for key in part.expressions])
        elif isinstance(part, exp.Constraint):
            [check] = part.expressions
            table.checks.append((part.name, compile_condition(check.this, table.name, table.relation)))
        elif not isinstance(part, exp.ColumnDef):
            raise NotImplementedError(f"tests/sim/schema.py: {part.sql('postgres')}")
    table.checks.sort(key=lambda check: check[0])
    return table


def _add_to_column(table: Table, column: str, kind: exp.Expr) -> None:
    match kind:
        case exp.NotNullColumnConstraint():
            table.not_null.append(column)
        case exp.DefaultColumnConstraint():
            table.defaults[column] = compile_default(kind.this)
        case exp.CheckColumnConstraint():
            condition = compile_condition(kind.this, table.name, table.relation)
            table.checks.append((f"{table.name}_{column}_check", condition))
        case exp.PrimaryKeyColumnConstraint():
            _add_unique(table, f"{table.name}_pkey", [column])
        case exp.Reference():
            table.references.append((column, kind.this.this.name))
        case exp.GeneratedAsIdentityColumnConstraint():
            table.generated = column
        case _:
            raise NotImplementedError(f"tests/sim/schema.py: {kind.sql('postgres')}")


def _add_index(found: Mapping[str, Table], index: exp.Expr) -> None:
    table, parameters = found[index.args["table"].name], index.args["params"]
    where = parameters.args.get("where")
    covers = compile_condition(where.this, table.name, table.relation) if where else None
    _add_unique(table, index.name, [column.this.name for column in parameters.args["columns"]], covers)


def _add_unique(table: Table, name: str, columns: list[str], covers: Condition | None = None) -> None:
    table.uniques.append(UniqueKey(name, tuple(columns), covers or (lambda _row: True)))


def keys_of(row: Row, columns: tuple[str, ...]) -> Any:
    """The values of some columns: one by itself, several as a tuple."""
    return row[columns[0]] if len(columns) == 1 else tuple(row[column] for column in columns)


def violated(table: Table, rows: list[Row], row: Row) -> UniqueKey | None:
    """The first key that `row` shares with another of the table's rows."""
    for key in table.uniques:
        if key.covers(row):
            value = keys_of(row, key.columns)
            if any(key.covers(other) and keys_of(other, key.columns) == value for other in rows):
                return key
    return None
