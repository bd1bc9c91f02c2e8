"""The tables that runs and money use, read from the migrations and written for SQLite."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import sqlglot
from sqlglot import exp

from tests.sim.dialect import to_sqlite

_MIGRATIONS = Path(__file__).parents[2] / "migrations/sql"
_NAMES = "tenants|budget_credits|runs|run_inputs|ledger_audits|ledger_rebuilds|ledger_charges|execution_switches"
_CREATE = re.compile(
    rf"^CREATE TABLE (?:{_NAMES}) \(.*?^\)|^CREATE UNIQUE INDEX \w+ ON (?:{_NAMES}) .*?(?=;$)", re.M | re.S
)
_ALTER = re.compile(rf"^ALTER TABLE (?:{_NAMES})\b", re.M)
_TYPES = {"TEXT": "TEXT", "UUID": "TEXT", "JSONB": "TEXT", "DECIMAL": "REAL"}
_TRIGGERS = """
CREATE TABLE begun_while_disabled (run_id TEXT, how TEXT);
CREATE VIEW disabled AS SELECT scope FROM execution_switches WHERE NOT enabled;
CREATE TRIGGER inserted AFTER INSERT ON runs
WHEN EXISTS (SELECT * FROM disabled WHERE scope IN ('*', NEW.pack_type)) BEGIN
  INSERT INTO begun_while_disabled VALUES (NEW.run_id, 'inserted');
END;
CREATE TRIGGER leased AFTER UPDATE ON runs
WHEN OLD.status = 'QUEUED' AND NEW.status = 'PROCESSING'
  AND EXISTS (SELECT * FROM disabled WHERE scope IN ('*', NEW.pack_type)) BEGIN
  INSERT INTO begun_while_disabled VALUES (NEW.run_id, 'leased');
END;
CREATE TRIGGER charged AFTER UPDATE ON runs WHEN OLD.money_state <> 'SETTLED' AND NEW.money_state = 'SETTLED' BEGIN
  INSERT INTO ledger_charges VALUES (
    NEW.tenant_id, instr('0123456789abcdef', substr(NEW.run_id, -1)) - 1, NEW.actual_cost_usd_micros)
  ON CONFLICT DO UPDATE SET charges_usd_micros = charges_usd_micros + excluded.charges_usd_micros;
END;
"""
"""The trigger of migration 0002 that adds charges up, and the runs that begin while their execution is disabled."""


@dataclass(slots=True)
class Table:
    """One table's columns with their Postgres types, and the names of its keys."""

    columns: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    """The columns of a primary key or unique index, as SQLite's errors list them -> its name."""
    references: list[str] = field(default_factory=list)
    """The names of the foreign keys."""


@dataclass(slots=True)
class Schema:
    """All tables, and the statements that create them in SQLite."""

    tables: dict[str, Table] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)


@cache
def schema() -> Schema:
    """The schema after all migrations."""
    found = Schema()
    for path in sorted(_MIGRATIONS.glob("*.up.sql")):
        text = path.read_text(encoding="utf-8")
        if altered := _ALTER.search(text):
            raise NotImplementedError(f"tests/sim/schema.py does not read {altered[0]} of {path.name}")
        for statement in _CREATE.findall(text):
            tree = sqlglot.parse_one(statement, read="postgres")
            if isinstance(tree.this, exp.Schema):
                _add_table(found, tree.this)
            else:
                _add_index(found, tree)
    found.statements.append(_TRIGGERS)
    return found


def _add_table(found: Schema, tree: exp.Schema) -> None:
    name, table = tree.this.name, Table()
    found.tables[name] = table
    checks: dict[str, str] = {}
    lines: list[str] = []
    for part in tree.expressions:
        match part:
            case exp.ColumnDef():
                table.columns[part.name] = str(part.kind)
                lines.append(" ".join(_column(name, table, part, checks)))
            case exp.PrimaryKey():
                columns = [column.name for column in part.expressions]
                _add_key(table, name, f"{name}_pkey", columns)
                lines.append(f"PRIMARY KEY ({', '.join(columns)})")
            case exp.Constraint():
                checks[part.name] = to_sqlite(part.expressions[0].this)
            case _:
                raise NotImplementedError(f"tests/sim/schema.py: {part.sql('postgres')}")
    # Postgres checks constraints in the order of their names, SQLite in that of their definition.
    lines += [f"CONSTRAINT {constraint} CHECK ({checks[constraint]})" for constraint in sorted(checks)]
    found.statements.append(f"CREATE TABLE {name} ({', '.join(lines)})")


def _column(table_name: str, table: Table, part: exp.ColumnDef, checks: dict[str, str]) -> Iterator[str]:
    """Write one column; its CHECK constraint goes to `checks` with the name that Postgres gives it."""
    yield part.name
    yield _TYPES.get(str(part.kind), "INTEGER")
    for constraint in part.constraints:
        match constraint.kind:
            case exp.NotNullColumnConstraint():
                yield "NOT NULL"
            case exp.PrimaryKeyColumnConstraint():
                _add_key(table, table_name, f"{table_name}_pkey", [part.name])
                yield "PRIMARY KEY"
            case exp.DefaultColumnConstraint() as default:
                yield f"DEFAULT ({to_sqlite(default.this)})"
            case exp.CheckColumnConstraint() as check:
                checks[f"{table_name}_{part.name}_check"] = to_sqlite(check.this)
            case exp.Reference() as reference:
                table.references.append(f"{table_name}_{part.name}_fkey")
                yield f"REFERENCES {reference.this.this.name}"
            case exp.GeneratedAsIdentityColumnConstraint():
                pass  # an INTEGER PRIMARY KEY generates its value
            case other:
                raise NotImplementedError(f"tests/sim/schema.py: {other.sql('postgres')}")


def _add_index(found: Schema, tree: exp.Expr) -> None:
    index, parameters = tree.this, tree.this.args["params"]
    table, columns = index.args["table"].name, [column.this.name for column in parameters.args["columns"]]
    _add_key(found.tables[table], table, index.name, columns)
    where = parameters.args.get("where")
    condition = f" WHERE {to_sqlite(where.this)}" if where else ""
    found.statements.append(f"CREATE UNIQUE INDEX {index.name} ON {table} ({', '.join(columns)}){condition}")


def _add_key(table: Table, table_name: str, name: str, columns: list[str]) -> None:
    table.keys[", ".join(f"{table_name}.{column}" for column in columns)] = name


@cache
def column_types() -> Mapping[str, str]:
    """The Postgres type of each column; a name has the same type in all tables."""
    return {name: kind for table in schema().tables.values() for name, kind in table.columns.items()}
