"""Writes Postgres expressions and statements in SQLite's dialect, as far as the statements of runs and money need it.

Timestamps are integers of microseconds, as intervals are; UUIDs and documents are text.
"""

import sqlglot
from sqlglot import exp

_MICROS = {"second": 10**6, "minute": 60 * 10**6, "hour": 3_600 * 10**6, "day": 86_400 * 10**6}
_FUNCTIONS = {"JSONB_AGG": "json_group_array", "JSONB_BUILD_ARRAY": "json_array", "JSONB_TYPEOF": "json_type"}


def to_sqlite(tree: exp.Expr) -> str:
    """The SQL of an expression or statement for SQLite."""
    written = tree.copy()
    for node in reversed(list(written.dfs())):
        replaced = _node(node)
        if node is written:
            written = replaced
        elif replaced is not node:
            node.replace(replaced)
    return written.sql("sqlite")


def _node(node: exp.Expr) -> exp.Expr:  # noqa: PLR0911 - a case a kind of node
    match node:
        case exp.CurrentTimestamp():
            return exp.Anonymous(this="now")
        case exp.Interval():
            unit = node.text("unit").lower().rstrip("s")
            return exp.Literal.number(int(node.this.name) * _MICROS[unit])
        case exp.MakeInterval():
            seconds = node.args["second"].expression
            return exp.cast(exp.Mul(this=exp.paren(seconds), expression=exp.Literal.number(10**6)), "BIGINT")
        case exp.EQ() if isinstance(node.expression, exp.Any):
            return exp.In(this=node.this, query=_values(node.expression.this))
        case exp.ArrayOverlaps():
            query: exp.Select = node.expression.expressions[0]
            [column] = query.expressions
            return exp.Exists(this=query.where(exp.In(this=column, expressions=node.this.expressions)))
        case exp.Anonymous() if node.name.upper() == "NUM_NONNULLS":
            present = " + ".join(f"({part.sql()} IS NOT NULL)" for part in node.expressions)
            return sqlglot.parse_one(f"({present})", read="sqlite")
        case exp.Anonymous() if name := _FUNCTIONS.get(node.name.upper()):
            return exp.Anonymous(this=name, expressions=node.expressions)
        case exp.Anonymous():
            raise NotImplementedError(f"tests/sim/dialect.py: {node.sql('postgres')}")
        case exp.OnConflict():
            node.set("conflict_keys", [key.this for key in node.args["conflict_keys"]])
        case exp.Collate():
            collated: exp.Expr = node.this
            return collated
        case exp.Select():
            node.set("locks", None)
    return node


def _values(array: exp.Expr) -> exp.Subquery:
    """The values of an array parameter, which is passed as JSON."""
    return exp.select("value").from_(exp.func("json_each", *array.find_all(exp.Placeholder))).subquery()
