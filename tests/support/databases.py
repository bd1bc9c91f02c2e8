"""Databases with the current schema, copied from the session's template; one is emptied and used again."""

from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from dpp_cli.local.servers import PostgresServer
from tests.support.saved_tables import SavedTables
from tests.support.sessions import SESSIONS

ADMIN = "test_support"
"""The application name of the session that empties a database; it stays open between tests."""
_TEMPLATE = "template_dpp"
_MAX_USES = 50
"""Emptying leaves dead rows behind; after so many tests a new database takes over."""
_NOTE_DDL = """
CREATE SCHEMA test_support;
CREATE TABLE test_support.ddl ();
CREATE FUNCTION test_support.note_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER AS
  'BEGIN
     IF (SELECT bool_and(schema_name = ''pg_temp'') FROM pg_event_trigger_ddl_commands()) IS DISTINCT FROM true THEN
       INSERT INTO test_support.ddl DEFAULT VALUES;
     END IF;
   END';
CREATE EVENT TRIGGER note_ddl ON ddl_command_end EXECUTE FUNCTION test_support.note_ddl()
"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> ALL (%s)
"""
_RESTART_SEQUENCES = """
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL
"""


def prepare_template(server: PostgresServer) -> None:
    """Keep the rows that the migrations insert, and have the schema's changes noted."""
    with psycopg.connect(server.url(_TEMPLATE), autocommit=True) as admin:
        SavedTables(admin).save("migrated")
        admin.execute(_NOTE_DDL)


def new_database(server: PostgresServer) -> str:
    """The URL of a new database with the schema and no rows; it lasts as long as its server."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(_TEMPLATE)))
    return server.url(name)


class ReusedDatabase:
    """A database for one test at a time. After a test that changes more than temporary tables there is a new one."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._url = ""
        self._uses = 0
        self._admin: psycopg.Connection[TupleRow] | None = None

    def url(self) -> str:
        """An empty database."""
        if self._uses == 0 or self._uses >= _MAX_USES or not self._empty():
            self.drop()
            self._url, self._uses = new_database(self._server), 0
            SESSIONS.databases.add(self._url)
        self._uses += 1
        return self._url

    def _empty(self) -> bool:
        """Return whether the database is as it was when it was created."""
        try:
            admin = self._alone()
        except psycopg.OperationalError:  # a test has ended every session
            self._admin = None
            admin = self._alone()
        if admin.execute("SELECT FROM test_support.ddl LIMIT 1").fetchone() is not None:
            return False
        self._tables.restore("migrated")
        admin.execute(_RESTART_SEQUENCES)
        return True

    def _alone(self) -> psycopg.Connection[TupleRow]:
        """The session that empties the database, after every other has ended that a test may have left in use."""
        if self._admin is None:
            self._admin = psycopg.connect(self._url, autocommit=True, application_name=ADMIN)
            self._tables = SavedTables.of_schema(self._admin, "migrated")
        self._admin.execute(_END_OTHERS, [SESSIONS.pids(self._url)])
        return self._admin

    def drop(self) -> None:
        """Drop the database and end its sessions."""
        if self._url:
            SESSIONS.end(self._url)
            if self._admin is not None:
                self._admin.close()
                self._admin = None
            name = sql.Identifier(self._url.rpartition("/")[2])
            with psycopg.connect(self._server.url(), autocommit=True) as admin:
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
            self._url, self._uses = "", 0
