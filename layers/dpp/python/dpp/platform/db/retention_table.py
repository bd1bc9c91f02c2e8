"""Retention classes as data (LIFE-8): a class describes its rows, and `_compose` builds its statements from that.

- `due_<class>` counts due rows up to a bound.
- `delete_<class>` examines one batch of due rows in the order of time and key, and deletes those that are not blocked,
  with the rows that they own. It looks rows up by an array of keys: a join would read the whole table if a batch is a
  good part of it. State and time are checked again at the deletion, since a row may have changed since it was examined.
- `use_of_<class>` measures the class. `rows_of` and `bytes_of` (migration 0006) estimate a table without reading it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Literal, LiteralString

from psycopg import sql

from dpp.platform.db.postgres import Connection, named_rows
from dpp.platform.db.retention import Batch, Cursor, Use, as_chamberlain

type KeyType = Literal["text", "uuid", "bigint"]

_LEAST_KEY: Mapping[KeyType, LiteralString] = {
    "text": "''",
    "uuid": "'00000000-0000-0000-0000-000000000000'",
    "bigint": "0",
}


@dataclass(frozen=True, slots=True)
class Blocker:
    """Rows of `table` that block the deletion of a row of the class.

    They are those that meet `where` and whose `column` equals the row's column `own` (its key if None). With `absent`,
    a row is blocked as long as there is no such other row.
    """

    table: str
    column: str
    own: str | None = None
    where: LiteralString = "true"
    absent: bool = False


@dataclass(frozen=True, slots=True)
class OwnedObjects:
    """One S3 object per row, with the row's key. The statement that deletes the row adds the key to `deletion_list`."""

    size_column: str
    deletion_list: str


@dataclass(frozen=True, slots=True)
class TableClass:
    """A retention class of rows in one table. Implements `RetentionClass`.

    `time`, `key`: the columns by which rows are due and ordered. `where`: which rows of the table belong to the class.
    `owned_rows`: tables whose rows are deleted together with the row that they name in the column `key`.
    `also_measured`: tables whose size counts as well. `whole_moments`: rows of the same time are one item and are
    deleted in one batch, which may then exceed the limit.
    """

    name: str
    period: str
    table: str
    time: str
    key: str
    key_type: KeyType = "text"
    where: LiteralString = "true"
    points_at: tuple[str, ...] = ()
    blocked_by: tuple[Blocker, ...] = ()
    owned_rows: tuple[str, ...] = ()
    owned_objects: OwnedObjects | None = None
    also_measured: tuple[str, ...] = ()
    whole_moments: bool = False

    @property
    def statements(self) -> Mapping[str, LiteralString]:
        """The class's statements by name."""
        return _compose(self)

    def prepare(self, connection: Connection, now: datetime | None) -> None:
        """Do nothing: the rows need only their table."""

    def due(self, connection: Connection, before: datetime, limit: int) -> int:
        """Count the due rows, up to `limit`."""
        params = {"before": before, "limit": limit}
        (row,) = connection.execute(self.statements[f"due_{self.name}"], params).fetchall()
        return int(row[0])

    def delete(
        self, connection: Connection, before: datetime, cursor: Cursor | None, limit: int, now: datetime | None
    ) -> Batch:
        """Delete one batch in the caller's transaction, under the role `dpp_chamberlain`."""
        params = {
            "before": before,
            "after_time": cursor.time if cursor else None,
            "after_id": cursor.id if cursor else None,
            "limit": limit,
            "now": now,
        }
        with as_chamberlain(connection):
            (row,) = named_rows(connection, self.statements[f"delete_{self.name}"], params)
        last = None if row["last_time"] is None else Cursor(row["last_time"], row["last_id"])
        return Batch(int(row["examined"]), int(row["deleted"]), int(row["bytes"]), last)

    def use(self, connection: Connection, now: datetime | None) -> Use:
        """Measure the class."""
        (row,) = named_rows(connection, self.statements[f"use_of_{self.name}"], {"now": now})
        return Use(
            int(row["rows"]), int(row["bytes"]), row["oldest_at"], float(row["rows_a_day"]), float(row["bytes_a_day"])
        )


_DUE: LiteralString = """
SELECT count(*) FROM (
  SELECT FROM {table} WHERE {where} AND {time} < %(before)s ORDER BY {time} LIMIT %(limit)s) AS due"""

_DELETE: LiteralString = """
WITH due AS (
  SELECT {time}, {key}, {blocked} AS is_blocked FROM {table} AS kept
  WHERE {where} AND {time} < %(before)s
    AND ({time}, {key}) >
      (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s::{key_type}, {least_key}))
  {page}
), gone AS (
  DELETE FROM {table} AS kept
  WHERE kept.{key} = ANY (ARRAY(SELECT {key} FROM due WHERE NOT is_blocked)) AND {where} AND {time} < %(before)s
  RETURNING kept.{key}, {size} AS bytes
){owned}
SELECT (SELECT count(*) FROM due) AS examined, (SELECT count(*) FROM gone) AS deleted,
       (SELECT coalesce(sum(bytes), 0) FROM ({all_gone}) AS all_gone) AS bytes,
       (SELECT {time} FROM due ORDER BY {time} DESC, {key} DESC LIMIT 1) AS last_time,
       (SELECT {key}::text FROM due ORDER BY {time} DESC, {key} DESC LIMIT 1) AS last_id"""

_OWNED_ROWS: LiteralString = """, {name} AS (
  DELETE FROM {table} AS owned WHERE owned.{key} = ANY (ARRAY(SELECT {key} FROM gone))
  RETURNING pg_column_size(owned.*) AS bytes
)"""

_OWNED_OBJECTS: LiteralString = """, listed AS (
  INSERT INTO {table} (object_key, listed_at, next_attempt_at)
  SELECT {key}, coalesce(%(now)s, now()), coalesce(%(now)s, now()) FROM gone ON CONFLICT (object_key) DO NOTHING
)"""

# Few rows are blocked for long, so that the oldest deletable row is among the first thousand.
_USE: LiteralString = """
SELECT whole.rows, whole.bytes, (
         SELECT {time} FROM (
           SELECT {time}, {key}, {blocked} AS is_blocked FROM {table} AS kept
           WHERE {where} AND {time} IS NOT NULL ORDER BY {time}, {key} LIMIT 1000) AS first
         WHERE NOT is_blocked ORDER BY {time}, {key} LIMIT 1) AS oldest_at,
       last_day.rows AS rows_a_day, {bytes_a_day} AS bytes_a_day
FROM ({whole}) AS whole, (
  SELECT count(*) AS rows, {sum} AS bytes FROM (
    SELECT * FROM {table} WHERE {where} AND {time} > coalesce(%(now)s, now()) - interval '1 day'
      AND {time} <= coalesce(%(now)s, now()) ORDER BY {time} LIMIT 1000000) AS bounded) AS last_day"""

# OFFSET 0 keeps the planner from reading the whole table of blockers into a hash.
_BLOCKED: LiteralString = """(SELECT FROM {table} AS other WHERE other.{column} = kept.{own} AND {where} OFFSET 0)"""


@cache
def _compose(one: TableClass) -> Mapping[str, LiteralString]:
    parts: dict[str, sql.Composable] = {
        "table": sql.Identifier(one.table),
        "time": sql.Identifier(one.time),
        "key": sql.Identifier(one.key),
        "where": sql.SQL(one.where),
        "blocked": _blocked(one),
    }
    composed = {
        f"due_{one.name}": sql.SQL(_DUE).format(**parts),
        f"delete_{one.name}": _delete(one, parts),
        f"use_of_{one.name}": _use(one, parts),
    }
    return {name: statement.as_string().strip() for name, statement in composed.items()}


def _blocked(one: TableClass) -> sql.Composable:
    """The condition that something blocks the row `kept`."""
    found = [
        sql.SQL("NOT EXISTS " if other.absent else "EXISTS ")
        + sql.SQL(_BLOCKED).format(
            table=sql.Identifier(other.table),
            column=sql.Identifier(other.column),
            own=sql.Identifier(other.own or one.key),
            where=sql.SQL(other.where),
        )
        for other in one.blocked_by
    ]
    return sql.SQL("({})").format(sql.SQL(" OR ").join(found)) if found else sql.SQL("false")


def _delete(one: TableClass, parts: Mapping[str, sql.Composable]) -> sql.Composable:
    objects = one.owned_objects
    names = [sql.Identifier(f"{table}_gone") for table in one.owned_rows]
    owned: list[sql.Composable] = [
        sql.SQL(_OWNED_ROWS).format(name=name, table=sql.Identifier(table), key=parts["key"])
        for name, table in zip(names, one.owned_rows, strict=True)
    ]
    if objects is not None:
        owned.append(sql.SQL(_OWNED_OBJECTS).format(table=sql.Identifier(objects.deletion_list), key=parts["key"]))
    page: LiteralString = (
        "ORDER BY {time} FETCH FIRST (%(limit)s) ROWS WITH TIES"
        if one.whole_moments
        else "ORDER BY {time}, {key} LIMIT %(limit)s"
    )
    return sql.SQL(_DELETE).format(
        **parts,
        key_type=sql.SQL(one.key_type),
        least_key=sql.SQL(_LEAST_KEY[one.key_type]),
        page=sql.SQL(page).format(time=parts["time"], key=parts["key"]),
        size=sql.SQL("pg_column_size(kept.*)") if objects is None else sql.Identifier(objects.size_column),
        owned=sql.Composed(owned),
        all_gone=sql.SQL(" UNION ALL ").join(
            sql.SQL("SELECT bytes FROM {}").format(name) for name in (sql.Identifier("gone"), *names)
        ),
    )


def _use(one: TableClass, parts: Mapping[str, sql.Composable]) -> sql.Composable:
    """Rows with objects are counted, and the sizes of their objects are added up; tables are estimated."""
    if one.owned_objects is not None:
        total = sql.SQL("coalesce(sum({}), 0)").format(sql.Identifier(one.owned_objects.size_column))
        whole = sql.SQL("SELECT count(*) AS rows, {sum} AS bytes FROM {table} WHERE {where}").format(
            sum=total, table=parts["table"], where=parts["where"]
        )
        return sql.SQL(_USE).format(**parts, whole=whole, sum=total, bytes_a_day=sql.SQL("last_day.bytes"))
    tables = (one.table, *one.owned_rows, *one.also_measured)
    sizes = sql.SQL(" + ").join(sql.SQL("bytes_of({})").format(sql.Literal(table)) for table in tables)
    whole = sql.SQL("SELECT rows_of({}) AS rows, {} AS bytes").format(sql.Literal(one.table), sizes)
    average = sql.SQL("last_day.rows * (whole.bytes / greatest(whole.rows, 1)::float8)")
    return sql.SQL(_USE).format(**parts, whole=whole, sum=sql.SQL("0"), bytes_a_day=average)
