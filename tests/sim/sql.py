"""Compiles the platform's own SQL statements to Python functions over rows in memory.

The simulator therefore runs the statements that production runs, guards and all, and no second version of them. Only
what these statements use is supported; anything else raises NotImplementedError when it is compiled.
test_conformance_rows.py compares the compiled statements with a real Postgres.

A statement becomes a function of the database, the parameters `p` and the transaction's time `now`. A row is a dict.
NULL is None, and comparisons have three values as in SQL.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from tests.sim.sql_values import FUNCTIONS

if TYPE_CHECKING:
    from tests.sim.database import Database

type Row = dict[str, Any]
type Params = Mapping[str, Any]
type Update = Callable[[Row, Row], Row | None]

_PARAMETER = re.compile(r"%\((\w+)\)s")
_BINARY: Mapping[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.And: "and_",
    exp.Or: "or_",
    exp.Add: "add",
    exp.Sub: "sub",
    exp.Mul: "mul",
    exp.ArrayOverlaps: "overlaps",
    exp.NullSafeEQ: "same",
    exp.NullSafeNEQ: "differs",
    exp.RegexpLike: "matches",
}
_UNARY: Mapping[type[exp.Expr], str] = {
    exp.Length: "length",
    exp.Floor: "floored",
    exp.Not: "not_",
    exp.Neg: "neg",
}
_CLAUSES = {"with_", "expressions", "from_", "joins", "where", "order", "limit", "offset", "locks"}
_CONSTANTS = {True: "True", False: "False", None: "None"}


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a statement."""

    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[Any, ...]] = ()
    rowcount: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement."""

    run: Callable[["Database", Params, datetime], Answer]
    writes: frozenset[str]
    """The tables that it changes."""
    locks: str | None = None
    """The table that it locks, or in which it locks the rows that it reads, until its transaction ends."""
    parameters: tuple[str, ...] = ()
    """The parameters that it reads."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a common table expression, as statements see it."""

    rows: str
    """Python source of the list of its rows."""
    columns: tuple[str, ...]
    json: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names that an expression can use, and the `for` and `if` clauses that its query iterates with."""

    relations: Mapping[str, Relation]
    clauses: str = ""
    outer: "_Scope | None" = None


def compile_statement(sql: str, tables: Mapping[str, Relation]) -> Statement:
    """Compile one statement with psycopg's named parameters."""
    if lock := re.match(r"(?:--.*\n)*LOCK TABLE (\w+)", sql):
        return Statement(_nothing, frozenset(), locks=lock[1])
    tree = sqlglot.parse_one(_PARAMETER.sub(r":\1", sql), read="postgres")
    if isinstance(tree, exp.Set):
        return Statement(_nothing, frozenset())
    compiler = _Compiler(tables)
    compiler.statement(tree)
    source = "\n    ".join(["def run(db, p, now):", *compiler.lines])
    namespace: dict[str, Any] = {**FUNCTIONS, "Answer": Answer}
    exec(compile(source, "<sql>", "exec"), namespace)  # noqa: S102 - compiled from the repository's own statements
    locked = tree.find(exp.Table) if tree.find(exp.Lock) else None
    parameters = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    return Statement(
        namespace["run"], frozenset(compiler.writes), locked.name if locked else None, parameters
    )


def compile_condition(condition: exp.Expr, table: str, relation: Relation) -> Callable[[Row], bool | None]:
    """A condition on one row, such as a CHECK constraint."""
    source = _Compiler({}).expression(condition, _Scope({table: relation}))
    check: Callable[[Row], bool | None] = eval(f"lambda r_{table}: {source}", dict(FUNCTIONS))  # noqa: S307 - as above
    return check


def compile_default(value: exp.Expr) -> Callable[[datetime], Any]:
    """A column's default value, as of a time."""
    source = _Compiler({}).expression(value, _Scope({}))
    default: Callable[[datetime], Any] = eval(f"lambda now: {source}", dict(FUNCTIONS))  # noqa: S307 - as above
    return default


class _Compiler:
    """Writes the Python source of one statement."""

    def __init__(self, tables: Mapping[str, Relation]) -> None:
        self.tables = dict(tables)
        self.lines: list[str] = []
        self.writes: set[str] = set()

    def statement(self, tree: exp.Expr) -> None:
        """Write the lines of a statement: its common table expressions, then itself."""
        with_ = tree.args.get("with_")
        for part in with_.expressions if with_ else ():
            rows, columns = self._query(part.this)
            self.lines.append(f"cte_{part.alias} = [dict(zip({columns!r}, row)) for row in {rows}]")
            self.tables[part.alias] = Relation(f"cte_{part.alias}", columns)
        rows, columns = self._query(tree)
        self.lines += [f"rows = {rows}", f"return Answer({columns!r}, rows, len(rows))"]

    def _query(self, tree: exp.Expr) -> tuple[str, tuple[str, ...]]:
        """Source of a list of tuples, and the names of its columns."""
        match tree:
            case exp.Select():
                return self._select(tree, None)
            case exp.Insert():
                return self._insert(tree)
            case exp.Update():
                return self._update(tree)
        raise NotImplementedError(f"statement: {tree.sql('postgres')}")

    # --- reading --------------------------------------------------------------------------------------------------

    def _select(self, tree: exp.Select, outer: _Scope | None) -> tuple[str, tuple[str, ...]]:
        if unknown := {name for name, value in tree.args.items() if value} - _CLAUSES:
            raise NotImplementedError(f"tests/sim/sql.py: {unknown} of {tree.sql('postgres')}")
        scope = self._from(tree, outer)
        names = tuple(part.alias_or_name or "?column?" for part in tree.expressions)
        row = self._tuple(tree.expressions, scope)
        if any(_is_aggregate(node) and node.parent_select is tree for node in tree.walk()):
            return f"[{row}]", names
        order = tree.args.get("order")
        if order is not None:
            keys = self._tuple(order.expressions, scope)
            rows = f"ordered([({keys}, {row}) {scope.clauses}])"
        else:
            rows = f"[{row} {scope.clauses}]"
        start, stop = (
            self.expression(tree.args[name].expression, _Scope({})) if tree.args.get(name) else None
            for name in ("offset", "limit")
        )
        if start or stop:
            rows = f"{rows}[{start or 0}:][:{stop or ''}]"
        return rows, names

    def _from(self, tree: exp.Expr, outer: _Scope | None, target: exp.Table | None = None) -> _Scope:
        """The scope of a query's FROM, JOIN and WHERE; `target` is the table of an UPDATE."""
        relations: dict[str, Relation] = {}
        clauses = ""
        source = tree.args.get("from_")
        for table in [target, source.this if source else None]:
            if table is not None:
                relations[table.alias_or_name] = relation = self.tables[table.name]
                clauses += f" for r_{table.alias_or_name} in {relation.rows}"
        for join in tree.args.get("joins") or ():
            clauses += self._left_join(join, relations)
        where = tree.args.get("where")
        scope = _Scope(relations, clauses or " for _ in (0,)", outer)
        if where is None:
            return scope
        tests = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
        condition = " and ".join(f"({self.expression(test, scope)})" for test in tests)
        return _Scope(relations, f"{scope.clauses} if {condition}", outer)

    def _left_join(self, join: exp.Join, relations: dict[str, Relation]) -> str:
        if join.side != "LEFT" or not join.args.get("using"):
            raise NotImplementedError(f"join: {join.sql('postgres')}")
        table = join.this
        relation = self.tables[table.name]
        left = next(iter(relations))
        same = " and ".join(f"eq(r_{left}[{key.name!r}], row[{key.name!r}])" for key in join.args["using"])
        relations[table.alias_or_name] = relation
        none = f"dict.fromkeys({relation.columns!r})"
        return f" for r_{table.alias_or_name} in [row for row in {relation.rows} if {same}] or [{none}]"

    # --- writing --------------------------------------------------------------------------------------------------

    def _insert(self, tree: exp.Insert) -> tuple[str, tuple[str, ...]]:
        table, names = tree.this.this.name, [column.name for column in tree.this.expressions]
        self.writes.add(table)
        source = tree.expression
        if isinstance(source, exp.Values):
            rows = (
                "["
                + ", ".join(self._tuple(part.expressions, _Scope({})) for part in source.expressions)
                + "]"
            )
        else:
            rows, _ = self._select(source, None)
        keys, update = self._on_conflict(tree, table)
        inserted = f"db.insert({table!r}, dict(zip({names!r}, row)), now, {keys!r}, {update})"
        self.lines.append(f"written = [new for row in {rows} if (new := {inserted}) is not None]")
        return self._returning(tree, table)

    def _on_conflict(self, tree: exp.Insert, table: str) -> tuple[tuple[str, ...] | None, str]:
        conflict = tree.args.get("conflict")
        if conflict is None:
            return None, "None"
        keys = tuple(key.this.name for key in conflict.args["conflict_keys"])
        if not conflict.expressions:
            return keys, "None"
        relation = self.tables[table]
        scope = _Scope({table: relation, "excluded": relation})
        changes, where = self._changes(conflict.expressions, scope), conflict.args.get("where")
        condition = self.expression(where.this, scope) if where else "True"
        return keys, f"lambda r_{table}, r_excluded: {changes} if {condition} else None"

    def _update(self, tree: exp.Update) -> tuple[str, tuple[str, ...]]:
        table = tree.this.name
        self.writes.add(table)
        scope = self._from(tree, None, tree.this)
        changes = self._changes(tree.expressions, scope)
        self.lines.append(f"found = [(r_{table}, {changes}) {scope.clauses}]")
        self.lines.append(f"written = [db.update({table!r}, row, changes, now) for row, changes in found]")
        return self._returning(tree, table)

    def _changes(self, assignments: Iterable[exp.Expr], scope: _Scope) -> str:
        parts = (f"{part.this.name!r}: {self.expression(part.expression, scope)}" for part in assignments)
        return "{" + ", ".join(parts) + "}"

    def _returning(self, tree: exp.Expr, table: str) -> tuple[str, tuple[str, ...]]:
        returning = tree.args.get("returning")
        columns = returning.expressions if returning else []
        scope = _Scope({table: self.tables[table]})
        rows = f"[{self._tuple(columns, scope)} for r_{table} in written]"
        return rows, tuple(column.alias_or_name for column in columns)

    # --- expressions ----------------------------------------------------------------------------------------------

    def _tuple(self, parts: Iterable[exp.Expr], scope: _Scope) -> str:
        return "(" + "".join(f"{self.expression(part, scope)}, " for part in parts) + ")"

    def expression(self, node: exp.Expr, scope: _Scope) -> str:  # noqa: PLR0911, PLR0912 - a case a kind
        """Python source of one expression."""

        def inner(part: exp.Expr) -> str:
            return self.expression(part, scope)

        negated = node.args.get("negate")
        if negated and not isinstance(node, exp.Is):
            raise NotImplementedError(f"tests/sim/sql.py: {node.sql('postgres')}")
        if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
            return f"in_({inner(node.this)}, {inner(node.expression.this)})"
        if name := _BINARY.get(type(node)):
            return f"{name}({inner(node.this)}, {inner(node.expression)})"
        if name := _UNARY.get(type(node)):
            return f"{name}({inner(node.this)})"
        match node:
            case exp.Column():
                return _column(node, scope)
            case exp.Placeholder():
                return f"p[{node.name!r}]"
            case exp.Literal():
                return repr(node.this) if node.is_string else str(node.this)
            case exp.Boolean() | exp.Null():
                return _CONSTANTS[node.args.get("this")]
            case exp.Paren() | exp.Collate() | exp.Alias():
                return inner(node.this)
            case exp.Tuple():
                return self._tuple(node.expressions, scope)
            case exp.Coalesce() if _is_json(node.this):  # a literal of its type is a document
                return f"coalesce({inner(node.this)}, {json.loads(node.expressions[0].this)!r})"
            case exp.Coalesce():
                return f"coalesce{self._tuple([node.this, *node.expressions], scope)}"
            case exp.Is():
                return f"({inner(node.this)} {'is not' if negated else 'is'} {inner(node.expression)})"
            case exp.In():
                return f"in_({inner(node.this)}, {self._tuple(node.expressions, scope)})"
            case exp.Between():
                low, high = inner(node.args["low"]), inner(node.args["high"])
                return f"between({inner(node.this)}, {low}, {high})"
            case exp.Case():
                return self._case(node, scope)
            case exp.Subquery() if isinstance(node.this, exp.Select):
                return f"scalar({self._select(node.this, scope)[0]})"
            case exp.Array():
                return self._array(node, scope)
        return self._function(node, scope)

    def _function(self, node: exp.Expr, scope: _Scope) -> str:  # noqa: PLR0911 - a case a kind
        match node:
            case exp.CurrentTimestamp():
                return "now"
            case exp.Count():
                return f"len([1 {scope.clauses}])"
            case exp.Sum():
                return f"sum_([{self.expression(node.this, scope)} {scope.clauses}])"
            case exp.Cast():
                return f"cast({self.expression(node.this, scope)}, {node.to.sql('postgres')!r})"
            case exp.Interval():
                return f"timedelta({node.text('unit').lower().rstrip('s')}s={node.this.name})"
            case exp.MakeInterval():
                return f"seconds({self.expression(node.args['second'].expression, scope)})"
            case exp.Anonymous():
                values = self._tuple(node.expressions, scope)
                match node.name.upper():
                    case "NUM_NONNULLS":
                        return f"sum(value is not None for value in {values})"
                    case "JSONB_TYPEOF":
                        return f"json_type({values}[0])"
                    case "JSONB_BUILD_ARRAY":
                        return f"[as_json(value) for value in {values}]"
                    case "JSONB_AGG":
                        return f"([as_json({values}[0]) {scope.clauses}] or None)"
            case exp.Ordered() if not node.args.get("desc"):
                value = self.expression(node.this, scope)
                return f"({value} is not None, {value})" if node.args.get("nulls_first") else value
        raise NotImplementedError(f"tests/sim/sql.py: {type(node).__name__}: {node.sql('postgres')}")

    def _array(self, node: exp.Array, scope: _Scope) -> str:
        match node.expressions:
            case [exp.Select() as query]:
                return f"[row[0] for row in {self._select(query, scope)[0]}]"
            case parts:
                return self._tuple(parts, scope)

    def _case(self, node: exp.Case, scope: _Scope) -> str:
        default = node.args.get("default")
        result = self.expression(default, scope) if default else "None"
        subject = self.expression(node.this, scope) if node.this else None
        for branch in reversed(node.args["ifs"]):
            test, value = self.expression(branch.this, scope), self.expression(branch.args["true"], scope)
            result = f"({value} if {f'eq({subject}, {test})' if subject else test} else {result})"
        return result


def _column(node: exp.Column, scope: _Scope) -> str:
    """A column of the innermost query that has it."""
    within: _Scope | None = scope
    while within is not None:
        for alias, relation in within.relations.items():
            if node.name in relation.columns and node.table.lower() in ("", alias):
                source = f"r_{alias}[{node.name!r}]"
                return f"deepcopy({source})" if node.name in relation.json else source
        within = within.outer
    raise NotImplementedError(f"tests/sim/sql.py: no column {node.sql('postgres')}")


def _is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.Sum | exp.Count) or _is_json(node)


def _is_json(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "JSONB_AGG"


def _nothing(_db: "Database", _p: Params, _now: datetime) -> Answer:
    """A statement without an effect on rows."""
    return Answer()
