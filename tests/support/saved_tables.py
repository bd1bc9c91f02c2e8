"""Rows of a database, emptied, saved and restored between tests: faster than a new database for each."""

from collections.abc import Sequence
from typing import Any, Self

import psycopg

_ALL_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
  AND NOT relispartition AND relname <> 'alembic_version' ORDER BY relname
"""


class SavedTables:
    """The platform's tables, or those given. No trigger fires and no foreign key is checked."""

    def __init__(self, admin: psycopg.Connection[Any], tables: Sequence[str] = ()) -> None:
        self._admin = admin
        self._tables = tables or [row[0] for row in admin.execute(_ALL_TABLES)]
        self._saved: dict[str, list[str]] = {}

    @classmethod
    def of_schema(cls, admin: psycopg.Connection[Any], name: str) -> Self:
        """All tables, with the rows that another instance saved under this name."""
        tables = cls(admin)
        rows = admin.execute("SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace", [name])
        tables._saved[name] = [row[0] for row in rows]
        return tables

    def empty(self) -> None:
        """Delete all rows."""
        self._execute(*self._deletes())

    def save(self, name: str) -> None:
        """Keep a copy of all rows under this name."""
        filled = self._filled()
        self._execute(
            f'CREATE SCHEMA "{name}"', *(f'CREATE TABLE "{name}".{one} AS TABLE public.{one}' for one in filled)
        )
        self._saved[name] = filled

    def restore(self, name: str) -> None:
        """Replace all rows by those saved under this name."""
        copies = (
            f'INSERT INTO public.{one} OVERRIDING SYSTEM VALUE SELECT * FROM "{name}".{one}'
            for one in self._saved[name]
        )
        self._execute(*self._deletes(), *copies)

    def __contains__(self, name: str) -> bool:
        return name in self._saved

    def _filled(self) -> list[str]:
        return [one for one in self._tables if self._admin.execute(f"SELECT 1 FROM {one} LIMIT 1".encode()).fetchone()]

    def _deletes(self) -> list[str]:
        return [f"DELETE FROM public.{one}" for one in self._tables]

    def _execute(self, *statements: str) -> None:
        whole = ("SET session_replication_role = replica", *statements, "SET session_replication_role = origin")
        self._admin.execute(";".join(whole).encode())
